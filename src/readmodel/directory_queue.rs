//! Directories with their holders and queues.

use super::found::{Found, one, select, several};
use super::{ReadModelError, Registry};
use crate::fold::directory_queue::{DirectoryRow, key};
use crate::kernel::ids::{DirectoryId, TaskId, WorkspaceId};
use crate::store::Store;

const NAME: &str = "directory_queue";

/// Free directories that somebody waits for.
///
/// # Errors
/// [`ReadModelError`].
pub async fn free_with_waiters(
    store: &Store,
    registry: &Registry,
) -> Result<Vec<Found<DirectoryRow>>, ReadModelError> {
    select(store, registry.get(NAME)?, include_str!("sql/directories_free.sql"), &[]).await
}

/// Directories that a daemon's tasks hold, with the holding task.
///
/// # Errors
/// [`ReadModelError`].
pub async fn held_by_daemon(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    daemon: &str,
) -> Result<Vec<(DirectoryId, TaskId)>, ReadModelError> {
    let sql = include_str!("sql/directories_of_daemon.sql");
    let found: Vec<Found<DirectoryRow>> =
        select(store, registry.get(NAME)?, sql, &[&workspace.0, &daemon]).await?;
    Ok(found
        .into_iter()
        .filter_map(|found| found.row.holder.map(|holder| (found.row.id, holder.task)))
        .collect())
}

/// The directories of a workspace, by label.
///
/// # Errors
/// [`ReadModelError`].
pub async fn of_workspace(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
) -> Result<Vec<Found<DirectoryRow>>, ReadModelError> {
    select(store, registry.get(NAME)?, include_str!("sql/directories_of_workspace.sql"), &[&workspace.0])
        .await
}

/// One directory.
///
/// # Errors
/// [`ReadModelError`].
pub async fn of(
    store: &Store,
    registry: &Registry,
    id: DirectoryId,
) -> Result<Option<Found<DirectoryRow>>, ReadModelError> {
    one(store, registry.get(NAME)?, &key(id)).await
}

/// Several directories; one that isn't there is missing in the answer.
///
/// # Errors
/// [`ReadModelError`].
pub async fn of_ids(
    store: &Store,
    registry: &Registry,
    ids: impl IntoIterator<Item = DirectoryId>,
) -> Result<Vec<Found<DirectoryRow>>, ReadModelError> {
    let keys: Vec<String> = ids.into_iter().map(key).collect();
    several(store, registry.get(NAME)?, &keys).await
}

/// Directories that have a holder or a queue.
///
/// # Errors
/// [`ReadModelError`].
pub async fn taken(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
) -> Result<Vec<DirectoryRow>, ReadModelError> {
    let sql = include_str!("sql/directories_taken.sql");
    let found: Vec<Found<DirectoryRow>> = select(store, registry.get(NAME)?, sql, &[&workspace.0]).await?;
    Ok(found.into_iter().map(|found| found.row).collect())
}
