//! Reads the log: by position, by stream, by correlation; contents by id.
//!
//! Invariants: a range is dense or an error; it never ends before the head of its own snapshot while
//! there is room in the answer.

use std::collections::BTreeMap;

use tokio_postgres::GenericClient;
use uuid::Uuid;

use super::raw::{RawEvent, Reading};
use super::{Corruption, LOG, Store, StoreError};
use crate::domain::{Envelope, StreamKey};
use crate::kernel::ids::{ContentId, CorrelationId};

/// Texts by id, with what their digests need.
pub(super) const READ_CONTENTS: &str = include_str!("sql/read_contents.sql");

const READ_STREAMS: &str = include_str!("sql/read_streams.sql");

/// The log's last position; 0 when it is empty.
///
/// # Errors
/// [`StoreError`].
pub async fn head(store: &Store) -> Result<i64, StoreError> {
    head_in(&**store.client().await?).await
}

/// [`head`], in the snapshot of a transaction.
///
/// # Errors
/// [`StoreError`].
pub async fn head_in(client: &impl GenericClient) -> Result<i64, StoreError> {
    Ok(client.query_one(include_str!("sql/read_head.sql"), &[&LOG]).await?.try_get(0)?)
}

/// Up to `limit` events after a position, in order and without a hole.
///
/// # Errors
/// [`Corruption::Hole`]; [`StoreError::Undecodable`].
pub async fn range(store: &Store, after: i64, limit: i64) -> Result<Vec<Envelope>, StoreError> {
    range_in(&**store.client().await?, after, limit).await?.iter().map(RawEvent::read).collect()
}

/// [`range`], with what is left of those that can't be read: for readers that tell what there is.
///
/// # Errors
/// [`Corruption::Hole`].
pub async fn readings(store: &Store, after: i64, limit: i64) -> Result<Vec<Reading>, StoreError> {
    let rows = range_in(&**store.client().await?, after, limit).await?;
    Ok(rows.into_iter().map(Reading::from).collect())
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

/// A whole stream, in the order of its versions; empty when there is none.
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
    let rows = client.query(&statement, &[&LOG, &vec![key.id]]).await?;
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
    let rows = client.query(&statement, &[&LOG, &ids]).await?;
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

/// Everything that followed from one intent, in order.
///
/// # Errors
/// [`StoreError::Undecodable`].
pub async fn by_correlation(store: &Store, correlation: CorrelationId) -> Result<Vec<Envelope>, StoreError> {
    let client = store.client().await?;
    let statement = client.prepare_cached(include_str!("sql/read_correlation.sql")).await?;
    let rows = client.query(&statement, &[&LOG, &correlation.0]).await?;
    rows.iter().map(|row| RawEvent::from_row(row)?.decode()).collect()
}

/// Texts by id; an erased or unknown one is missing in the answer.
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
    let rows = client.query(&statement, &[&LOG, &ids]).await?;
    rows.iter()
        .map(|row| {
            let bytes: Vec<u8> = row.try_get("bytes")?;
            Ok((ContentId(row.try_get("id")?), String::from_utf8_lossy(&bytes).into_owned()))
        })
        .collect()
}

/// The last position that was recorded at or before a time; 0 when there is none.
///
/// # Errors
/// [`StoreError`].
pub async fn position_at(store: &Store, time: jiff::Timestamp) -> Result<i64, StoreError> {
    let client = store.client().await?;
    Ok(client.query_one(include_str!("sql/read_position_at.sql"), &[&LOG, &time]).await?.try_get(0)?)
}

/// The database's clock.
///
/// # Errors
/// [`StoreError`].
pub async fn now(store: &Store) -> Result<jiff::Timestamp, StoreError> {
    Ok(store.client().await?.query_one(include_str!("sql/read_now.sql"), &[]).await?.try_get(0)?)
}
