//! Secrets at rest: locked with a key that is not in the database, and opened again.
//!
//! Invariants: a locked secret opens only under its own workspace and name, so that a row that was moved opens
//! nothing; each is locked with a nonce of its own.
//!
//! Not here: where they lie (`store::secrets`).

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use secrecy::{ExposeSecret, SecretBox};

use crate::kernel::ids::{SecretId, WebhookId, WorkspaceId};
use crate::kernel::mac::subkey;
use crate::store::secrets::Sealed;

const LABEL: &[u8] = b"secrets/1";
const NONCE: usize = 24;

/// What a webhook's secret is called in the table of secrets.
#[must_use]
pub fn of_webhook(webhook: WebhookId, secret: SecretId) -> String {
    format!("{}{secret}", all_of_webhook(webhook))
}

/// What the names of all of a webhook's secrets begin with.
#[must_use]
pub fn all_of_webhook(webhook: WebhookId) -> String {
    format!("webhook/{webhook}/")
}

/// Locks and opens secrets.
pub struct Locksmith {
    key_id: String,
    key: SecretBox<[u8; 32]>,
}

impl Locksmith {
    /// The one of an installation's key.
    #[must_use]
    pub fn new(instance_key: &[u8; 32], key_id: &str) -> Self {
        Self { key_id: key_id.to_owned(), key: SecretBox::new(Box::new(subkey(instance_key, LABEL))) }
    }

    /// Locks a secret for its place; none when it can't be.
    #[must_use]
    pub fn lock(
        &self,
        workspace: WorkspaceId,
        name: &str,
        random: [u8; 32],
        secret: &[u8],
    ) -> Option<Sealed> {
        let place = place(workspace, name);
        let nonce = &random[..NONCE];
        let payload = Payload { msg: secret, aad: &place };
        let locked = self.cipher().encrypt(&XNonce::try_from(nonce).ok()?, payload).ok()?;
        Some(Sealed { key_id: self.key_id.clone(), bytes: [nonce, &locked].concat() })
    }

    /// Opens a secret at its place; none when it is another key's, another place's, or damaged.
    #[must_use]
    pub fn open(&self, workspace: WorkspaceId, name: &str, sealed: &Sealed) -> Option<Vec<u8>> {
        if sealed.key_id != self.key_id {
            return None;
        }
        let (nonce, locked) = sealed.bytes.split_at_checked(NONCE)?;
        let place = place(workspace, name);
        self.cipher().decrypt(&XNonce::try_from(nonce).ok()?, Payload { msg: locked, aad: &place }).ok()
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(self.key.expose_secret().into())
    }
}

fn place(workspace: WorkspaceId, name: &str) -> Vec<u8> {
    [workspace.0.as_bytes(), name.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_secret_opens_at_its_own_place_with_its_own_key_and_unchanged() {
        let (here, elsewhere) = (WorkspaceId(Uuid::from_u128(1)), WorkspaceId(Uuid::from_u128(2)));
        let smith = Locksmith::new(&[1; 32], "one");
        let locked = smith.lock(here, "a", [3; 32], b"hush").expect("locked");
        assert!(!locked.bytes.windows(4).any(|some| some == b"hush"));
        assert_eq!(smith.open(here, "a", &locked), Some(b"hush".to_vec()));
        assert_eq!(smith.open(here, "b", &locked), None);
        assert_eq!(smith.open(elsewhere, "a", &locked), None);
        assert_eq!(Locksmith::new(&[2; 32], "one").open(here, "a", &locked), None);
        assert_eq!(Locksmith::new(&[1; 32], "two").open(here, "a", &locked), None);
        for byte in 0..locked.bytes.len() {
            let mut changed = locked.clone();
            changed.bytes[byte] ^= 1;
            assert_eq!(smith.open(here, "a", &changed), None, "byte {byte}");
        }
        let short = Sealed { bytes: vec![0; 10], ..locked };
        assert_eq!(smith.open(here, "a", &short), None);
    }
}
