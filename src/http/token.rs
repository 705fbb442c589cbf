//! Tokens: random ones for members and daemons, computed ones for tasks.
//!
//! Invariants: a random token is nowhere but in the answer that issued it; a task's token is never
//! stored: it is computed from the task, its claim and the instance key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretBox};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::kernel::digest;
use crate::kernel::ids::TaskId;
use crate::kernel::mac::{hmac, subkey};

/// Prefix of a member's token.
pub const MEMBER: &str = "mul_";
/// Prefix of a daemon's token.
pub const DAEMON: &str = "mdt_";
/// Prefix of a task's token.
pub const TASK: &str = "mat_";

const TASK_LABEL: &[u8] = b"task-token/1";

/// The instance key and what is derived from it.
pub struct InstanceKey {
    key_id: String,
    task_key: SecretBox<[u8; 32]>,
}

impl InstanceKey {
    /// Derives the subkeys of the installation's 32 bytes.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Self {
        let key_id = digest::hex(&digest::sha256_plain(bytes)[..8]);
        Self { key_id, task_key: SecretBox::new(Box::new(subkey(bytes, TASK_LABEL))) }
    }

    /// The key's public name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.key_id
    }

    /// The token of one claim of one task.
    #[must_use]
    pub fn task_token(&self, task: TaskId, generation: u32) -> String {
        let mut bytes = claim_bytes(task, generation);
        bytes.extend_from_slice(&hmac(self.task_key.expose_secret(), &[&claim_bytes(task, generation)]));
        format!("{TASK}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Which claim a token is for; none when it isn't one of ours.
    #[must_use]
    pub fn read_task_token(&self, token: &str) -> Option<(TaskId, u32)> {
        let bytes = URL_SAFE_NO_PAD.decode(token.strip_prefix(TASK)?).ok()?;
        let (claim, mac) = bytes.split_at_checked(20)?;
        let expected = hmac(self.task_key.expose_secret(), &[claim]);
        if !bool::from(expected.ct_eq(mac)) {
            return None;
        }
        let task = TaskId(Uuid::from_slice(&claim[..16]).ok()?);
        let generation = u32::from_be_bytes(claim[16..].try_into().ok()?);
        Some((task, generation))
    }
}

fn claim_bytes(task: TaskId, generation: u32) -> Vec<u8> {
    let mut bytes = task.0.as_bytes().to_vec();
    bytes.extend_from_slice(&generation.to_be_bytes());
    bytes
}

/// A fresh random token: what is shown once, and the digest that is kept.
#[must_use]
pub fn fresh(prefix: &str, random: [u8; 32]) -> (String, String) {
    let token = format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random));
    let sha256 = sha256(&token);
    (token, sha256)
}

/// Lower-case hexadecimal SHA-256 of a token.
#[must_use]
pub fn sha256(token: &str) -> String {
    digest::hex(&digest::sha256_plain(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_token_names_its_claim_and_no_bit_of_it_can_be_changed() {
        let key = InstanceKey::new(&[7; 32]);
        let task = TaskId(Uuid::from_u128(42));
        let token = key.task_token(task, 3);
        assert_eq!(key.read_task_token(&token), Some((task, 3)));
        assert_eq!(InstanceKey::new(&[8; 32]).read_task_token(&token), None);
        let body = URL_SAFE_NO_PAD.decode(&token[4..]).expect("base64");
        for bit in 0..body.len() * 8 {
            let mut changed = body.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = format!("{TASK}{}", URL_SAFE_NO_PAD.encode(changed));
            assert_eq!(key.read_task_token(&changed), None, "bit {bit}");
        }
    }
}
