//! Read model `audit_trail`: who did what, by which way, as part of which intent.
//!
//! Rows: `event/<position, 19 digits>`, an [`AuditRow`]; `subject/<stream id>`, a [`SubjectRow`] that knows
//! what a task or an issue belongs to. Sentences and texts are read from the log and from contents when they
//! are asked for: an erased text is gone from the trail at once.
//!
//! Not here: refused commands, which are no events (`store::refused`).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::activity_feed::{SubjectRow, subject, subject_keys};
use super::{FoldError, Mode, ReadModel, Rows};
use crate::domain::{Actor, Envelope, Family, codec};
use crate::kernel::ids::{CommandId, CorrelationId, EventId};

const NAME: &str = "audit_trail";

/// See the module.
pub struct AuditTrail;

/// One event, as the auditor sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// The log's position.
    pub event_position: i64,
    /// The event's own id.
    pub event_id: EventId,
    /// `<family>.<name>`.
    pub event_type: String,
    /// The stream's family.
    pub family: Family,
    /// The stream.
    pub stream: Uuid,
    /// Who did it, by which way.
    pub actor: Actor,
    /// The command that wrote it.
    pub command: CommandId,
    /// The user's intent.
    pub correlation: CorrelationId,
    /// The position of the event that caused the command.
    pub causation: Option<i64>,
    /// The actor's clock, microseconds since 1970.
    pub occurred_at: i64,
    /// What it is about.
    pub subject: SubjectRow,
}

fn key(position: i64) -> String {
    format!("event/{position:019}")
}

impl ReadModel for AuditTrail {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> u32 {
        2
    }

    fn mode(&self) -> Mode {
        Mode::Follower
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        let mut keys = vec![key(event.position.unwrap_or_default())];
        keys.extend(subject_keys(event));
        keys
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let key = key(event.position.unwrap_or_default());
        let poison = |reason: String| FoldError { read_model: NAME, key: key.clone(), reason };
        let position = event.position.ok_or_else(|| poison("the event has no position".to_owned()))?;
        let row = AuditRow {
            event_position: position,
            event_id: event.event_id,
            event_type: codec::event_type(&event.event).map_err(|error| poison(error.to_string()))?,
            family: event.stream.family,
            stream: event.stream.id,
            actor: event.actor.clone(),
            command: event.command_id,
            correlation: event.correlation,
            causation: event.causation,
            occurred_at: event.occurred_at.as_microsecond(),
            subject: subject(NAME, rows, event)?,
        };
        rows.put(&key, event.workspace, row);
        Ok(())
    }
}
