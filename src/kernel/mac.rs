//! HMAC-SHA-256, and the keys that are derived by it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::digest::sha256_plain;

/// HMAC-SHA-256 over parts, one after the other.
#[must_use]
pub fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // A key of any length is taken: a longer one than a block is digested, a shorter one padded with zeros.
    let mut block = [0; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&sha256_plain(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let mut mac = <Hmac<Sha256> as KeyInit>::new(&block.into());
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// HKDF-SHA-256 (RFC 5869) without salt, one block: extract, then expand with the label.
#[must_use]
pub fn subkey(key: &[u8; 32], label: &[u8]) -> [u8; 32] {
    let extracted = hmac(&[0; 32], &[key]);
    hmac(&extracted, &[label, &[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::digest::hex;

    #[test]
    fn the_mac_is_that_of_rfc_4231() {
        let short = hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
        assert_eq!(hex(&short), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = hmac(&[0xaa; 131], &[b"Test Using Larger Than Block-Size Key - Hash Key First"]);
        assert_eq!(hex(&long), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn the_subkey_is_hkdf() {
        // RFC 5869's construction, written out with the same primitive in another way.
        let key = [1; 32];
        let prk = hmac(&[0; 32], &[&key]);
        assert_eq!(subkey(&key, b"x"), hmac(&prk, &[b"x\x01"]));
    }
}
