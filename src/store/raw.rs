//! An event as its row, and the hashes over it.
//!
//! Invariants: a leaf covers every column that the program knows before the append; position, log and
//! recorded_at are covered by the block's hash.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{Corruption, LOG, StoreError};
use crate::domain::codec::CodecError;
use crate::domain::codec::{self, Encoded};
use crate::domain::upcast::{UPCASTERS, Upcaster};
use crate::domain::{Actor, Envelope, Event, Family, StreamKey, UnknownEvent};
use crate::kernel::digest::{sha256, sha256_plain};
use crate::kernel::ids::{CommandId, CorrelationId, EventId, WorkspaceId};

/// The format byte of block hashes.
const FORMAT: u8 = 1;

/// Events of newer builds that this process has met.
static UNKNOWN: AtomicU64 = AtomicU64::new(0);

/// How often this process has met an event that only a newer build can read.
#[must_use]
pub fn unknown_events() -> u64 {
    UNKNOWN.load(Ordering::Relaxed)
}

/// A row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns of es.events")]
pub struct RawEvent {
    pub seq: i64,
    pub workspace: Uuid,
    pub family: String,
    pub stream: Uuid,
    pub version: i32,
    pub event_id: Uuid,
    pub command_id: Uuid,
    pub correlation: Uuid,
    pub causation: Option<i64>,
    pub event_type: String,
    pub schema_version: i16,
    pub actor_type: String,
    pub actor_id: String,
    pub actor_via: String,
    pub occurred_at: Timestamp,
    pub recorded_at: Timestamp,
    pub data: String,
    pub meta: String,
}

/// An event as it was read: whole, or what its row still says where the rest can't be read.
#[derive(Debug, Clone)]
pub enum Reading {
    /// The event.
    Whole(Box<Envelope>),
    /// The row of one that can't be read.
    Damaged(Box<RawEvent>),
}

impl Reading {
    /// Its position.
    #[must_use]
    pub fn position(&self) -> i64 {
        match self {
            Self::Whole(event) => event.position.unwrap_or_default(),
            Self::Damaged(row) => row.seq,
        }
    }

    /// Whose it is.
    #[must_use]
    pub const fn workspace(&self) -> WorkspaceId {
        match self {
            Self::Whole(event) => event.workspace,
            Self::Damaged(row) => WorkspaceId(row.workspace),
        }
    }
}

impl From<Envelope> for Reading {
    fn from(event: Envelope) -> Self {
        Self::Whole(Box::new(event))
    }
}

impl From<RawEvent> for Reading {
    fn from(row: RawEvent) -> Self {
        row.decode().map_or_else(|_| Self::Damaged(Box::new(row)), Self::from)
    }
}

impl RawEvent {
    /// The row of an event that is on its way into the log.
    #[must_use]
    pub fn new(envelope: &Envelope, encoded: Encoded, meta: &str) -> Self {
        Self {
            seq: envelope.position.unwrap_or_default(),
            workspace: envelope.workspace.0,
            family: envelope.stream.family.name().to_owned(),
            stream: envelope.stream.id,
            version: envelope.version,
            event_id: envelope.event_id.0,
            command_id: envelope.command_id.0,
            correlation: envelope.correlation.0,
            causation: envelope.causation,
            event_type: encoded.event_type,
            schema_version: encoded.schema_version,
            actor_type: word(envelope.actor.kind),
            actor_id: envelope.actor.id.clone(),
            actor_via: word(envelope.actor.via),
            occurred_at: envelope.occurred_at,
            recorded_at: envelope.recorded_at.unwrap_or_default(),
            data: encoded.data,
            meta: meta.to_owned(),
        }
    }

    /// Reads a row of a statement that selects the columns of `read_range.sql`.
    ///
    /// # Errors
    /// [`StoreError::Sql`] when a column is missing or of another type.
    pub fn from_row(row: &tokio_postgres::Row) -> Result<Self, StoreError> {
        Ok(Self {
            seq: row.try_get("seq")?,
            workspace: row.try_get("workspace_id")?,
            family: row.try_get("family")?,
            stream: row.try_get("stream_id")?,
            version: row.try_get("version")?,
            event_id: row.try_get("event_id")?,
            command_id: row.try_get("command_id")?,
            correlation: row.try_get("correlation_id")?,
            causation: row.try_get("causation")?,
            event_type: row.try_get("event_type")?,
            schema_version: row.try_get("schema_version")?,
            actor_type: row.try_get("actor_type")?,
            actor_id: row.try_get("actor_id")?,
            actor_via: row.try_get("actor_via")?,
            occurred_at: row.try_get("occurred_at")?,
            recorded_at: row.try_get("recorded_at")?,
            data: row.try_get("data")?,
            meta: row.try_get("meta")?,
        })
    }

    /// The event as the rest of the program knows it.
    ///
    /// # Errors
    /// [`StoreError::Undecodable`] for an event of a newer build, [`StoreError::Corrupt`] for words that
    /// no build wrote.
    pub fn decode(&self) -> Result<Envelope, StoreError> {
        self.decode_by(UPCASTERS)
    }

    /// [`Self::decode`] by a registry of upcasters.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_by(&self, upcasters: &[Upcaster]) -> Result<Envelope, StoreError> {
        let position = self.seq;
        let event = codec::decode_by(upcasters, &self.event_type, self.schema_version, &self.data)
            .map_err(|source| StoreError::Undecodable { position, source })?;
        let family = Family::from_name(&self.family).ok_or_else(|| self.strange("family", &self.family))?;
        self.envelope(family, event)
    }

    /// [`Self::decode`] for those who only look on (folds, feeds): what a newer build wrote is
    /// [`Event::Unknown`], and counted. Whoever decides needs to know every event of a stream: not for them.
    ///
    /// # Errors
    /// [`StoreError::Undecodable`] for a payload that isn't one, [`StoreError::Corrupt`] for words that no
    /// build wrote.
    pub fn read(&self) -> Result<Envelope, StoreError> {
        match self.decode() {
            Err(StoreError::Undecodable { source: CodecError::Unknown { .. }, .. }) => {}
            decoded => return decoded,
        }
        let of_its_family = self.event_type.split_once('.').is_some_and(|(family, _)| family == self.family);
        let family = match Family::from_name(&self.family) {
            Some(family) if of_its_family => family,
            None if of_its_family => Family::Unknown,
            _ => return Err(self.strange("event_type", &self.event_type).into()),
        };
        UNKNOWN.fetch_add(1, Ordering::Relaxed);
        let (event_type, schema_version) = (self.event_type.clone(), self.schema_version);
        self.envelope(family, Event::Unknown(UnknownEvent { family, event_type, schema_version }))
    }

    fn strange(&self, column: &'static str, value: &str) -> Corruption {
        Corruption::Word { position: self.seq, column, value: value.to_owned() }
    }

    fn envelope(&self, family: Family, event: Event) -> Result<Envelope, StoreError> {
        let position = self.seq;
        let strange = |column, value: &str| self.strange(column, value);
        Ok(Envelope {
            position: Some(position),
            workspace: WorkspaceId(self.workspace),
            stream: StreamKey::new(family, self.stream),
            version: self.version,
            event_id: EventId(self.event_id),
            command_id: CommandId(self.command_id),
            correlation: CorrelationId(self.correlation),
            causation: self.causation,
            actor: Actor {
                kind: from_word(&self.actor_type).ok_or_else(|| strange("actor_type", &self.actor_type))?,
                id: self.actor_id.clone(),
                via: from_word(&self.actor_via).ok_or_else(|| strange("actor_via", &self.actor_via))?,
            },
            occurred_at: self.occurred_at,
            recorded_at: Some(self.recorded_at),
            event,
        })
    }

    /// The hash over every column but position, log and recorded_at.
    #[must_use]
    pub fn leaf(&self) -> [u8; 32] {
        let causation = self.causation.map(i64::to_be_bytes);
        sha256(&[
            self.workspace.as_bytes(),
            self.family.as_bytes(),
            self.stream.as_bytes(),
            &self.version.to_be_bytes(),
            self.event_id.as_bytes(),
            self.command_id.as_bytes(),
            self.correlation.as_bytes(),
            causation.as_ref().map_or(&[], <[u8; 8]>::as_slice),
            self.event_type.as_bytes(),
            &self.schema_version.to_be_bytes(),
            self.actor_type.as_bytes(),
            self.actor_id.as_bytes(),
            self.actor_via.as_bytes(),
            &self.occurred_at.as_microsecond().to_be_bytes(),
            &sha256_plain(self.data.as_bytes()),
            &sha256_plain(self.meta.as_bytes()),
        ])
    }
}

/// The hash of a block: format ‖ previous ‖ log ‖ first position ‖ recorded_at in µs ‖ leaves.
#[must_use]
pub fn block_hash(prev: &[u8], first: i64, recorded_at: Timestamp, leaves: &[[u8; 32]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update([FORMAT]);
    hasher.update(prev);
    hasher.update(LOG.to_be_bytes());
    hasher.update(first.to_be_bytes());
    hasher.update(recorded_at.as_microsecond().to_be_bytes());
    for leaf in leaves {
        hasher.update(leaf);
    }
    hasher.finalize().into()
}

/// A unit variant's name, as serde writes it.
pub(super) fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

fn from_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(Value::String(word.to_owned())).ok()
}
