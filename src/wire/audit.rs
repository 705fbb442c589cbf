//! The audit trail's entries.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::feed::Entry;

/// Names the place after which an export begins, in its answer.
pub const EXPORT_AFTER: &str = "x-multica-export-after";
/// Names the last position of an export, in its answer.
pub const EXPORT_UP_TO: &str = "x-multica-export-up-to";

/// One entry: an event, or a command that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Where it stands: `before` and `after` take it.
    pub cursor: String,
    /// `done`, `ignored` or `refused`.
    pub outcome: String,
    /// As the feed tells it. A refused command has the position of the event that it came behind, and what
    /// was asked for as its type.
    #[serde(flatten)]
    pub entry: Entry,
    /// The intent that it follows from.
    pub correlation: String,
    /// The command.
    pub command: String,
    /// The position of the event that caused the command.
    pub causation: Option<i64>,
    /// Why it was refused.
    pub reason: Option<Reason>,
    /// The event's data without what the reader may not see; in exports and for one event only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// Why a command was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Stable code.
    pub code: String,
    /// A sentence.
    pub sentence: String,
    /// What to do.
    pub next_step: String,
}

/// How far back a search has looked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The place of the last entry looked at.
    pub cursor: String,
    /// Its position.
    pub position: i64,
    /// When it was recorded.
    pub recorded_at: String,
}

/// A page of the trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditPage {
    /// Newest first.
    pub entries: Vec<AuditEntry>,
    /// `before` of the next page; none on the last one.
    pub next: Option<String>,
    /// With `q`: how far back was looked; none when that is the whole trail.
    pub searched_to: Option<Reached>,
    /// The last position that the trail shows.
    pub head: i64,
}

/// One event, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEvent {
    /// Its entry.
    #[serde(flatten)]
    pub entry: AuditEntry,
    /// Its own id.
    pub event_id: String,
    /// Its number in its stream.
    pub version: i32,
    /// The version of its schema.
    pub schema_version: i16,
    /// The id of its schema.
    pub schema: String,
    /// What the writer noted beside it.
    pub meta: Value,
}
