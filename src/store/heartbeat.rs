//! Heartbeats of daemons: rows, not events, judged by the database's clock.

use std::time::Duration;

use jiff::Timestamp;

use super::{Store, StoreError};
use crate::kernel::ids::{Incarnation, StreamId, WorkspaceId};

/// A daemon's last heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The daemon's stream.
    pub stream: StreamId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// Its name.
    pub daemon: String,
    /// Which start of it.
    pub incarnation: Incarnation,
    /// When it came.
    pub last_seen: Timestamp,
    /// How long ago that was, when it was read.
    pub silent: Duration,
}

/// Records a heartbeat; answers the database's time.
///
/// # Errors
/// [`StoreError`].
pub async fn beat(
    store: &Store,
    stream: StreamId,
    workspace: WorkspaceId,
    daemon: &str,
    incarnation: Incarnation,
) -> Result<Timestamp, StoreError> {
    let client = store.client().await?;
    let statement = client.prepare_cached(include_str!("sql/beat.sql")).await?;
    let row = client.query_one(&statement, &[&stream.0, &workspace.0, &daemon, &incarnation.0]).await?;
    Ok(row.try_get(0)?)
}

/// The last heartbeat of every daemon.
///
/// # Errors
/// [`StoreError`].
pub async fn all(store: &Store) -> Result<Vec<Heartbeat>, StoreError> {
    read(store, None).await
}

/// The last heartbeats of some daemons; one that never came is missing in the answer. They aren't kept: of an
/// earlier moment none is known.
///
/// # Errors
/// [`StoreError`].
pub async fn of(store: &Store, streams: &[StreamId]) -> Result<Vec<Heartbeat>, StoreError> {
    if store.as_of().is_some() {
        return Ok(Vec::new());
    }
    read(store, Some(streams.iter().map(|stream| stream.0).collect())).await
}

async fn read(store: &Store, streams: Option<Vec<uuid::Uuid>>) -> Result<Vec<Heartbeat>, StoreError> {
    let client = store.client().await?;
    let rows = client.query(include_str!("sql/read_heartbeats.sql"), &[&streams]).await?;
    rows.iter()
        .map(|row| {
            let silent: i64 = row.try_get("silent_ms")?;
            Ok(Heartbeat {
                stream: StreamId(row.try_get("stream_id")?),
                workspace: WorkspaceId(row.try_get("workspace_id")?),
                daemon: row.try_get("daemon")?,
                incarnation: Incarnation(row.try_get("incarnation")?),
                last_seen: row.try_get("last_seen")?,
                silent: Duration::from_millis(u64::try_from(silent).unwrap_or(0)),
            })
        })
        .collect()
}
