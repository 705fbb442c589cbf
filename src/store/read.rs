//! Reads the log: by position, by stream, by correlation; contents by id.
//!
//! Invariants: a range is dense or an error; it never ends before the head of its own snapshot while
//! there is room in the answer.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join;
use tokio_postgres::GenericClient;
use uuid::Uuid;

use super::append::StoredResult;
use super::raw::{RawEvent, Reading};
use super::{Corruption, LOG, Store, StoreError};
use crate::domain::{Envelope, StreamKey};
use crate::kernel::ids::{CommandId, ContentId, CorrelationId, WorkspaceId};
use crate::kernel::text::ERASED;

/// Texts by id, with what their digests need.
pub(super) const READ_CONTENTS: &str = include_str!("sql/read_contents.sql");

const READ_STREAMS: &str = include_str!("sql/read_streams.sql");

/// The log's last position, or the one that reads end at; 0 when it is empty.
///
/// # Errors
/// [`StoreError`].
pub async fn head(store: &Store) -> Result<i64, StoreError> {
    if let Some(moment) = store.as_of() {
        return Ok(moment.position);
    }
    head_in(&**store.client().await?).await
}

/// [`head`], in the snapshot of a transaction.
///
/// # Errors
/// [`StoreError`].
pub async fn head_in(client: &impl GenericClient) -> Result<i64, StoreError> {
    Ok(client.query_one(include_str!("sql/read_head.sql"), &[&LOG]).await?.try_get(0)?)
}

/// The head with the hash and the time of its last block.
///
/// # Errors
/// [`StoreError`].
pub async fn head_block_in(
    client: &impl GenericClient,
) -> Result<(i64, Vec<u8>, jiff::Timestamp), StoreError> {
    let row = client.query_one(include_str!("sql/read_head_whole.sql"), &[&LOG]).await?;
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
}

/// [`head_block_in`]: position and hash, for a seal.
///
/// # Errors
/// [`StoreError`].
pub async fn head_block(store: &Store) -> Result<(i64, Vec<u8>), StoreError> {
    let (position, hash, _) = head_block_in(&**store.client().await?).await?;
    Ok((position, hash))
}

/// The hashes of the blocks that end at these positions; where none ends it is missing in the answer.
///
/// # Errors
/// [`StoreError`].
pub async fn blocks_in(
    client: &impl GenericClient,
    positions: &[i64],
) -> Result<BTreeMap<i64, Vec<u8>>, StoreError> {
    let rows = client.query(include_str!("sql/read_sealed_blocks.sql"), &[&LOG, &positions]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// The hash of the block that ends at a position, if one does.
///
/// # Errors
/// [`StoreError`].
pub async fn block(store: &Store, position: i64) -> Result<Option<Vec<u8>>, StoreError> {
    Ok(blocks_in(&**store.client().await?, &[position]).await?.remove(&position))
}

/// Up to `limit` events after a position, in order and without a hole.
///
/// # Errors
/// [`Corruption::Hole`]; [`StoreError::Undecodable`].
pub async fn range(store: &Store, after: i64, limit: i64) -> Result<Vec<Envelope>, StoreError> {
    range_rows(store, after, limit).await?.iter().map(RawEvent::read).collect()
}

/// [`range`], with what is left of those that can't be read: for readers that tell what there is.
///
/// # Errors
/// [`Corruption::Hole`].
pub async fn readings(store: &Store, after: i64, limit: i64) -> Result<Vec<Reading>, StoreError> {
    Ok(range_rows(store, after, limit).await?.into_iter().map(Reading::from).collect())
}

/// Up to the store's moment.
async fn range_rows(store: &Store, after: i64, limit: i64) -> Result<Vec<RawEvent>, StoreError> {
    let limit = limit.min(store.last().saturating_sub(after)).max(0);
    range_in(&**store.client().await?, after, limit).await
}

/// [`range`] as rows, in the snapshot of a transaction.
///
/// # Errors
/// [`Corruption::Hole`].
pub async fn range_in(
    client: &impl GenericClient,
    after: i64,
    limit: i64,
) -> Result<Vec<RawEvent>, StoreError> {
    // A cursor is what a client sends: the highest number there is must not overflow here or in SQL.
    let after = after.min(i64::MAX - limit.max(0) - 1);
    let rows = client.query(include_str!("sql/read_range.sql"), &[&LOG, &after, &limit]).await?;
    let mut events = Vec::with_capacity(rows.len());
    let mut expected = after + 1;
    let mut last = after;
    for row in &rows {
        last = row.try_get("upto")?;
        let found: Option<i64> = row.try_get("seq")?;
        let Some(found) = found else { break };
        if found != expected {
            return Err(Corruption::Hole { expected, found }.into());
        }
        events.push(RawEvent::from_row(row)?);
        expected += 1;
    }
    // The head of the same statement says how many there must be: a hole at the end is one too.
    if expected <= last {
        return Err(Corruption::Hole { expected, found: last }.into());
    }
    Ok(events)
}

/// Gives the events after a position to `each`, page by page up to the head, and says where that was. The next page
/// is on its way while one is worked on.
///
/// # Errors
/// Those of [`range_in`] and of `each`; what came before has been given.
pub async fn each_page_in<E: From<StoreError>>(
    client: &impl GenericClient,
    after: i64,
    limit: i64,
    mut each: impl FnMut(&[RawEvent]) -> Result<(), E>,
) -> Result<i64, E> {
    let mut events = range_in(client, after, limit).await?;
    let mut position = after;
    while let Some(last) = events.last() {
        position = last.seq;
        let (next, done) = join(range_in(client, position, limit), async { each(&events) }).await;
        done?;
        events = next?;
    }
    Ok(position)
}

/// A whole stream (up to the store's moment), in the order of its versions; empty when there is none.
///
/// # Errors
/// [`Corruption::Version`]; [`StoreError::Undecodable`].
pub async fn stream(store: &Store, key: StreamKey) -> Result<Vec<Envelope>, StoreError> {
    Ok(streams(store, &[key]).await?.remove(&key).unwrap_or_default())
}

/// [`stream`], with what is left of the events that can't be read: for readers that tell what there is.
///
/// # Errors
/// [`StoreError`] when the database doesn't answer.
pub async fn stream_readings(store: &Store, key: StreamKey) -> Result<Vec<Reading>, StoreError> {
    Ok(stream_rows(store, key).await?.into_iter().map(Reading::from).collect())
}

/// [`stream`] as rows.
///
/// # Errors
/// [`StoreError`] when the database doesn't answer.
pub async fn stream_rows(store: &Store, key: StreamKey) -> Result<Vec<RawEvent>, StoreError> {
    let client = store.client().await?;
    let statement = client.prepare_cached(READ_STREAMS).await?;
    let rows = client.query(&statement, &[&LOG, &vec![key.id], &store.last()]).await?;
    rows.iter().map(RawEvent::from_row).collect()
}

/// Several whole streams at once; every key asked for is in the answer.
///
/// # Errors
/// [`Corruption::Version`]; [`StoreError::Undecodable`].
pub async fn streams(
    store: &Store,
    keys: &[StreamKey],
) -> Result<BTreeMap<StreamKey, Vec<Envelope>>, StoreError> {
    let ids: Vec<Uuid> = keys.iter().map(|key| key.id).collect();
    let client = store.client().await?;
    let statement = client.prepare_cached(READ_STREAMS).await?;
    let rows = client.query(&statement, &[&LOG, &ids, &store.last()]).await?;
    let mut found: BTreeMap<StreamKey, Vec<Envelope>> = keys.iter().map(|key| (*key, Vec::new())).collect();
    for row in &rows {
        let envelope = RawEvent::from_row(row)?.decode()?;
        let events = found.entry(envelope.stream).or_default();
        let expected = events.last().map_or(1, |last| last.version + 1);
        if envelope.version != expected {
            return Err(Corruption::Version { stream: envelope.stream.id, expected }.into());
        }
        events.push(envelope);
    }
    Ok(found)
}

/// [`streams`], each with what is wrong with it where it is damaged: the others are none the worse for it.
///
/// # Errors
/// [`StoreError`] when the database doesn't answer.
pub async fn each(
    store: &Store,
    keys: &[StreamKey],
) -> Result<BTreeMap<StreamKey, Result<Vec<Envelope>, StoreError>>, StoreError> {
    match streams(store, keys).await {
        Ok(found) => return Ok(found.into_iter().map(|(key, events)| (key, Ok(events))).collect()),
        Err(error) if error.is_damage() => {}
        Err(error) => return Err(error),
    }
    let mut found = BTreeMap::new();
    for key in keys {
        let events = stream(store, *key).await;
        match events {
            Err(error) if !error.is_damage() => return Err(error),
            events => found.insert(*key, events),
        };
    }
    Ok(found)
}

/// The stored results of commands; one that isn't known is missing in the answer.
///
/// # Errors
/// [`StoreError`].
pub async fn results(store: &Store, ids: &[CommandId]) -> Result<Vec<StoredResult>, StoreError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let client = store.client().await?;
    let statement = client.prepare_cached(include_str!("sql/read_results.sql")).await?;
    let rows = client.query(&statement, &[&LOG, &ids]).await?;
    rows.iter()
        .map(|row| {
            let digest: Vec<u8> = row.try_get("fingerprint")?;
            let mut fingerprint = [0; 16];
            for (byte, of) in fingerprint.iter_mut().zip(digest) {
                *byte = of;
            }
            Ok(StoredResult {
                id: CommandId(row.try_get("command_id")?),
                fingerprint,
                refused: row.try_get::<_, i16>("outcome")? == 1,
                position: row.try_get("position")?,
                events: u32::try_from(row.try_get::<_, i32>("event_count")?).unwrap_or_default(),
                result: row.try_get("result")?,
            })
        })
        .collect()
}

/// Events by position, as rows and in order; one that isn't there is missing in the answer.
///
/// # Errors
/// [`StoreError`].
pub async fn at_positions(store: &Store, positions: &[i64]) -> Result<Vec<RawEvent>, StoreError> {
    if positions.is_empty() {
        return Ok(Vec::new());
    }
    let client = store.client().await?;
    let statement = client.prepare_cached(include_str!("sql/read_positions.sql")).await?;
    let rows = client.query(&statement, &[&LOG, &positions]).await?;
    let mut events: Vec<RawEvent> = rows.iter().map(RawEvent::from_row).collect::<Result<_, _>>()?;
    events.sort_by_key(|event| event.seq);
    Ok(events)
}

/// Everything that followed from one intent, in order.
///
/// # Errors
/// [`StoreError::Undecodable`].
pub async fn by_correlation(store: &Store, correlation: CorrelationId) -> Result<Vec<Envelope>, StoreError> {
    let client = store.client().await?;
    let statement = client.prepare_cached(include_str!("sql/read_correlation.sql")).await?;
    let rows = client.query(&statement, &[&LOG, &correlation.0, &store.last()]).await?;
    rows.iter().map(|row| RawEvent::from_row(row)?.decode()).collect()
}

/// Texts by id: [`ERASED`] for one that was erased; an unknown one is missing in the answer.
///
/// # Errors
/// [`StoreError`].
pub async fn contents(store: &Store, ids: &[ContentId]) -> Result<BTreeMap<ContentId, String>, StoreError> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let client = store.client().await?;
    let statement = client.prepare_cached(READ_CONTENTS).await?;
    let mut found = BTreeMap::new();
    for row in client.query(&statement, &[&LOG, &ids]).await? {
        let bytes: Vec<u8> = row.try_get("bytes")?;
        found.insert(ContentId(row.try_get("id")?), String::from_utf8_lossy(&bytes).into_owned());
    }
    let missing: Vec<Uuid> = ids.into_iter().filter(|id| !found.contains_key(&ContentId(*id))).collect();
    for id in erased_in(&**client, &missing).await? {
        found.insert(ContentId(id), ERASED.to_owned());
    }
    Ok(found)
}

/// Which of these contents were erased.
pub(super) async fn erased_in(
    client: &impl GenericClient,
    missing: &[Uuid],
) -> Result<BTreeSet<Uuid>, StoreError> {
    if missing.is_empty() {
        return Ok(BTreeSet::new());
    }
    let rows = client.query(include_str!("sql/read_erasures.sql"), &[&LOG, &missing]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Which of these texts of a workspace are there.
///
/// # Errors
/// [`StoreError`].
pub async fn contents_there(
    store: &Store,
    workspace: WorkspaceId,
    ids: &[ContentId],
) -> Result<BTreeSet<ContentId>, StoreError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let client = store.client().await?;
    let rows = client.query(include_str!("sql/contents_there.sql"), &[&LOG, &workspace.0, &ids]).await?;
    rows.iter().map(|row| Ok(ContentId(row.try_get(0)?))).collect()
}

/// The last position that was recorded at or before a time; 0 when there is none.
///
/// # Errors
/// [`StoreError`].
pub async fn position_at(store: &Store, time: jiff::Timestamp) -> Result<i64, StoreError> {
    let client = store.client().await?;
    Ok(client.query_one(include_str!("sql/read_position_at.sql"), &[&LOG, &time]).await?.try_get(0)?)
}

/// When a position was recorded; none when the log doesn't reach it.
///
/// # Errors
/// [`StoreError`].
pub async fn moment(store: &Store, position: i64) -> Result<Option<jiff::Timestamp>, StoreError> {
    let client = store.client().await?;
    let row = client.query_opt(include_str!("sql/read_moment.sql"), &[&LOG, &position]).await?;
    row.map(|row| row.try_get(0).map_err(Into::into)).transpose()
}

/// The database's clock; where the store is that of a moment, that moment's time.
///
/// # Errors
/// [`StoreError`].
pub async fn now(store: &Store) -> Result<jiff::Timestamp, StoreError> {
    if let Some(moment) = store.as_of() {
        return Ok(moment.time);
    }
    Ok(store.client().await?.query_one(include_str!("sql/read_now.sql"), &[]).await?.try_get(0)?)
}
