//! Sends one batch to `es.commit_batch`: one statement, whole or not at all.
//!
//! # The order of the log
//!
//! **Guarantee.** The positions that any snapshot sees, on the primary or on a physical standby, are exactly
//! 1…n for some n; a later snapshot has n' ≥ n; a snapshot whose head row says n shows all n events and every
//! inline read model as of n. So a position that is missing is damage, never "in flight": readers stop and
//! say so, and there is no gap to wait out and no time limit after which one is skipped.
//!
//! It holds because
//! 1. positions come only from the head row's `last_seq`, read under its lock, which is kept until the
//!    transaction has ended;
//! 2. PostgreSQL makes a commit visible before it lets go of its locks, and at READ COMMITTED who waited
//!    for the row reads its newest version: the next range begins where the last committed one ends;
//! 3. an abort undoes the head row with the events: no position is burnt;
//! 4. a standby replays commits in the order of the write-ahead log, which is the same order;
//! 5. events, head, results, reservations and inline read models are one transaction.
//!
//! It needs: READ COMMITTED; the lock as the function's first statement, so that all later ones see what it
//! waited for; nobody else who locks or writes `es.log_head`, but a swap of read models; no other way into
//! `es.events`. `tests/it/store/proof.rs`, `append.rs` and `model.rs` hold it against several servers, kills,
//! lost answers and a standby.
//!
//! Invariants: an answer is returned only after the server is ready for the next query, so after the
//! commit; a lost connection leaves the outcome unknown, and the same batch may be sent again because
//! its command ids make it the same.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Statement};
use uuid::Uuid;

use super::raw::{RawEvent, word};
use super::{LOG, Store, StoreError};
use crate::domain::{Actor, NewContent};
use crate::kernel::ids::{CommandId, WorkspaceId};

/// A command whose result is stored.
#[derive(Debug, Clone)]
pub struct CommandRow {
    /// Its id.
    pub id: CommandId,
    /// Whose.
    pub workspace: WorkspaceId,
    /// The use case.
    pub kind: &'static str,
    /// What makes another body another command.
    pub fingerprint: [u8; 16],
    /// Whether a rule refused it.
    pub refused: bool,
    /// The ordinal (from 1) of its last event in the batch; 0 for none.
    pub last_ordinal: i32,
    /// How many events it wrote.
    pub events: i32,
    /// What it answers.
    pub result: Value,
    /// Who sent it.
    pub actor: Actor,
}

/// A key taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// The key.
    pub key: String,
    /// Its class.
    pub class: &'static str,
    /// By whom.
    pub holder: Uuid,
    /// How many of the batch's frees came before.
    pub after_frees: i32,
    /// False where the batch frees it again.
    pub keep: bool,
}

/// The changes to inline read models.
#[derive(Debug, Clone, Default)]
pub struct InlineChanges {
    /// The set of read models that the changes are for; must be the installed one.
    pub models: String,
    /// The head at which the rows were read.
    pub head: i64,
    /// A random text that stands for the time of recording.
    pub marker: String,
    /// `{table: {"seen": [...], "rows": [...]}}`.
    pub changes: String,
}

/// What one append writes.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Commands whose results are stored.
    pub commands: Vec<CommandRow>,
    /// Every stream seen, with the version seen.
    pub seen: Vec<(Uuid, i32)>,
    /// The events, in order; each stream's version goes on from the one seen.
    pub events: Vec<RawEvent>,
    /// Texts.
    pub contents: Vec<(WorkspaceId, NewContent)>,
    /// Reservations freed: every key of the class that the holder has.
    pub frees: Vec<(&'static str, Uuid)>,
    /// Reservations taken.
    pub takes: Vec<Take>,
    /// Inline read models.
    pub inline: InlineChanges,
}

/// A stored result.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredResult {
    /// The command.
    pub id: CommandId,
    /// Its fingerprint.
    pub fingerprint: [u8; 16],
    /// Whether a rule refused it.
    pub refused: bool,
    /// Its last event, else the head then.
    pub position: i64,
    /// How many events it wrote.
    pub events: u32,
    /// What it answers.
    pub result: Value,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Appended {
    /// All of it is in the log; its last event, or the head when it held none, stands at `head`.
    Committed {
        /// The log's head.
        head: i64,
        /// The time of recording.
        recorded_at: Timestamp,
    },
    /// Nothing was written: these commands were, before.
    Known(Vec<StoredResult>),
    /// Nothing was written: these streams have other versions than those seen.
    Moved(Vec<Uuid>),
    /// Nothing was written: somebody else holds these keys.
    Taken(Vec<String>),
    /// Nothing was written: rows of inline read models have changed since they were read.
    RowsMoved,
}

/// The one connection that appends.
#[derive(Debug)]
pub struct Appender {
    config: Config,
    timeout: Duration,
    session: Option<(Client, Statement)>,
}

impl Appender {
    /// An appender that connects when first used.
    #[must_use]
    pub fn new(store: &Store) -> Self {
        Self { config: store.config().clone(), timeout: store.answer_timeout(), session: None }
    }

    /// Appends.
    ///
    /// # Errors
    /// [`StoreError::is_outage`]: the outcome is unknown, send the same batch again. Else nothing was written.
    pub async fn commit(&mut self, batch: &Batch) -> Result<Appended, StoreError> {
        let waited = self.timeout;
        let answer = tokio::time::timeout(waited, self.try_commit(batch)).await.unwrap_or_else(|_| {
            Err(StoreError::TimedOut { waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX) })
        });
        if answer.as_ref().is_err_and(StoreError::is_outage) {
            self.session = None;
        }
        answer
    }

    async fn try_commit(&mut self, batch: &Batch) -> Result<Appended, StoreError> {
        if self.session.as_ref().is_none_or(|(client, _)| client.is_closed()) {
            let (client, connection) = self.config.connect(NoTls).await?;
            tokio::spawn(connection);
            let statement = client.prepare(include_str!("sql/commit_batch.sql")).await?;
            self.session = Some((client, statement));
        }
        let Some((client, statement)) = &self.session else {
            return Err(StoreError::Unavailable("no session".into()));
        };
        let columns = Columns::new(batch);
        let row = match client.query_one(statement, &columns.parameters(batch)).await {
            Ok(row) => row,
            Err(error) if error.code().is_some_and(|code| code.code() == "MC001") => {
                return Ok(Appended::RowsMoved);
            }
            Err(error) => return Err(error.into()),
        };
        let detail = || row.try_get::<_, Value>("detail");
        Ok(match row.try_get::<_, &str>("answer")? {
            "committed" => Appended::Committed {
                head: row.try_get("last_seq")?,
                recorded_at: row.try_get("recorded_at")?,
            },
            "known" => Appended::Known(parse::<Vec<Known>>(detail()?)?.into_iter().map(Into::into).collect()),
            "moved" => Appended::Moved(parse(detail()?)?),
            _ => Appended::Taken(parse(detail()?)?),
        })
    }
}

#[derive(Deserialize)]
struct Known {
    command_id: Uuid,
    fingerprint: String,
    outcome: i16,
    position: i64,
    event_count: u32,
    result: Value,
}

impl From<Known> for StoredResult {
    fn from(known: Known) -> Self {
        let mut fingerprint = [0; 16];
        for (byte, digits) in fingerprint.iter_mut().zip(known.fingerprint.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).unwrap_or_default();
            *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
        }
        Self {
            id: CommandId(known.command_id),
            fingerprint,
            refused: known.outcome == 1,
            position: known.position,
            events: known.event_count,
            result: known.result,
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(detail: Value) -> Result<T, StoreError> {
    serde_json::from_value(detail).map_err(|error| StoreError::Unavailable(Box::new(error)))
}

struct Written<'a> {
    id: Uuid,
    family: &'a str,
    workspace: Uuid,
    version: i32,
    last_ordinal: i32,
}

/// The batch, column by column, as the statement wants it.
struct Columns<'a> {
    columns: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
}

impl<'a> Columns<'a> {
    fn new(batch: &'a Batch) -> Self {
        let mut all = Self { columns: Vec::with_capacity(46) };
        all.commands(&batch.commands);
        all.add(&batch.seen, |seen| seen.0);
        all.add(&batch.seen, |seen| seen.1);
        let written = written(&batch.events);
        all.add(&written, |w| w.id);
        all.columns.push(Box::new(written.iter().map(|w| w.family).collect::<Vec<&'a str>>()));
        all.add(&written, |w| w.workspace);
        all.add(&written, |w| w.version);
        all.add(&written, |w| w.last_ordinal);
        all.events(&batch.events);
        all.add(&batch.contents, |(_, content)| content.reference.id.0);
        all.add(&batch.contents, |(workspace, _)| workspace.0);
        all.add(&batch.contents, |(_, content)| content.salt.as_slice());
        all.add(&batch.contents, |(_, content)| content.text.as_bytes());
        all.add(&batch.frees, |free| free.0);
        all.add(&batch.frees, |free| free.1);
        all.add(&batch.takes, |take| take.key.as_str());
        all.add(&batch.takes, |take| take.class);
        all.add(&batch.takes, |take| take.holder);
        all.add(&batch.takes, |take| take.after_frees);
        all.add(&batch.takes, |take| take.keep);
        all
    }

    fn add<'b, R, T>(&mut self, rows: &'b [R], column: impl Fn(&'b R) -> T)
    where
        Vec<T>: ToSql + Sync + Send + 'a,
    {
        self.columns.push(Box::new(rows.iter().map(column).collect::<Vec<T>>()));
    }

    fn commands(&mut self, commands: &'a [CommandRow]) {
        self.add(commands, |c| c.id.0);
        self.add(commands, |c| c.workspace.0);
        self.add(commands, |c| c.kind);
        self.add(commands, |c| c.fingerprint.as_slice());
        self.add(commands, |c| i16::from(c.refused));
        self.add(commands, |c| c.last_ordinal);
        self.add(commands, |c| c.events);
        self.add(commands, |c| c.result.to_string());
        self.add(commands, |c| word(c.actor.kind));
        self.add(commands, |c| c.actor.id.as_str());
        self.add(commands, |c| word(c.actor.via));
    }

    fn events(&mut self, events: &'a [RawEvent]) {
        self.add(events, |e| e.workspace);
        self.add(events, |e| e.family.as_str());
        self.add(events, |e| e.stream);
        self.add(events, |e| e.version);
        self.add(events, |e| e.event_id);
        self.add(events, |e| e.command_id);
        self.add(events, |e| e.correlation);
        self.add(events, |e| e.causation);
        self.add(events, |e| e.event_type.as_str());
        self.add(events, |e| e.schema_version);
        self.add(events, |e| e.actor_type.as_str());
        self.add(events, |e| e.actor_id.as_str());
        self.add(events, |e| e.actor_via.as_str());
        self.add(events, |e| e.occurred_at);
        self.add(events, |e| e.data.as_str());
        self.add(events, |e| e.meta.as_str());
        let leaves: Vec<u8> = events.iter().flat_map(RawEvent::leaf).collect();
        self.columns.push(Box::new(leaves));
    }

    fn parameters<'s>(&'s self, batch: &'s Batch) -> Vec<&'s (dyn ToSql + Sync)> {
        let mut all: Vec<&(dyn ToSql + Sync)> = vec![&LOG];
        all.extend(self.columns.iter().map(|column| {
            let column: &(dyn ToSql + Sync) = column.as_ref();
            column
        }));
        let inline = &batch.inline;
        let last: [&(dyn ToSql + Sync); 4] = [&inline.models, &inline.head, &inline.marker, &inline.changes];
        all.extend(last);
        all
    }
}

fn written(events: &[RawEvent]) -> Vec<Written<'_>> {
    let mut streams = std::collections::BTreeMap::new();
    for (ordinal, event) in (1_i32..).zip(events) {
        let entry = Written {
            id: event.stream,
            family: &event.family,
            workspace: event.workspace,
            version: event.version,
            last_ordinal: ordinal,
        };
        streams.insert(event.stream, entry);
    }
    streams.into_values().collect()
}
