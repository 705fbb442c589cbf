//! Open orders of daemons.

use super::found::{Found, select};
use super::{ReadModelError, Registry};
use crate::fold::At;
use crate::fold::daemon_orders::OrderRow;
use crate::kernel::ids::{StreamId, TaskId, WorkspaceId};
use crate::store::Store;

/// How many orders one answer holds.
const MOST: i64 = 100;

/// A daemon's open orders after a position, oldest first.
///
/// # Errors
/// [`ReadModelError`].
pub async fn after(
    store: &Store,
    registry: &Registry,
    daemon: StreamId,
    position: i64,
) -> Result<Vec<Found<OrderRow>>, ReadModelError> {
    let sql = include_str!("sql/orders_after.sql");
    select(store, registry.get("daemon_orders")?, sql, &[&daemon.0, &position, &MOST]).await
}

/// The tasks that a machine has been told to stop and hasn't heard of yet, with the time of the order.
///
/// # Errors
/// [`ReadModelError`].
pub async fn told_to_stop(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
) -> Result<Vec<(TaskId, At)>, ReadModelError> {
    let sql = include_str!("sql/orders_to_stop.sql");
    let found: Vec<Found<OrderRow>> =
        select(store, registry.get("daemon_orders")?, sql, &[&workspace.0]).await?;
    Ok(found.into_iter().filter_map(|found| Some((found.row.task?, found.row.given_at))).collect())
}
