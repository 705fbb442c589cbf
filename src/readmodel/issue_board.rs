//! Issues by what one looks for.

use super::found::{Found, select};
use super::{ReadModelError, Registry, query};
use crate::fold::issue_board::IssueRow;
use crate::kernel::ids::{IssueId, ProjectId, WorkspaceId};
use crate::store::Store;

const NAME: &str = "issue_board";

/// Which issues are wanted.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Of that status.
    pub status: Option<String>,
    /// Of that project.
    pub project: Option<ProjectId>,
    /// Assigned to that person or agent.
    pub assignee: Option<uuid::Uuid>,
    /// At most so many.
    pub limit: i64,
    /// After so many.
    pub offset: i64,
}

/// The ids of a workspace's issues, newest first.
///
/// # Errors
/// [`ReadModelError`].
pub async fn ids(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    wanted: &Wanted,
) -> Result<Vec<IssueId>, ReadModelError> {
    let registered = registry.get(NAME)?;
    query::settle(store, registered).await?;
    let sql = include_str!("sql/issues_of_workspace.sql");
    let project = wanted.project.map(|project| project.0);
    let found: Vec<Found<IssueRow>> = select(
        store,
        registered,
        sql,
        &[&workspace.0, &wanted.status, &project, &wanted.assignee, &wanted.limit, &wanted.offset],
    )
    .await?;
    Ok(found.into_iter().map(|found| found.row.id).collect())
}

/// The issue of that key, without regard to case.
///
/// # Errors
/// [`ReadModelError`].
pub async fn by_key(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    key: &str,
) -> Result<Option<IssueId>, ReadModelError> {
    let sql = include_str!("sql/issue_by_key.sql");
    let key = key.to_ascii_uppercase();
    let registered = registry.get(NAME)?;
    let mut found: Vec<Found<IssueRow>> = select(store, registered, sql, &[&workspace.0, &key]).await?;
    if found.is_empty() {
        // Perhaps it has been created a moment ago.
        query::settle(store, registered).await?;
        found = select(store, registered, sql, &[&workspace.0, &key]).await?;
    }
    Ok(found.first().map(|found| found.row.id))
}
