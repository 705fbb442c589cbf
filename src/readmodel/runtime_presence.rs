//! Daemons and their runtimes.

use super::found::{Found, one, select};
use super::{ReadModelError, Registry};
use crate::fold::runtime_presence::{DaemonRow, RuntimePointer, key, runtime_key};
use crate::kernel::ids::{RuntimeId, StreamId, WorkspaceId};
use crate::store::Store;

const NAME: &str = "runtime_presence";

/// A daemon by its own id.
///
/// # Errors
/// [`ReadModelError`].
pub async fn daemon(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    daemon: &str,
) -> Result<Option<Found<DaemonRow>>, ReadModelError> {
    one(store, registry.get(NAME)?, &key(StreamId::of_daemon(workspace, daemon))).await
}

/// Which daemon has a runtime; none when it isn't this workspace's.
///
/// # Errors
/// [`ReadModelError`].
pub async fn runtime(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    id: RuntimeId,
) -> Result<Option<RuntimePointer>, ReadModelError> {
    let found: Option<Found<RuntimePointer>> = one(store, registry.get(NAME)?, &runtime_key(id)).await?;
    Ok(found.filter(|found| found.workspace == workspace).map(|found| found.row))
}

/// The daemons of a workspace.
///
/// # Errors
/// [`ReadModelError`].
pub async fn daemons(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
) -> Result<Vec<Found<DaemonRow>>, ReadModelError> {
    select(store, registry.get(NAME)?, include_str!("sql/daemons_of_workspace.sql"), &[&workspace.0]).await
}
