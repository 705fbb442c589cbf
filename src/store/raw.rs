//! An event as its row, and the hashes over it.
//!
//! # Canonical bytes, format 1
//!
//! Whoever wants to check a log without this program computes, with SHA-256 and big-endian integers:
//!
//! ```text
//! part(b)  = u64 length of b ‖ b
//! leaf     = SHA-256( part(workspace_id, 16 bytes)      ‖ part(family, UTF-8)
//!                   ‖ part(stream_id, 16 bytes)         ‖ part(version, i32)
//!                   ‖ part(event_id, 16 bytes)          ‖ part(command_id, 16 bytes)
//!                   ‖ part(correlation_id, 16 bytes)    ‖ part(causation, i64; no bytes where null)
//!                   ‖ part(event_type, UTF-8)           ‖ part(schema_version, i16)
//!                   ‖ part(actor_type) ‖ part(actor_id) ‖ part(actor_via)   (UTF-8)
//!                   ‖ part(occurred_at, i64 µs since 1970)
//!                   ‖ part(SHA-256 of data's exact text) ‖ part(SHA-256 of meta's exact text) )
//! block    = SHA-256( u8 format ‖ 32 bytes of the block before (zeros for the first) ‖ i32 log_id
//!                   ‖ i64 first position ‖ i64 recorded_at in µs since 1970 ‖ the leaves in order )
//! ```
//!
//! `data` and `meta` are columns of type json, which keeps their text as it came. They enter as hashes, so
//! that a payload could go one day and the chain still be checked. An event's position follows from the
//! block's first and its place in it; `recorded_at` is one for all events of a block.
//!
//! Invariants: a leaf covers every column that the program knows before the append; position, log and
//! recorded_at are covered by the block's hash. The server computes blocks in `es.commit_batch`, this
//! module when they are verified: `the_canonical_bytes_are_these` holds both to known values.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use serde::Serialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};
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
pub const FORMAT: u8 = 1;

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

    /// The event, where it can be read.
    #[must_use]
    pub fn whole(self) -> Option<Envelope> {
        match self {
            Self::Whole(event) => Some(*event),
            Self::Damaged(_) => None,
        }
    }

    /// Whether whoever decides by its stream can: a damaged one and one of a newer build are in the way.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        match self {
            Self::Whole(event) => !matches!(event.event, Event::Unknown(_)),
            Self::Damaged(_) => false,
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
        row.read().map_or_else(|_| Self::Damaged(Box::new(row)), Self::from)
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

/// The actor of a row with the three columns of one.
pub(super) fn actor_of(row: &tokio_postgres::Row, position: i64) -> Result<Actor, StoreError> {
    let (kind, via): (&str, &str) = (row.try_get("actor_type")?, row.try_get("actor_via")?);
    let strange = |column, value: &str| Corruption::Word { position, column, value: value.to_owned() };
    Ok(Actor {
        kind: from_word(kind).ok_or_else(|| strange("actor_type", kind))?,
        id: row.try_get("actor_id")?,
        via: from_word(via).ok_or_else(|| strange("actor_via", via))?,
    })
}

/// A unit variant's name, as serde writes it.
pub(super) fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => String::new(),
    }
}

fn from_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    let reader: StrDeserializer<'_, serde::de::value::Error> = word.into_deserializer();
    T::deserialize(reader).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::digest::hex;

    #[test]
    fn the_canonical_bytes_are_these() {
        let event = RawEvent {
            seq: 8,
            workspace: Uuid::from_u128(1),
            family: "project".to_owned(),
            stream: Uuid::from_u128(2),
            version: 3,
            event_id: Uuid::from_u128(4),
            command_id: Uuid::from_u128(5),
            correlation: Uuid::from_u128(6),
            causation: Some(7),
            event_type: "project.deleted".to_owned(),
            schema_version: 1,
            actor_type: "member".to_owned(),
            actor_id: "Zoë".to_owned(),
            actor_via: "cli".to_owned(),
            occurred_at: Timestamp::UNIX_EPOCH,
            recorded_at: Timestamp::UNIX_EPOCH,
            data: "{}".to_owned(),
            meta: "{ }".to_owned(),
        };
        let (leaf, none) = (event.leaf(), RawEvent { causation: None, ..event.clone() }.leaf());
        let at = Timestamp::from_microsecond(1_700_000_000_123_456).expect("a time");
        let block = block_hash(&[0; 32], 8, at, &[leaf, none]);
        assert_eq!(
            [leaf, none, block].map(|hash| hex(&hash)),
            [
                "99be66aa67d0e53412fa5419760dafb45ec8e379b789e9f98733208083618d64",
                "cc9a4193b1beddb2c3d9af1da587a7c7945624fc8745f294258646f5023affb0",
                "5801662a4f7516621b9a82b726dd12fdba288a367186b2f8feafd51b4fa9e4a6",
            ]
        );
    }
}
