//! What can happen to the installation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kernel::ids::{ContentId, TaskId, UserId};

/// What happened to the installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum OperationEvent {
    /// A server started on this log.
    Started(Started),
    /// A read model was rebuilt from the log.
    ReadModelRebuilt(ReadModelRebuilt),
    /// A follower passed over an event it could not fold, by an operator's word.
    EventSkipped(EventSkipped),
    /// The log was verified.
    Verified(Verified),
    /// The log was sealed: the hash of its last block lies outside the database.
    Sealed(Sealed),
    /// A part of the audit trail was given out.
    ExportMade(ExportMade),
    /// Texts of a person or a task are gone for good; the same append took them away.
    Erased(Erased),
    /// Transcripts older than the installation keeps them are gone; the same append hid them.
    TranscriptsRemoved(TranscriptsRemoved),
}

/// See [`OperationEvent::Started`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Started {
    /// The program's version.
    pub version: String,
    /// Lower-case hexadecimal of the first eight bytes of the instance key's SHA-256.
    pub instance_key_id: String,
}

/// See [`OperationEvent::ReadModelRebuilt`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReadModelRebuilt {
    /// Its name.
    pub read_model: String,
    /// Its version.
    pub version: u32,
    /// The position up to which it was folded.
    pub up_to: i64,
    /// Its rows then.
    pub rows: u64,
}

/// See [`OperationEvent::EventSkipped`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventSkipped {
    /// The read model that could not fold it.
    pub read_model: String,
    /// The event's position.
    pub position: i64,
    /// Why it could not be folded.
    pub reason: String,
}

/// See [`OperationEvent::Verified`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verified {
    /// The last position looked at.
    pub up_to: i64,
    /// Blocks whose hash was recomputed.
    pub blocks: u64,
    /// Texts that events refer to and that were erased.
    pub erased: u64,
    /// Read models that were compared with the log.
    pub read_models: u32,
    /// How many things were wrong.
    pub found: u64,
    /// The first of them, one sentence each; empty when all was right.
    pub findings: Vec<String>,
}

/// See [`OperationEvent::Sealed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sealed {
    /// The position that the sealed block ends at.
    pub up_to: i64,
    /// The block's hash, in lower-case hexadecimal.
    pub block: String,
    /// Where the seal was put.
    pub place: SealPlaceKind,
}

/// What a place for seals is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SealPlaceKind {
    /// A line in a file.
    File,
    /// A tag in a Git repository.
    Git,
}

/// See [`OperationEvent::ExportMade`]. It is recorded before the first entry leaves: an export that breaks off
/// was made too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExportMade {
    /// `jsonl` or `csv`.
    pub format: String,
    /// The place after which it begins: a position, or a refused command's behind one.
    pub after: String,
    /// The last position in it.
    pub up_to: i64,
    /// What it was narrowed to, by the name of the filter, ids instead of names.
    pub filters: BTreeMap<String, String>,
    /// Whether only entries with certain words were wanted; which ones isn't kept.
    pub searched: bool,
}

/// See [`OperationEvent::Erased`]. What takes long is several such events of one intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Erased {
    /// Whose texts they were.
    pub of: ErasedOf,
    /// The texts, by id: their events keep length and digest.
    pub contents: Vec<ContentId>,
    /// How many there were of what: `issue title`.
    pub kinds: BTreeMap<String, u64>,
    /// Transcripts that went with them.
    pub transcripts: Vec<GoneTranscript>,
}

/// Whose texts were erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", content = "id", rename_all = "snake_case")]
pub enum ErasedOf {
    /// A person's.
    Person(UserId),
    /// A task's.
    Task(TaskId),
}

/// A transcript that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GoneTranscript {
    /// Whose.
    pub task: TaskId,
    /// Of which claim.
    pub generation: u32,
    /// How many messages it had.
    pub messages: u64,
}

/// See [`OperationEvent::TranscriptsRemoved`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TranscriptsRemoved {
    /// For how many days the installation keeps them.
    pub days: u32,
    /// Those that went.
    pub transcripts: Vec<GoneTranscript>,
}
