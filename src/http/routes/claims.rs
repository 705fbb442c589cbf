//! Claims: a daemon asks for work and gets assignments.
//!
//! Invariants: the same request key gets the same claim again; a request waits for work on the log's head,
//! never by polling the database; a claim whose assignment can't be built is answered without it, and its task
//! isn't claimed again before all of it can be read.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::daemon::live;
use super::id;
use crate::app::decision::Committed;
use crate::app::set_aside::Standing;
use crate::app::task_claim::TaskClaim;
use crate::http::App;
use crate::http::assign::{build, damage};
use crate::http::auth::Identity;
use crate::http::body::{Path, Query, Reported};
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at};
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::{AgentId, RuntimeId, TaskId, WorkspaceId};
use crate::readmodel::task_status;
use crate::wire::daemon::{Assignment, ClaimAnswer, ClaimRequest};

/// Most tasks of one claim.
const MOST: i32 = 32;
/// Candidates looked at for each task wanted: some are passed over for want of a slot.
const CANDIDATES: i64 = 64;

/// `POST /api/daemon/tasks/claim`.
pub async fn claim(
    State(app): State<App>,
    mut call: Call,
    body: Reported<ClaimRequest>,
) -> Result<Response, ApiError> {
    let asked = body.value;
    if asked.daemon_id.is_empty() {
        return Err(ApiError::field("daemon_id", "`daemon_id` is missing"));
    }
    if asked.max_tasks < 0 {
        return Err(ApiError::field("max_tasks", "`max_tasks` is not negative"));
    }
    live(&call.who.speaks_for(&app, &asked.daemon_id).await?, asked.incarnation)?;
    let done = claimed(&app, &call, &asked, &body.raw).await?;
    let tasks = assignments(&app, &call.who, &done).await?;
    Ok(at(done.position, Json(ClaimAnswer { tasks })))
}

/// `POST /api/daemon/runtimes/{id}/tasks/claim`: one task, for old daemons.
pub async fn claim_one(
    State(app): State<App>,
    mut call: Call,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    let runtime: RuntimeId = id(&path, "id")?;
    let row = call.who.speaks_for_runtime(&app, runtime).await?;
    let asked = ClaimRequest {
        daemon_id: row.daemon,
        runtime_ids: vec![runtime],
        max_tasks: 1,
        incarnation: None,
        wait_ms: None,
    };
    let done = claimed(&app, &call, &asked, &Value::Null).await?;
    let task = assignments(&app, &call.who, &done).await?.into_iter().next();
    Ok(at(done.position, Json(json!({"task": task}))))
}

async fn claimed(app: &App, call: &Call, asked: &ClaimRequest, raw: &Value) -> Result<Committed, ApiError> {
    let wait = app.limits.claim_poll.duration();
    let wait = wait.min(std::time::Duration::from_millis(asked.wait_ms.unwrap_or(0)));
    let deadline = tokio::time::Instant::now() + wait;
    let max = usize::try_from(asked.max_tasks.min(MOST)).unwrap_or(0);
    let workspace = call.who.workspace;
    let mut head = app.store.head();
    let mut first = true;
    // Agents whose slots are all taken, of the last look.
    let mut full: Vec<AgentId> = Vec::new();
    loop {
        head.borrow_and_update();
        let (candidates, more) = candidates(app, workspace, &asked.runtime_ids, &full).await?;
        let over = app.shutdown.is_cancelled() || tokio::time::Instant::now() >= deadline;
        // The first round always asks the writer: under this key there may be a claim already.
        if first || over || !candidates.is_empty() {
            first = false;
            let decision = TaskClaim {
                workspace,
                daemon: asked.daemon_id.clone(),
                incarnation: asked.incarnation,
                runtimes: asked.runtime_ids.clone(),
                candidates,
                max,
                daemon_slots: app.limits.daemon_slots,
            };
            let done = call.submit(app, "task.claim", raw, decision).await?;
            for damaged in done.result["unreadable"].as_array().into_iter().flatten() {
                let task: TaskId = serde_json::from_value(damaged["id"].clone())?;
                set_aside(app, task, damaged["why"].as_str().unwrap_or_default());
            }
            let some = done.result["tasks"].as_array().is_some_and(|tasks| !tasks.is_empty());
            if some {
                return Ok(done);
            }
            // A page of nothing but tasks of full agents hides those of others behind it.
            let known = full.len();
            if more {
                full.extend(serde_json::from_value::<Vec<AgentId>>(done.result["full"].clone())?);
            }
            if full.len() > known {
                continue;
            }
            if over {
                return Ok(done);
            }
            full.clear();
        }
        tokio::select! {
            () = tokio::time::sleep_until(deadline) => {}
            () = app.shutdown.cancelled() => {}
            _ = head.changed() => {}
        }
    }
}

/// Tasks that wait, best first, but for those that are set aside or of full agents; whether there may be more.
async fn candidates(
    app: &App,
    workspace: WorkspaceId,
    runtimes: &[RuntimeId],
    full: &[AgentId],
) -> Result<(Vec<TaskId>, bool), ApiError> {
    // Those set aside must not fill the page.
    let most = CANDIDATES.saturating_add(i64::try_from(app.damaged_tasks.count()).unwrap_or(i64::MAX));
    let mut found =
        task_status::candidates(&app.store, &app.registry, workspace, runtimes, most, full).await?;
    let more = i64::try_from(found.len()).is_ok_and(|found| found >= most);
    let mut kept = Vec::with_capacity(found.len());
    for task in found.drain(..) {
        match app.damaged_tasks.standing(&task, Instant::now()) {
            Standing::Free => kept.push(task),
            Standing::Waits => {}
            Standing::Due => match damage(app, task).await? {
                Some(why) => set_aside(app, task, &why),
                None => {
                    app.damaged_tasks.clear(&task);
                    kept.push(task);
                }
            },
        }
    }
    Ok((kept, more))
}

fn set_aside(app: &App, task: TaskId, why: &str) {
    let again = app.damaged_tasks.note(task, Instant::now());
    tracing::error!(%task, why, ?again, "a task can't be given to its daemon: the log is damaged there");
}

async fn assignments(app: &App, who: &Identity, done: &Committed) -> Result<Vec<Assignment>, ApiError> {
    let mut tasks = Vec::new();
    for claimed in done.result["tasks"].as_array().into_iter().flatten() {
        let task: TaskId = serde_json::from_value(claimed["id"].clone())?;
        let generation: u32 = serde_json::from_value(claimed["generation"].clone())?;
        match build(app, who.workspace, task, generation).await {
            // A claim that was taken back since isn't in a repeated answer any more.
            Ok(assignment) => tasks.extend(assignment),
            // It stays so however often it is asked for: the others of this claim must not wait for it, and
            // nobody claims it again before it can be read.
            Err(error) if error.is_damage() || matches!(error, ApiError::NotFound(_)) => {
                set_aside(app, task, &Chain(&error).to_string());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(tasks)
}

/// `GET /api/daemon/tasks/{id}/assignment?generation=`.
#[derive(Debug, Deserialize)]
pub struct Asked {
    generation: u32,
}

/// The assignment of a live claim, again.
pub async fn assignment(
    State(app): State<App>,
    mut who: Identity,
    Path(path): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Json<Assignment>, ApiError> {
    let task: TaskId = id(&path, "id")?;
    let loaded = who.speaks_for_task(&app, task).await?;
    build(&app, who.workspace, task, asked.generation).await?.map(Json).ok_or_else(|| {
        crate::domain::Refusal::conflict(
            "stale_generation",
            format!("claim {} of {} isn't the live one", asked.generation, loaded.state.name()),
            "Forget this claim; the task went on without it.",
        )
        .into()
    })
}
