//! Seals and what a verification says.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::operation::SealPlaceKind;

/// The hash of the log's last block at one moment: who keeps it elsewhere can tell later whether the log up
/// to there is still what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// How the hash is computed.
    pub format: u8,
    /// Whose log: the id of the installation's key.
    pub installation: String,
    /// Which of its logs.
    pub log: i32,
    /// The position that the block ends at.
    pub position: i64,
    /// The block's hash, in lower-case hexadecimal.
    pub block: String,
    /// When, by the server's clock.
    pub sealed_at: Timestamp,
}

/// Asks the server to record a seal that the caller put somewhere, or, without one, to seal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealRequest {
    /// The seal that was put somewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put: Option<PutSeal>,
}

/// See [`SealRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutSeal {
    /// Its position.
    pub position: i64,
    /// Its block's hash.
    pub block: String,
    /// Where it was put.
    pub place: SealPlaceKind,
}

/// What a seal came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealDone {
    /// The sealed position.
    pub position: i64,
    /// The block's hash.
    pub block: String,
    /// Where the seal is.
    pub places: Vec<SealPlaceKind>,
    /// The position of the event that tells of it.
    pub recorded: i64,
}

/// Asks for a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyRequest {
    /// Seals that lie outside, as (position, hash).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seals: Vec<(i64, String)>,
    /// Whether the answer is lines of JSON that tell how far it is, the last of them the result.
    #[serde(default)]
    pub progress: bool,
}

/// How far a verification is, or what it came to: one line of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyLine {
    /// How far it is with what.
    At {
        /// The log, or a read model's name.
        what: String,
        /// How much is done.
        done: i64,
        /// Of how much.
        of: i64,
    },
    /// The result, as an answer without lines has it.
    Done(serde_json::Value),
    /// It can't be had: the problem document.
    Failed(serde_json::Value),
}
