//! Directories: who has them, who waits.

use std::collections::BTreeMap;

use axum::Json;
use serde_json::{Value, json};

use super::id;
use crate::domain::workspace::Role;
use crate::fold::directory_queue::{DirectoryRow, WaiterRow};
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::auth::{Caller, Identity};
use crate::http::body::Path;
use crate::http::error::ApiError;
use crate::kernel::ids::{DirectoryId, MachineId, TaskId, UserId};
use crate::readmodel::found::Found;
use crate::readmodel::{directory_queue, runtime_presence, task_status};
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
    let tasks: Vec<TaskId> = found
        .iter()
        .flat_map(|found| {
            let holder = found.row.holder.iter().map(|holder| holder.task);
            holder.chain(found.row.queue.iter().map(|waiter| waiter.task)).collect::<Vec<_>>()
        })
        .collect();
    let names: BTreeMap<TaskId, String> = task_status::of_ids(&app.store, &app.registry, tasks)
        .await?
        .into_iter()
        .map(|task| (task.row.id, task.row.name))
        .collect();
    let daemons = runtime_presence::daemons(&app.store, &app.registry, who.workspace).await?;
    let owners: BTreeMap<MachineId, (UserId, String)> =
        daemons.into_iter().map(|found| (found.row.machine, (found.row.owner, found.row.daemon))).collect();
    Ok(found.iter().map(|found| value(who, &found.row, &names, &owners)).collect())
}

fn value(
    who: &Identity,
    row: &DirectoryRow,
    names: &BTreeMap<TaskId, String>,
    owners: &BTreeMap<MachineId, (UserId, String)>,
) -> api::Directory {
    let owner = owners.get(&row.machine);
    // A resolved path is for the machine's owner and admins.
    let visible = who.role >= Role::Admin
        || matches!((&who.caller, owner), (Caller::Member { user, .. }, Some((of, _))) if user == of);
    let holder = row.holder.as_ref().map(|holder| api::Holder {
        task_id: holder.task,
        name: names.get(&holder.task).cloned(),
        since: holder.since.timestamp(),
        locked: holder.locked,
        blocked: holder
            .blocked
            .as_ref()
            .map(|lock| api::Blocked { pid: lock.pid, program: lock.program.clone() }),
    });
    let in_line = |(waiter, place): (&WaiterRow, u32)| api::InLine {
        task_id: waiter.task,
        name: names.get(&waiter.task).cloned(),
        place,
        since: waiter.since.timestamp(),
    };
    api::Directory {
        id: row.id,
        label: row.label.clone(),
        path: visible.then(|| row.real_path.clone()),
        machine_id: row.machine,
        daemon_id: owner.map(|(_, daemon)| daemon.clone()),
        holder,
        queue: row.queue.iter().zip(1..).map(in_line).collect(),
    }
}
