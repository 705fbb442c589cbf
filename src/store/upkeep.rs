//! Duties of the log that somebody must do now and then: partitions ahead, old results and gone transcripts away.
//!
//! Not here: who does them and when (the holder of a lease, `app`).

use std::time::Duration;

use super::{LOG, Store, StoreError};
use crate::kernel::ids::TaskId;

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

/// Deletes the messages of one transcript that is gone, up to the limit of one step; of that task where one is
/// named. Tells whether there may be more.
///
/// # Errors
/// [`StoreError`].
pub async fn purge_transcripts(store: &Store, task: Option<TaskId>) -> Result<bool, StoreError> {
    let task = task.map(|task| task.0);
    let limits = store.limits();
    // What waits for a connection, or on the wire, isn't a statement yet.
    let settled = limits.statement_timeout.duration().saturating_mul(2);
    let settled = i64::try_from(settled.as_millis()).unwrap_or(i64::MAX);
    let client = store.client().await?;
    Ok(client
        .query_one(
            include_str!("sql/purge_transcripts.sql"),
            &[&LOG, &task, &limits.purge_messages, &settled],
        )
        .await?
        .try_get(0)?)
}
