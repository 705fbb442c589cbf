//! Transcripts of runs: messages by (task, generation, seq), written once.
//!
//! Invariants: a message that is there stays as it is, whatever is sent again; bodies keep their exact
//! text, for the digest in the terminal event covers it; of a transcript that is gone nothing is read, and
//! nothing is added to it.

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio_postgres::Row;

use super::{LOG, Store, StoreError};
use crate::kernel::ids::{TaskId, WorkspaceId};

/// Messages read at once while a digest is made.
const PAGE: i64 = 1_000;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its number in the run.
    pub seq: i32,
    /// Its JSON text.
    pub body: String,
    /// When the database recorded it; none on its way in.
    pub recorded_at: Option<Timestamp>,
}

/// How much of a transcript there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Messages.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// The highest number.
    pub last_seq: i32,
}

/// A transcript that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Whose.
    pub workspace: WorkspaceId,
    /// The task.
    pub task: TaskId,
    /// The claim.
    pub generation: u32,
    /// Its messages.
    pub messages: u64,
}

/// Why a transcript is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// The event that says so.
    pub position: i64,
    /// For how many days it was kept; none when it was erased.
    pub days: Option<u32>,
    /// Since when.
    pub at: Timestamp,
}

/// Adds messages and says how many were new.
///
/// # Errors
/// [`StoreError`]; a body that is no JSON is one of [`StoreError::Sql`].
pub async fn append(
    store: &Store,
    workspace: WorkspaceId,
    task: TaskId,
    generation: u32,
    messages: &[Message],
) -> Result<u64, StoreError> {
    let seqs: Vec<i32> = messages.iter().map(|message| message.seq).collect();
    let bodies: Vec<&str> = messages.iter().map(|message| message.body.as_str()).collect();
    let generation = generation.cast_signed();
    let client = store.client().await?;
    let statement = client.prepare_cached(include_str!("sql/append_transcript.sql")).await?;
    Ok(client.execute(&statement, &[&LOG, &task.0, &generation, &workspace.0, &seqs, &bodies]).await?)
}

/// Up to `limit` messages after a number, in order.
///
/// # Errors
/// [`StoreError`].
pub async fn since(
    store: &Store,
    task: TaskId,
    generation: u32,
    after: i32,
    limit: i64,
) -> Result<Vec<Message>, StoreError> {
    let client = store.client().await?;
    let statement = client.prepare_cached(include_str!("sql/read_transcript.sql")).await?;
    let generation = generation.cast_signed();
    let up_to = store.as_of().map(|moment| moment.time);
    let rows = client.query(&statement, &[&LOG, &task.0, &generation, &after, &limit, &up_to]).await?;
    rows.iter()
        .map(|row| {
            Ok(Message {
                seq: row.try_get("seq")?,
                body: row.try_get("body")?,
                recorded_at: Some(row.try_get("recorded_at")?),
            })
        })
        .collect()
}

/// When the run last said something; none when it never did.
///
/// # Errors
/// [`StoreError`].
pub async fn last_at(store: &Store, task: TaskId, generation: u32) -> Result<Option<Timestamp>, StoreError> {
    let client = store.client().await?;
    let statement = client.prepare_cached(include_str!("sql/last_message_at.sql")).await?;
    let up_to = store.as_of().map(|moment| moment.time);
    let row = client.query_opt(&statement, &[&LOG, &task.0, &generation.cast_signed(), &up_to]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// How much of it there is.
///
/// # Errors
/// [`StoreError`].
pub async fn size(store: &Store, task: TaskId, generation: u32) -> Result<Size, StoreError> {
    let client = store.client().await?;
    let generation = generation.cast_signed();
    let row =
        client.query_one(include_str!("sql/transcript_size.sql"), &[&LOG, &task.0, &generation]).await?;
    let (messages, bytes): (i64, i64) = (row.try_get("messages")?, row.try_get("bytes")?);
    Ok(Size {
        messages: messages.cast_unsigned(),
        bytes: bytes.cast_unsigned(),
        last_seq: row.try_get("last_seq")?,
    })
}

/// How many messages there are, and SHA-256 of the salt and each number and body, length-prefixed.
///
/// # Errors
/// [`StoreError`].
pub async fn digest(
    store: &Store,
    task: TaskId,
    generation: u32,
    salt: &[u8],
) -> Result<(u64, [u8; 32]), StoreError> {
    let mut hasher = Sha256::new();
    hasher.update(salt);
    let (mut after, mut count) = (0, 0);
    loop {
        let page = since(store, task, generation, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok((count, hasher.finalize().into())) };
        after = last.seq;
        for message in &page {
            hasher.update(message.seq.to_be_bytes());
            hasher.update((message.body.len() as u64).to_be_bytes());
            hasher.update(message.body.as_bytes());
            count += 1;
        }
    }
}

/// Why a transcript is gone; none when it isn't, or there never was one.
///
/// # Errors
/// [`StoreError`].
pub async fn gone(store: &Store, task: TaskId, generation: u32) -> Result<Option<Gone>, StoreError> {
    let client = store.client().await?;
    let generation = generation.cast_signed();
    let row =
        client.query_opt(include_str!("sql/read_gone_transcript.sql"), &[&LOG, &task.0, &generation]).await?;
    row.map(|row| {
        Ok(Gone {
            position: row.try_get("position")?,
            days: row.try_get::<_, Option<i32>>("days")?.map(i32::cast_unsigned),
            at: row.try_get("gone_at")?,
        })
    })
    .transpose()
}

/// The transcripts that a task has, by claim.
///
/// # Errors
/// [`StoreError`].
pub async fn of_task(store: &Store, task: TaskId) -> Result<Vec<Kept>, StoreError> {
    let client = store.client().await?;
    let rows = client.query(include_str!("sql/transcripts_of_task.sql"), &[&LOG, &task.0]).await?;
    rows.iter().map(kept).collect()
}

/// Up to `limit` transcripts whose last message is more than so many days old, oldest tasks first, behind one of
/// them.
///
/// # Errors
/// [`StoreError`].
pub async fn older(
    store: &Store,
    days: u32,
    behind: Option<Kept>,
    limit: i64,
) -> Result<Vec<Kept>, StoreError> {
    let (task, generation) =
        behind.map_or((uuid::Uuid::nil(), 0), |kept| (kept.task.0, kept.generation.cast_signed()));
    let client = store.client().await?;
    let days = i32::try_from(days).unwrap_or(i32::MAX);
    let statement = client.prepare_cached(include_str!("sql/transcripts_older.sql")).await?;
    let rows = client.query(&statement, &[&LOG, &days, &task, &generation, &limit]).await?;
    rows.iter().map(kept).collect()
}

fn kept(row: &Row) -> Result<Kept, StoreError> {
    Ok(Kept {
        workspace: WorkspaceId(row.try_get("workspace_id")?),
        task: TaskId(row.try_get("task_id")?),
        generation: row.try_get::<_, i32>("generation")?.cast_unsigned(),
        messages: row.try_get::<_, i64>("messages")?.cast_unsigned(),
    })
}
