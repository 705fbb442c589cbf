//! Duties of the log that somebody must do now and then: partitions ahead, old results away.
//!
//! Not here: who does them and when (the holder of a lease, `app`).

use std::time::Duration;

use super::{LOG, Store, StoreError};
use crate::kernel::ids::ContentId;

/// Keeps two partitions ahead; returns how many were made.
///
/// # Errors
/// [`StoreError`].
pub async fn ensure_partitions(store: &Store) -> Result<i32, StoreError> {
    let client = store.client().await?;
    Ok(client.query_one(include_str!("sql/ensure_partitions.sql"), &[]).await?.try_get(0)?)
}

/// Forgets results of commands older than `age`; returns how many.
///
/// # Errors
/// [`StoreError`].
pub async fn prune_commands(store: &Store, age: Duration) -> Result<i64, StoreError> {
    let millis = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let client = store.client().await?;
    Ok(client.query_one(include_str!("sql/prune_commands.sql"), &[&LOG, &millis]).await?.try_get(0)?)
}

/// Deletes texts for good; the events keep their length and digest. Returns how many there were.
///
/// # Errors
/// [`StoreError`].
pub async fn erase_contents(store: &Store, ids: &[ContentId]) -> Result<i64, StoreError> {
    let ids: Vec<uuid::Uuid> = ids.iter().map(|id| id.0).collect();
    let client = store.client().await?;
    Ok(client.query_one(include_str!("sql/erase_contents.sql"), &[&LOG, &ids]).await?.try_get(0)?)
}
