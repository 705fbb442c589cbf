//! What is overdue by the database's clock.

use std::time::Duration;

use super::found::{Found, select};
use super::{ReadModelError, Registry};
use crate::fold::timers::TimerRow;
use crate::store::Store;

/// How many are looked at in one round.
const MOST: i64 = 500;

/// Claims and promotions that nobody has confirmed for that long, oldest first.
///
/// # Errors
/// [`ReadModelError`].
pub async fn unconfirmed(
    store: &Store,
    registry: &Registry,
    after: Duration,
) -> Result<Vec<Found<TimerRow>>, ReadModelError> {
    due(store, registry, &["receipt", "promotion"], after).await
}

/// Tasks that nobody has claimed for that long, oldest first.
///
/// # Errors
/// [`ReadModelError`].
pub async fn unclaimed(
    store: &Store,
    registry: &Registry,
    after: Duration,
) -> Result<Vec<Found<TimerRow>>, ReadModelError> {
    due(store, registry, &["queued"], after).await
}

async fn due(
    store: &Store,
    registry: &Registry,
    kinds: &[&str],
    after: Duration,
) -> Result<Vec<Found<TimerRow>>, ReadModelError> {
    let micros = i64::try_from(after.as_micros()).unwrap_or(i64::MAX);
    let sql = include_str!("sql/timers_due.sql");
    select(store, registry.get("timers")?, sql, &[&kinds, &micros, &MOST]).await
}
