//! Walks the log from its first position and says where it stops being what was written.
//!
//! Invariants: one snapshot; leaves and block hashes are computed again from the rows; a text that was
//! erased, and the log says so, is counted, not found fault with, unless it is there again. A chain in the
//! database stops only the careless, whose change leaves the rest as it was; who computes all of it again is
//! found by a seal that lies elsewhere.
//!
//! Not found, because nothing says what it was: a stored result's answer and its command's fingerprint.
//! Not here: read models against the log (`readmodel::verify`), where seals are kept (`seal`).

mod finding;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::{IsolationLevel, Transaction};
use uuid::Uuid;

pub use self::finding::Finding;
use super::event_types::EventType;
use super::raw::{FORMAT, RawEvent, block_hash};
use super::reservations::Held;
use super::{LOG, Store, StoreError};
use crate::domain::Event;
use crate::domain::operation::OperationEvent;
use crate::fold::reservations::{Change, changes};
use crate::kernel::digest::{hex, sha256_plain};

/// Events read at once.
const PAGE: i64 = 5_000;

/// What a verification came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The last position looked at.
    pub up_to: i64,
    /// Blocks whose hash was computed again.
    pub blocks: u64,
    /// Texts that events refer to and that were erased.
    pub erased: u64,
    /// Seals that blocks were held against.
    pub seals: u64,
    /// What is wrong, in the order of positions.
    pub findings: Vec<Finding>,
}

/// A block as it was when it was sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The position that it ends at.
    pub position: i64,
    /// Its hash, in lower-case hexadecimal.
    pub block: String,
}

/// Hears how far a verification is: at which position, of how many.
pub type Tell<'a> = &'a (dyn Fn(i64, i64) + Send + Sync);

/// What is looked at beside the log itself.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The event types that this build knows; none: the table of them is left alone.
    pub catalogue: &'a [EventType],
    /// Seals that lie outside the database.
    pub seals: &'a [Sealed],
    /// Hears how far it is.
    pub tell: Tell<'a>,
}

/// Verifies the whole log.
///
/// # Errors
/// [`StoreError`] when it can't be read; what is wrong with it is in the report.
pub async fn run(store: &Store) -> Result<Report, StoreError> {
    run_with(store, Asked { catalogue: &[], seals: &[], tell: &|_, _| {} }).await
}

/// [`run`], with what lies outside the log.
///
/// # Errors
/// Those of [`run`].
pub async fn run_with(store: &Store, asked: Asked<'_>) -> Result<Report, StoreError> {
    let (mut client, _driver) = store.connect_alone().await?;
    client.batch_execute(include_str!("../sql/no_timeout.sql")).await?;
    let tx = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let walk = Walk {
        tx: &tx,
        asked,
        report: Report::default(),
        versions: BTreeMap::new(),
        held: BTreeMap::new(),
        keys: BTreeMap::new(),
        sealed: Vec::new(),
        erased: Vec::new(),
        told_erased: BTreeMap::new(),
    };
    let report = walk.run().await?;
    tx.rollback().await?;
    Ok(report)
}

struct Block {
    first: i64,
    last: i64,
    format: i16,
    prev: Vec<u8>,
    hash: Vec<u8>,
    recorded_at: Timestamp,
}

struct Walk<'a> {
    tx: &'a Transaction<'a>,
    asked: Asked<'a>,
    report: Report,
    versions: BTreeMap<Uuid, i32>,
    held: BTreeMap<String, Held>,
    /// The keys that a holder has of a class, where keys of that class are ever freed.
    keys: BTreeMap<(Uuid, &'static str), Vec<String>>,
    /// What the log itself says was sealed.
    sealed: Vec<Sealed>,
    /// Texts that lie with the erased ones: position and id.
    erased: Vec<(i64, Uuid)>,
    /// What the log itself says was erased, and at which position.
    told_erased: BTreeMap<Uuid, i64>,
}

impl Walk<'_> {
    async fn run(mut self) -> Result<Report, StoreError> {
        let (upto, head_hash, head_time) = crate::store::read::head_block_in(self.tx).await?;
        self.report.up_to = upto;
        let (mut at, mut prev, mut time) = (0, vec![0_u8; 32], None);
        let mut page = read_page(self.tx, at).await?;
        while let Some(last) = page.blocks.last().map(|block| block.last) {
            (self.asked.tell)(at, upto);
            let texts = self.texts(&page.events).await?;
            // The next page is on its way while this one is looked at.
            let (next, ()) = join(read_page(self.tx, last), async {
                let mut events = page.events.into_iter().peekable();
                for block in page.blocks {
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
                    self.block(&block, &own, &texts);
                    at = block.last;
                    prev = block.hash;
                    time = Some(block.recorded_at);
                }
            })
            .await;
            page = next?;
        }
        if at != upto || head_hash != prev || time.is_some_and(|time| time != head_time) {
            self.find(Finding::Head { head: upto, last: at });
        }
        self.beyond(at).await?;
        self.erasures().await?;
        self.seals(at).await?;
        self.reservations().await?;
        self.streams().await?;
        self.commands(upto).await?;
        self.event_types().await?;
        Ok(self.report)
    }

    fn block(&mut self, block: &Block, events: &[RawEvent], texts: &Texts) {
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
        let hash = block_hash(&block.prev, block.first, block.recorded_at, &leaves);
        if block.format != i16::from(FORMAT) || hash.as_slice() != block.hash {
            self.find(Finding::BlockHash { first: block.first, last: block.last });
        }
        for event in events {
            self.contents(event, texts);
        }
    }

    fn fold(&mut self, event: &RawEvent) {
        let Ok(envelope) = event.decode() else {
            return self.find(Finding::Unreadable { position: event.seq });
        };
        match &envelope.event {
            Event::Operation(OperationEvent::Sealed(sealed)) => {
                self.sealed.push(Sealed { position: sealed.up_to, block: sealed.block.clone() });
            }
            Event::Operation(OperationEvent::Erased(erased)) => {
                self.told_erased.extend(erased.contents.iter().map(|id| (id.0, event.seq)));
            }
            _ => {}
        }
        for change in changes(&envelope) {
            match change {
                Change::Take { key, class, holder } => {
                    if class.is_freed() {
                        self.keys.entry((holder, class.name())).or_default().push(key.clone());
                    }
                    self.held.insert(key, Held { class: class.name().to_owned(), holder });
                }
                Change::Free { class, holder } => {
                    for key in self.keys.remove(&(holder, class.name())).unwrap_or_default() {
                        let own = |held: &Held| held.class == class.name() && held.holder == holder;
                        if self.held.get(&key).is_some_and(own) {
                            self.held.remove(&key);
                        }
                    }
                }
            }
        }
    }

    /// The texts that these events refer to.
    async fn texts(&self, events: &[RawEvent]) -> Result<Texts, StoreError> {
        let ids: Vec<Uuid> = events.iter().flat_map(references).map(|reference| reference.id).collect();
        let mut texts = Texts::default();
        if ids.is_empty() {
            return Ok(texts);
        }
        for row in self.tx.query(crate::store::read::READ_CONTENTS, &[&LOG, &ids]).await? {
            let (salt, bytes): (&[u8], &[u8]) = (row.try_get("salt")?, row.try_get("bytes")?);
            texts.found.insert(row.try_get("id")?, hex(&sha256_plain(&[salt, bytes].concat())));
        }
        let missing: Vec<Uuid> = ids.into_iter().filter(|id| !texts.found.contains_key(id)).collect();
        texts.erased = crate::store::read::erased_in(self.tx, &missing).await?;
        Ok(texts)
    }

    fn contents(&mut self, event: &RawEvent, texts: &Texts) {
        let position = event.seq;
        for reference in references(event) {
            let content = reference.id;
            match texts.found.get(&content) {
                None if texts.erased.contains(&content) => self.erased.push((position, content)),
                None => self.find(Finding::ContentMissing { position, content }),
                Some(sha256) if *sha256 == reference.sha256 => {}
                Some(_) => self.find(Finding::Content { position, content }),
            }
        }
    }

    fn find(&mut self, finding: Finding) {
        self.report.findings.push(finding);
    }
}

/// Blocks with their events.
struct Page {
    blocks: Vec<Block>,
    events: Vec<RawEvent>,
}

/// The blocks that come after a position, up to some events, but one at least.
async fn read_page(tx: &Transaction<'_>, after: i64) -> Result<Page, StoreError> {
    let rows = tx.query(include_str!("../sql/read_blocks.sql"), &[&LOG, &after, &PAGE]).await?;
    let mut blocks: Vec<Block> = Vec::new();
    for row in &rows {
        let block = Block {
            first: row.try_get("first_seq")?,
            last: row.try_get("last_seq")?,
            format: row.try_get("format")?,
            prev: row.try_get("prev_hash")?,
            hash: row.try_get("hash")?,
            recorded_at: row.try_get("recorded_at")?,
        };
        if !blocks.is_empty() && block.last - after > PAGE {
            break;
        }
        blocks.push(block);
    }
    let Some(last) = blocks.last().map(|block| block.last) else {
        return Ok(Page { blocks, events: Vec::new() });
    };
    let rows = tx.query(include_str!("../sql/read_between.sql"), &[&LOG, &after, &last]).await?;
    let events = rows.iter().map(RawEvent::from_row).collect::<Result<_, _>>()?;
    Ok(Page { blocks, events })
}

/// Digests of texts by their ids, and which lie with the erased ones.
#[derive(Default)]
struct Texts {
    found: BTreeMap<Uuid, String>,
    erased: BTreeSet<Uuid>,
}

struct Reference {
    id: Uuid,
    sha256: String,
}

/// Every content reference in an event's payload, however deep.
fn references(event: &RawEvent) -> Vec<Reference> {
    let mut found = Vec::new();
    // Most events have none, and needn't be read for it.
    if event.data.contains("\"sha256\"")
        && let Ok(data) = serde_json::from_str(&event.data)
    {
        find_references(&data, &mut found);
    }
    found
}

fn find_references(data: &Value, found: &mut Vec<Reference>) {
    match data {
        Value::Object(fields) => {
            let id = fields.get("id").and_then(Value::as_str).and_then(|id| Uuid::parse_str(id).ok());
            let sha256 = fields.get("sha256").and_then(Value::as_str);
            if let (Some(id), Some(sha256), true) = (id, sha256, fields.contains_key("bytes")) {
                found.push(Reference { id, sha256: sha256.to_owned() });
            }
            for value in fields.values() {
                find_references(value, found);
            }
        }
        Value::Array(values) => {
            for value in values {
                find_references(value, found);
            }
        }
        _ => {}
    }
}
