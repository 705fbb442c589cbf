//! Tasks by what one looks for.

use super::found::{Found, one, select, several};
use super::{ReadModelError, Registry};
use crate::domain::task::{Status, Task};
use crate::fold::task_status::{TaskRow, key};
use crate::kernel::ids::{AgentId, RuntimeId, TaskId, WorkspaceId};
use crate::store::Store;

const NAME: &str = "task_status";

/// Reasons after which a provider's session isn't resumed.
const BROKEN_SESSIONS: [&str; 4] = [
    "iteration_limit",
    "api_invalid_request",
    "agent_error.context_overflow",
    "agent_error.empty_or_unparseable_output",
];

impl Found<TaskRow> {
    /// Whether that claim has the task now.
    #[must_use]
    pub fn is_live(&self, generation: u32) -> bool {
        let claimed =
            matches!(self.row.status, Status::Dispatched | Status::WaitingLocalDirectory | Status::Running);
        claimed && self.row.generation == generation
    }
}

/// One task.
///
/// # Errors
/// [`ReadModelError`].
pub async fn of(
    store: &Store,
    registry: &Registry,
    id: TaskId,
) -> Result<Option<Found<TaskRow>>, ReadModelError> {
    one(store, registry.get(NAME)?, &key(id)).await
}

/// Several tasks; one that isn't there is missing in the answer.
///
/// # Errors
/// [`ReadModelError`].
pub async fn of_ids(
    store: &Store,
    registry: &Registry,
    ids: impl IntoIterator<Item = TaskId>,
) -> Result<Vec<Found<TaskRow>>, ReadModelError> {
    let keys: Vec<String> = ids.into_iter().map(key).collect();
    several(store, registry.get(NAME)?, &keys).await
}

/// Tasks that wait for one of those runtimes, but for those of some agents: most urgent first, then in order of
/// arrival.
///
/// # Errors
/// [`ReadModelError`].
pub async fn candidates(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    runtimes: &[RuntimeId],
    limit: i64,
    but: &[AgentId],
) -> Result<Vec<TaskId>, ReadModelError> {
    let runtimes: Vec<uuid::Uuid> = runtimes.iter().map(|runtime| runtime.0).collect();
    let but: Vec<uuid::Uuid> = but.iter().map(|agent| agent.0).collect();
    let sql = include_str!("sql/task_candidates.sql");
    let found: Vec<Found<TaskRow>> =
        select(store, registry.get(NAME)?, sql, &[&workspace.0, &runtimes, &limit, &but]).await?;
    Ok(found.into_iter().map(|found| found.row.id).collect())
}

/// The claimed tasks of a daemon.
///
/// # Errors
/// [`ReadModelError`].
pub async fn of_daemon(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    daemon: &str,
) -> Result<Vec<Found<TaskRow>>, ReadModelError> {
    let sql = include_str!("sql/tasks_of_daemon.sql");
    select(store, registry.get(NAME)?, sql, &[&workspace.0, &daemon]).await
}

/// Which tasks are wanted.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Of one of these statuses; any when empty.
    pub statuses: Vec<String>,
    /// Of that project.
    pub project: Option<uuid::Uuid>,
    /// Of that agent.
    pub agent: Option<uuid::Uuid>,
    /// Of that issue.
    pub issue: Option<uuid::Uuid>,
    /// At most so many.
    pub limit: i64,
}

/// A workspace's tasks, newest first.
///
/// # Errors
/// [`ReadModelError`].
pub async fn list(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    wanted: &Wanted,
) -> Result<Vec<Found<TaskRow>>, ReadModelError> {
    let sql = include_str!("sql/tasks_of_workspace.sql");
    select(
        store,
        registry.get(NAME)?,
        sql,
        &[&workspace.0, &wanted.statuses, &wanted.project, &wanted.agent, &wanted.issue, &wanted.limit],
    )
    .await
}

/// The tasks that a reference fits: `GAME-12#3`, the full id, or a prefix or suffix of it.
///
/// # Errors
/// [`ReadModelError`].
pub async fn by_reference(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    reference: &str,
) -> Result<Vec<Found<TaskRow>>, ReadModelError> {
    let registered = registry.get(NAME)?;
    if reference.contains('#') {
        let sql = include_str!("sql/task_by_name.sql");
        return select(store, registered, sql, &[&workspace.0, &reference.to_ascii_uppercase()]).await;
    }
    let hex: String = reference.chars().filter(|c| *c != '-').collect::<String>().to_ascii_lowercase();
    if hex.len() < 4 || hex.len() > 32 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Vec::new());
    }
    let sql = include_str!("sql/task_by_part.sql");
    let (prefix, suffix) = (format!("{hex}%"), format!("%{hex}"));
    select(store, registered, sql, &[&workspace.0, &prefix, &suffix]).await
}

/// What a conversation's last run left for the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prior {
    /// The provider's session.
    pub session_id: Option<String>,
    /// Its work directory.
    pub work_dir: Option<String>,
}

/// The session to go on with: that of the conversation's last ended run on the same daemon and provider.
///
/// # Errors
/// [`ReadModelError`].
pub async fn prior(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    task: &Task,
) -> Result<Option<Prior>, ReadModelError> {
    let facts = &task.facts;
    let sql = include_str!("sql/task_prior.sql");
    let found: Vec<Found<TaskRow>> = select(
        store,
        registry.get(NAME)?,
        sql,
        &[&workspace.0, &facts.issue.0, &facts.agent.0, &facts.runtime.0, &task.id.0],
    )
    .await?;
    Ok(found.into_iter().next().map(|found| found.row).and_then(|row| {
        let broken = row.failure_reason.as_deref().is_some_and(|reason| BROKEN_SESSIONS.contains(&reason));
        if broken {
            return None;
        }
        Some(Prior { session_id: row.session_id, work_dir: row.work_dir })
    }))
}
