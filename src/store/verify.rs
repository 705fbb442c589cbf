//! Walks the log from its first position and says where it stops being what was written.
//!
//! Invariants: one snapshot; leaves and block hashes are computed again from the rows; a text that was
//! erased is counted, not found fault with.
//!
//! Not here: read models against the log (`readmodel::verify`), seals outside the database.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::{IsolationLevel, Transaction};
use uuid::Uuid;

use super::raw::{RawEvent, block_hash};
use super::reservations::{Held, with_prefix_in};
use super::{LOG, Store, StoreError};
use crate::fold::reservations::{Change, changes};
use crate::kernel::digest::{hex, sha256_plain};

/// Events read at once.
const PAGE: i64 = 5_000;

/// Something that isn't as it was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// A position is missing.
    #[error("position {position} is missing")]
    Hole {
        /// The position.
        position: i64,
    },
    /// A block's events or its row were changed.
    #[error("block {first} to {last} does not have the hash of its events")]
    BlockHash {
        /// Its first position.
        first: i64,
        /// Its last position.
        last: i64,
    },
    /// A block doesn't follow the one before.
    #[error("block from position {first} does not follow the block before it")]
    Chain {
        /// Its first position.
        first: i64,
    },
    /// No block covers a position.
    #[error("no block covers position {position}")]
    NoBlock {
        /// The position.
        position: i64,
    },
    /// An event has another time of recording than its block.
    #[error("event at position {position} has another time of recording than its block")]
    RecordedAt {
        /// Its position.
        position: i64,
    },
    /// A stream's versions aren't dense.
    #[error("event at position {position} has version {found} where {expected} is next")]
    Version {
        /// Its position.
        position: i64,
        /// The version next in its stream.
        expected: i32,
        /// The version it has.
        found: i32,
    },
    /// The head's row isn't the last block's.
    #[error("the head says {head} and the last block ends at {last}, or their hashes differ")]
    Head {
        /// What the head says.
        head: i64,
        /// Where the last block ends.
        last: i64,
    },
    /// A text isn't the one that the event at that position refers to.
    #[error("content {content} differs from its digest in the event at position {position}")]
    Content {
        /// The event's position.
        position: i64,
        /// The content.
        content: Uuid,
    },
    /// An event can't be read.
    #[error("event at position {position} cannot be read")]
    Unreadable {
        /// Its position.
        position: i64,
    },
    /// A reservation isn't what the events give.
    #[error("reservation {key} is not what the events give")]
    Reservation {
        /// Its key.
        key: String,
    },
}

/// What a verification came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The last position looked at.
    pub up_to: i64,
    /// Blocks whose hash was computed again.
    pub blocks: u64,
    /// Texts that events refer to and that are no longer there.
    pub erased: u64,
    /// What is wrong, in the order of positions.
    pub findings: Vec<Finding>,
}

/// Verifies the whole log.
///
/// # Errors
/// [`StoreError`] when it can't be read; what is wrong with it is in the report.
pub async fn run(store: &Store) -> Result<Report, StoreError> {
    let (mut client, _driver) = store.connect_alone().await?;
    client.batch_execute(include_str!("sql/no_timeout.sql")).await?;
    let tx = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let walk = Walk { tx: &tx, report: Report::default(), versions: BTreeMap::new(), held: BTreeMap::new() };
    let report = walk.run().await?;
    tx.rollback().await?;
    Ok(report)
}

struct Block {
    first: i64,
    last: i64,
    prev: Vec<u8>,
    hash: Vec<u8>,
    recorded_at: Timestamp,
}

struct Walk<'a> {
    tx: &'a Transaction<'a>,
    report: Report,
    versions: BTreeMap<Uuid, i32>,
    held: BTreeMap<String, Held>,
}

impl Walk<'_> {
    async fn run(mut self) -> Result<Report, StoreError> {
        let head = self.tx.query_one(include_str!("sql/read_head_whole.sql"), &[&LOG]).await?;
        let (upto, head_hash): (i64, Vec<u8>) = (head.try_get(0)?, head.try_get(1)?);
        self.report.up_to = upto;
        let mut prev = vec![0_u8; 32];
        let mut at = 0;
        loop {
            let blocks = self.blocks(at).await?;
            let Some(last) = blocks.last().map(|block| block.last) else { break };
            let mut events = self.events(at, last).await?.into_iter().peekable();
            for block in blocks {
                if block.first != at + 1 {
                    self.find(Finding::NoBlock { position: at + 1 });
                }
                if block.prev != prev {
                    self.find(Finding::Chain { first: block.first });
                }
                let mut own = Vec::new();
                while let Some(event) = events.next_if(|event| event.seq <= block.last) {
                    own.push(event);
                }
                self.block(&block, &own).await?;
                at = block.last;
                prev = block.hash;
            }
        }
        if at != upto || head_hash != prev {
            self.find(Finding::Head { head: upto, last: at });
        }
        self.reservations().await?;
        Ok(self.report)
    }

    async fn block(&mut self, block: &Block, events: &[RawEvent]) -> Result<(), StoreError> {
        let mut expected = block.first;
        for event in events {
            while expected < event.seq {
                self.find(Finding::Hole { position: expected });
                expected += 1;
            }
            expected = event.seq + 1;
            if event.recorded_at != block.recorded_at {
                self.find(Finding::RecordedAt { position: event.seq });
            }
            let version = self.versions.entry(event.stream).or_insert(0);
            let next = *version + 1;
            *version = event.version;
            if event.version != next {
                let (position, found) = (event.seq, event.version);
                self.find(Finding::Version { position, expected: next, found });
            }
            self.fold(event);
        }
        while expected <= block.last {
            self.find(Finding::Hole { position: expected });
            expected += 1;
        }
        let leaves: Vec<[u8; 32]> = events.iter().map(RawEvent::leaf).collect();
        self.report.blocks += 1;
        if block_hash(&block.prev, block.first, block.recorded_at, &leaves).as_slice() != block.hash {
            self.find(Finding::BlockHash { first: block.first, last: block.last });
        }
        self.contents(events).await
    }

    fn fold(&mut self, event: &RawEvent) {
        let Ok(envelope) = event.decode() else {
            return self.find(Finding::Unreadable { position: event.seq });
        };
        for change in changes(&envelope) {
            match change {
                Change::Take { key, class, holder } => {
                    self.held.insert(key, Held { class: class.name().to_owned(), holder });
                }
                Change::Free { class, holder } => {
                    self.held.retain(|_, held| held.class != class.name() || held.holder != holder);
                }
            }
        }
    }

    async fn contents(&mut self, events: &[RawEvent]) -> Result<(), StoreError> {
        let mut wanted = Vec::new();
        for event in events {
            if let Ok(data) = serde_json::from_str(&event.data) {
                references(&data, event.seq, &mut wanted);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = wanted.iter().map(|reference| reference.id).collect();
        let rows = self.tx.query(super::read::READ_CONTENTS, &[&LOG, &ids]).await?;
        let mut found = BTreeMap::new();
        for row in rows {
            let (salt, bytes): (Vec<u8>, Vec<u8>) = (row.try_get("salt")?, row.try_get("bytes")?);
            found.insert(row.try_get::<_, Uuid>("id")?, [salt, bytes].concat());
        }
        for reference in wanted {
            match found.get(&reference.id) {
                None => self.report.erased += 1,
                Some(salted) if hex(&sha256_plain(salted)) == reference.sha256 => {}
                Some(_) => {
                    self.find(Finding::Content { position: reference.position, content: reference.id });
                }
            }
        }
        Ok(())
    }

    async fn reservations(&mut self) -> Result<(), StoreError> {
        let live = with_prefix_in(self.tx, "").await?;
        let rebuilt = std::mem::take(&mut self.held);
        let mut keys: Vec<&String> = live.keys().chain(rebuilt.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            if live.get(key) != rebuilt.get(key) {
                self.find(Finding::Reservation { key: key.clone() });
            }
        }
        Ok(())
    }

    async fn blocks(&self, after: i64) -> Result<Vec<Block>, StoreError> {
        let rows = self.tx.query(include_str!("sql/read_blocks.sql"), &[&LOG, &after, &PAGE]).await?;
        rows.iter()
            .map(|row| {
                Ok(Block {
                    first: row.try_get("first_seq")?,
                    last: row.try_get("last_seq")?,
                    prev: row.try_get("prev_hash")?,
                    hash: row.try_get("hash")?,
                    recorded_at: row.try_get("recorded_at")?,
                })
            })
            .collect()
    }

    async fn events(&self, after: i64, upto: i64) -> Result<Vec<RawEvent>, StoreError> {
        let rows = self.tx.query(include_str!("sql/read_between.sql"), &[&LOG, &after, &upto]).await?;
        rows.iter().map(RawEvent::from_row).collect()
    }

    fn find(&mut self, finding: Finding) {
        self.report.findings.push(finding);
    }
}

struct Reference {
    position: i64,
    id: Uuid,
    sha256: String,
}

/// Every content reference in an event's payload, however deep.
fn references(data: &Value, position: i64, found: &mut Vec<Reference>) {
    match data {
        Value::Object(fields) => {
            let id = fields.get("id").and_then(Value::as_str).and_then(|id| Uuid::parse_str(id).ok());
            let sha256 = fields.get("sha256").and_then(Value::as_str);
            if let (Some(id), Some(sha256), true) = (id, sha256, fields.contains_key("bytes")) {
                found.push(Reference { position, id, sha256: sha256.to_owned() });
            }
            for value in fields.values() {
                references(value, position, found);
            }
        }
        Value::Array(values) => {
            for value in values {
                references(value, position, found);
            }
        }
        _ => {}
    }
}
