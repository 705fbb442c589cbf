//! Agents.

use super::found::{Found, one, select};
use super::{ReadModelError, Registry};
use crate::fold::agent_roster::{AgentRow, key};
use crate::kernel::ids::{AgentId, WorkspaceId};
use crate::store::Store;

const NAME: &str = "agent_roster";

/// The agents of a workspace, oldest first; archived ones if asked.
///
/// # Errors
/// [`ReadModelError`].
pub async fn of_workspace(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    archived: bool,
) -> Result<Vec<Found<AgentRow>>, ReadModelError> {
    let sql = include_str!("sql/agents_of_workspace.sql");
    select(store, registry.get(NAME)?, sql, &[&workspace.0, &archived]).await
}

/// One agent of a workspace.
///
/// # Errors
/// [`ReadModelError`].
pub async fn of(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    id: AgentId,
) -> Result<Option<AgentRow>, ReadModelError> {
    let found: Option<Found<AgentRow>> = one(store, registry.get(NAME)?, &key(id)).await?;
    Ok(found.filter(|found| found.workspace == workspace).map(|found| found.row))
}
