//! A task's history in a file of its own: to be gone through where its database isn't.
//!
//! JSON lines: a [`Head`], then a [`Told`] for each event, in the order of positions. Values that the event
//! schemas mark `x-private` are `"[redacted]"`; texts (descriptions, comments, output) are not in it,
//! only their digests.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::domain::codec::{self, CodecError};
use crate::domain::{Actor, Envelope, Family, StreamKey};
use crate::kernel::ids::{CommandId, CorrelationId, EventId, TaskId, WorkspaceId};

/// What the first line's `format` says.
pub const FORMAT: &str = "multica.bundle";
/// The newest version of the format, and the only one so far.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The task.
    pub task: TaskId,
    /// `GAME-12#3`.
    pub name: String,
    /// The log's head when it was made.
    pub position: i64,
    /// When it was made.
    pub exported_at: Timestamp,
    /// The build that made it.
    pub server_version: String,
}

/// An event's line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Its position in its log.
    pub position: i64,
    /// Whose.
    pub workspace: WorkspaceId,
    /// The stream's family.
    pub family: String,
    /// The stream's id.
    pub stream: Uuid,
    /// Its version in the stream.
    pub version: i32,
    /// Its id.
    pub event_id: EventId,
    /// The command that wrote it.
    pub command_id: CommandId,
    /// The intent it follows from.
    pub correlation: CorrelationId,
    /// The position of the event that caused it.
    pub causation: Option<i64>,
    /// `task.started`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The version of its schema.
    pub schema_version: i16,
    /// Who did it.
    pub actor: Actor,
    /// What people called the actor then.
    pub actor_name: String,
    /// The actor's clock.
    pub occurred_at: Timestamp,
    /// The database's clock.
    pub recorded_at: Timestamp,
    /// Its payload, redacted.
    pub data: Value,
    /// What it says, as a sentence, with the names of then.
    pub text: String,
    /// Whether it belongs to the task's story; the others are there so that the streams are whole.
    pub of_story: bool,
}

/// An event of a bundle that this build can't read.
#[derive(Debug, thiserror::Error)]
pub enum ToldError {
    /// The payload isn't known.
    #[error("this build can't read it")]
    Codec(#[from] CodecError),
    /// The family isn't known.
    #[error("no build knows the family `{0}`")]
    Family(String),
}

impl Told {
    /// The event as the rest of the program knows it.
    ///
    /// # Errors
    /// [`ToldError`].
    pub fn envelope(&self) -> Result<Envelope, ToldError> {
        let family = Family::from_name(&self.family).ok_or_else(|| ToldError::Family(self.family.clone()))?;
        let event = codec::decode(&self.event_type, self.schema_version, &self.data.to_string())?;
        Ok(Envelope {
            position: Some(self.position),
            workspace: self.workspace,
            stream: StreamKey::new(family, self.stream),
            version: self.version,
            event_id: self.event_id,
            command_id: self.command_id,
            correlation: self.correlation,
            causation: self.causation,
            actor: self.actor.clone(),
            occurred_at: self.occurred_at,
            recorded_at: Some(self.recorded_at),
            event,
        })
    }
}

/// Why a file is no bundle that can be opened.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The first line is something else.
    #[error("this is no bundle: its first line doesn't say `{FORMAT}`")]
    NoBundle,
    /// A newer build made it.
    #[error("this bundle has version {0}; this build knows {VERSION}")]
    Newer(u32),
    /// A line is cut off or changed.
    #[error("line {line} of the bundle can't be read")]
    Line {
        /// From 1.
        line: usize,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// Reads a whole bundle.
///
/// # Errors
/// [`BundleError`].
pub fn read(text: &str) -> Result<(Head, Vec<Told>), BundleError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, first) = lines.next().ok_or(BundleError::NoBundle)?;
    let said: Value = serde_json::from_str(first).map_err(|_| BundleError::NoBundle)?;
    if said["format"] != FORMAT {
        return Err(BundleError::NoBundle);
    }
    match said["version"].as_u64().and_then(|version| u32::try_from(version).ok()) {
        Some(VERSION) => {}
        other => return Err(BundleError::Newer(other.unwrap_or(u32::MAX))),
    }
    let head = serde_json::from_value(said).map_err(|source| BundleError::Line { line: 1, source })?;
    let told = lines
        .map(|(n, line)| {
            serde_json::from_str(line).map_err(|source| BundleError::Line { line: n + 1, source })
        })
        .collect::<Result<_, _>>()?;
    Ok((head, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_bundle_is_said_to_be_none() {
        for text in ["", "\n\n", "x", "[]", "{}", r#"{"format":"tar"}"#] {
            assert!(matches!(read(text), Err(BundleError::NoBundle)), "{text}");
        }
        let newer = format!(r#"{{"format":"{FORMAT}","version":2}}"#);
        assert!(matches!(read(&newer), Err(BundleError::Newer(2))));
        let head = Head {
            format: FORMAT.to_owned(),
            version: VERSION,
            task: TaskId(Uuid::from_u128(1)),
            name: "GAME-1#1".to_owned(),
            position: 9,
            exported_at: Timestamp::UNIX_EPOCH,
            server_version: "0.1.0".to_owned(),
        };
        let cut = format!("{}\n\n{{\"position\":", serde_json::to_string(&head).expect("json"));
        assert!(matches!(read(&cut), Err(BundleError::Line { line: 3, .. })));
        let whole = format!("{}\n", serde_json::to_string(&head).expect("json"));
        assert_eq!(read(&whole).expect("a bundle"), (head, Vec::new()));
    }
}
