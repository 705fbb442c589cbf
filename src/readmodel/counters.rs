//! The last numbers drawn.

use super::found::{Found, one};
use super::{ReadModelError, Registry};
use crate::fold::counters::{CounterRow, issues_key};
use crate::kernel::ids::WorkspaceId;
use crate::store::Store;

/// The number that the next issue will probably get.
///
/// # Errors
/// [`ReadModelError`].
pub async fn next_issue(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
) -> Result<u32, ReadModelError> {
    let found: Option<Found<CounterRow>> =
        one(store, registry.get("counters")?, &issues_key(workspace)).await?;
    Ok(found.map_or(1, |found| found.row.value.saturating_add(1)))
}
