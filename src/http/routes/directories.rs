//! Directories: who has them, who waits.

use std::collections::BTreeMap;

use axum::Json;
use serde_json::{Value, json};

use super::id;
use crate::domain::directory::LockingRun;
use crate::domain::workspace::Role;
use crate::fold::directory_queue::{DirectoryRow, HolderRow, WaiterRow};
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::auth::{Caller, Identity};
use crate::http::body::Path;
use crate::http::error::ApiError;
use crate::kernel::ids::{DirectoryId, MachineId, TaskId, UserId};
use crate::readmodel::found::Found;
use crate::readmodel::{daemon_orders, directory_queue, runtime_presence, task_status};
use crate::wire::api;

/// `GET /api/directories`.
pub async fn list(AsAsked(app): AsAsked, who: Identity) -> Result<Json<Value>, ApiError> {
    let found = directory_queue::of_workspace(&app.store, &app.registry, who.workspace).await?;
    Ok(Json(json!({"directories": values(&app, &who, &found).await?})))
}

/// `GET /api/directories/{id}`.
pub async fn get(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<api::Directory>, ApiError> {
    let wanted: DirectoryId = id(&path, "id")?;
    let found = directory_queue::of(&app.store, &app.registry, wanted)
        .await?
        .filter(|found| found.workspace == who.workspace)
        .ok_or_else(|| ApiError::unknown("directory", wanted))?;
    values(&app, &who, &[found]).await?.pop().map(Json).ok_or(ApiError::NotFound("directory"))
}

async fn values(
    app: &App,
    who: &Identity,
    found: &[Found<DirectoryRow>],
) -> Result<Vec<api::Directory>, ApiError> {
    let daemons = runtime_presence::daemons(&app.store, &app.registry, who.workspace).await?;
    let owners =
        daemons.into_iter().map(|found| (found.row.machine, (found.row.owner, found.row.daemon))).collect();
    let taken = directory_queue::taken(&app.store, &app.registry, who.workspace).await?;
    let shown: Vec<(&DirectoryRow, Option<&DirectoryRow>)> =
        found.iter().map(|found| (&found.row, known_as(&found.row, &taken))).collect();
    let told = daemon_orders::told_to_stop(&app.store, &app.registry, who.workspace).await?;
    let mut tasks: Vec<TaskId> = told.iter().map(|(task, _)| *task).collect();
    for row in shown.iter().map(|(row, known_as)| known_as.unwrap_or(row)) {
        tasks.extend(row.holder.iter().flat_map(|holder| [Some(holder.task), locking(holder)]).flatten());
        tasks.extend(row.queue.iter().map(|waiter| waiter.task));
    }
    let tasks = task_status::of_ids(&app.store, &app.registry, tasks).await?;
    let mut known = Known { names: BTreeMap::new(), owners, stopping: BTreeMap::new() };
    for task in tasks.into_iter().map(|found| found.row) {
        let since = told.iter().find(|(id, _)| *id == task.id).map(|(_, since)| since.timestamp());
        if let (Some(directory), Some(since), true) = (task.directory, since, task.status.is_terminal()) {
            let run = api::Stopping { task_id: task.id, name: task.name.clone(), since };
            known.stopping.entry(directory).or_default().push(run);
        }
        known.names.insert(task.id, task.name);
    }
    Ok(shown.iter().map(|(row, known_as)| value(who, row, *known_as, &known)).collect())
}

/// The taken directory that a free one is by another path, if there is one.
fn known_as<'a>(row: &DirectoryRow, taken: &'a [DirectoryRow]) -> Option<&'a DirectoryRow> {
    if taken.iter().any(|other| other.id == row.id) {
        return None;
    }
    let place = row.place();
    taken.iter().find(|other| other.place().is_same_directory(&place))
}

fn locking(holder: &HolderRow) -> Option<TaskId> {
    match holder.blocked.as_ref()?.run {
        Some(LockingRun::Task { task }) => Some(task),
        Some(LockingRun::Elsewhere {}) | None => None,
    }
}

/// What else is known of directories.
struct Known {
    names: BTreeMap<TaskId, String>,
    owners: BTreeMap<MachineId, (UserId, String)>,
    stopping: BTreeMap<DirectoryId, Vec<api::Stopping>>,
}

fn value(
    who: &Identity,
    row: &DirectoryRow,
    known_as: Option<&DirectoryRow>,
    known: &Known,
) -> api::Directory {
    let owner = known.owners.get(&row.machine);
    // A resolved path is for the machine's owner and admins.
    let visible = who.role >= Role::Admin
        || matches!((&who.caller, owner), (Caller::Member { user, .. }, Some((of, _))) if user == of);
    let queue = known_as.unwrap_or(row);
    let name = |task: TaskId| known.names.get(&task).cloned();
    let holder = queue.holder.as_ref().map(|holder| api::Holder {
        task_id: holder.task,
        name: name(holder.task),
        since: holder.since.timestamp(),
        locked: holder.locked,
        blocked: holder.blocked.as_ref().map(|lock| api::Blocked {
            by: lock.who(|task| name(task).unwrap_or_else(|| task.to_string())),
            pid: lock.pid,
            program: lock.program.clone(),
            task_id: locking(holder),
        }),
    });
    let in_line = |(waiter, place): (&WaiterRow, u32)| api::InLine {
        task_id: waiter.task,
        name: name(waiter.task),
        place,
        since: waiter.since.timestamp(),
    };
    // Who holds it is told as its holder, also while it is stopping.
    let holds = |task: TaskId| queue.holder.as_ref().is_some_and(|holder| holder.task == task);
    let stopping = [Some(row), known_as].into_iter().flatten();
    let stopping = stopping.flat_map(|row| known.stopping.get(&row.id).into_iter().flatten());
    api::Directory {
        id: row.id,
        label: row.label.clone(),
        path: visible.then(|| row.real_path.clone()),
        machine_id: row.machine,
        daemon_id: owner.map(|(_, daemon)| daemon.clone()),
        holder,
        queue: queue.queue.iter().zip(1..).map(in_line).collect(),
        same_as: known_as.map(|other| other.id),
        stopping: stopping.filter(|run| !holds(run.task_id)).cloned().collect(),
    }
}
