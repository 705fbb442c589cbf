//! Signatures as Standard Webhooks 1.0 has them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::kernel::mac::hmac;

/// What a secret begins with where it is shown.
pub const PREFIX: &str = "whsec_";

/// A secret as it is shown, once.
#[must_use]
pub fn shown(secret: &[u8]) -> String {
    format!("{PREFIX}{}", STANDARD.encode(secret))
}

/// The signatures over a delivery, one for each secret, the newest first.
#[must_use]
pub fn signatures(secrets: &[Vec<u8>], id: &str, timestamp: i64, body: &[u8]) -> String {
    let head = format!("{id}.{timestamp}.");
    let each = secrets.iter().map(|secret| {
        let mac = hmac(secret, &[head.as_bytes(), body]);
        format!("v1,{}", STANDARD.encode(mac))
    });
    each.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_one_that_openssl_computes() {
        // printf '%s' 'msg_1.1700000000.{"a":1}' | openssl dgst -sha256 -binary \
        //   -mac HMAC -macopt hexkey:000102…1f | base64
        let secret: Vec<u8> = (0..32).collect();
        let one = signatures(std::slice::from_ref(&secret), "msg_1", 1_700_000_000, br#"{"a":1}"#);
        assert_eq!(one, EXPECTED);
        let two = signatures(&[vec![9; 32], secret.clone()], "msg_1", 1_700_000_000, br#"{"a":1}"#);
        assert!(two.ends_with(&format!(" {EXPECTED}")) && two.starts_with("v1,"), "{two}");
        assert_eq!(shown(&secret), "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
    }

    const EXPECTED: &str = "v1,AMaOha7DUT/0J0JMycRuYOBSvbx3WtwLd2khXXbaVj4=";
}
