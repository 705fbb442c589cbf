//! Open orders of daemons.

use super::found::{Found, select};
use super::{ReadModelError, Registry};
use crate::fold::daemon_orders::OrderRow;
use crate::kernel::ids::StreamId;
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
