//! How a rule says no, and how a stream says that it can't be.

use serde::{Deserialize, Serialize};

use super::StreamKey;

/// What sort of no it is; `http` maps it to a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The request can't be right, whatever the state (400).
    Invalid,
    /// The named thing isn't there, or not for this actor (404).
    NotFound,
    /// The actor may not (403).
    Forbidden,
    /// The state doesn't allow it (409).
    Conflict,
    /// A machine or a version can't do it (422).
    Unprocessable,
}

/// A rule's no: a stable code, a sentence and a next step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[error("{sentence}")]
pub struct Refusal {
    /// What sort of no it is.
    pub kind: RefusalKind,
    /// Stable snake_case code for scripts.
    pub code: String,
    /// A sentence for people, without secrets and without paths that the reader may not see.
    pub sentence: String,
    /// What to do now.
    pub next_step: String,
}

impl Refusal {
    /// Builds a refusal.
    pub fn new(
        kind: RefusalKind,
        code: &'static str,
        sentence: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Self {
        Self { kind, code: code.to_owned(), sentence: sentence.into(), next_step: next_step.into() }
    }

    /// The request can't be right.
    pub fn invalid(code: &'static str, sentence: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self::new(RefusalKind::Invalid, code, sentence, next_step)
    }

    /// The named thing isn't there.
    #[must_use]
    pub fn not_found(what: &'static str) -> Self {
        Self::new(
            RefusalKind::NotFound,
            "not_found",
            format!("{what} not found"),
            "List what there is and use an id or name from there.",
        )
    }

    /// The state doesn't allow it.
    pub fn conflict(code: &'static str, sentence: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self::new(RefusalKind::Conflict, code, sentence, next_step)
    }
}

/// A stream holds an event that can't follow what came before: the log is corrupt there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stream {}/{} can't hold {event_type} at version {version}", .stream.family.name(), .stream.id)]
pub struct Impossible {
    /// The stream.
    pub stream: StreamKey,
    /// The version at which it stopped making sense.
    pub version: i32,
    /// The event's type.
    pub event_type: String,
}
