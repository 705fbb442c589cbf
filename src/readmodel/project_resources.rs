//! Projects with their resources.

use super::found::{Found, select};
use super::{ReadModelError, Registry};
use crate::fold::project_resources::ProjectRow;
use crate::kernel::ids::{ProjectId, WorkspaceId};
use crate::store::Store;

/// The ids of a workspace's projects, newest first, by status and priority if asked.
///
/// # Errors
/// [`ReadModelError`].
pub async fn ids(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    status: Option<&str>,
    priority: Option<&str>,
) -> Result<Vec<ProjectId>, ReadModelError> {
    let sql = include_str!("sql/projects_of_workspace.sql");
    let registered = registry.get("project_resources")?;
    let found: Vec<Found<ProjectRow>> =
        select(store, registered, sql, &[&workspace.0, &status, &priority]).await?;
    Ok(found.into_iter().map(|found| found.row.id).collect())
}
