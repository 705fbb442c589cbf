//! What was, or would be, taken away for good.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Names whose texts are to be erased: one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErasureRequest {
    /// A member, by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// A task, by any reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

/// What an erasure took, or would take now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// `person` or `task`.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// What it is called; a person, once erased, by the id.
    pub label: String,
    /// Texts, by what they are.
    pub kinds: BTreeMap<String, u64>,
    /// Texts in all.
    pub texts: u64,
    /// Transcripts.
    pub transcripts: u64,
    /// Messages in them.
    pub messages: u64,
    /// The position of the last event that tells of it; none where nothing has been erased.
    pub position: Option<i64>,
}

/// How long transcripts are kept, and what is older.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// For how many days the server keeps them; none: for ever.
    pub days: Option<u32>,
    /// The days that the rest is counted for; none where none were named and the server keeps all.
    pub counted_for: Option<u32>,
    /// Transcripts of tasks that are over, older than that.
    pub transcripts: u64,
    /// Messages in them.
    pub messages: u64,
}

/// Why a transcript is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoneTranscript {
    /// The position of the event that tells of it.
    pub position: i64,
    /// Since when.
    pub at: Timestamp,
    /// For how many days it was kept; none where it was erased.
    pub days: Option<u32>,
    /// The same for people.
    pub sentence: String,
}
