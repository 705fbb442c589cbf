//! Directories: who has them, who waits.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use serde_json::{Value, json};

use super::id;
use crate::domain::directory::{LockBlocked, Place};
use crate::domain::workspace::Role;
use crate::fold::directory_queue::{DirectoryRow, WaiterRow};
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
    let mut on_machines: BTreeMap<MachineId, Vec<Seat>> = BTreeMap::new();
    for row in daemons.into_iter().map(|found| found.row) {
        on_machines.entry(row.machine).or_default().push(Seat { daemon: row.daemon, owner: row.owner });
    }
    let taken = directory_queue::taken(&app.store, &app.registry, who.workspace).await?;
    let shown: Vec<(&DirectoryRow, Option<&DirectoryRow>)> =
        found.iter().map(|found| (&found.row, known_as(&found.row, &taken))).collect();
    let told = daemon_orders::told_to_stop(&app.store, &app.registry, who.workspace).await?;
    let mut tasks: Vec<TaskId> = told.iter().map(|(task, _)| *task).collect();
    for row in shown.iter().map(|(row, known_as)| known_as.unwrap_or(row)) {
        tasks.extend(row.holder.iter().flat_map(|holder| {
            [Some(holder.task), holder.blocked.as_ref().and_then(LockBlocked::by_task)].into_iter().flatten()
        }));
        tasks.extend(row.queue.iter().map(|waiter| waiter.task));
    }
    let tasks = task_status::of_ids(&app.store, &app.registry, tasks).await?;
    let stopping = tasks.iter().filter(|found| told.iter().any(|(id, _)| *id == found.row.id));
    let places: BTreeSet<DirectoryId> = stopping.filter_map(|found| found.row.directory).collect();
    let places = directory_queue::of_ids(&app.store, &app.registry, places).await?;
    let places: BTreeMap<DirectoryId, Place> =
        places.into_iter().map(|found| (found.row.id, found.row.place())).collect();
    let mut known = Known { names: BTreeMap::new(), on_machines, stopping: Vec::new() };
    for task in tasks.into_iter().map(|found| found.row) {
        let since = told.iter().find(|(id, _)| *id == task.id).map(|(_, since)| since.timestamp());
        if let (Some(directory), Some(since), true) = (task.directory, since, task.status.is_terminal()) {
            let run = api::Stopping { task_id: task.id, name: task.name.clone(), since };
            known.stopping.push(Left { directory, place: places.get(&directory).cloned(), run });
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

/// A daemon of a machine.
struct Seat {
    daemon: String,
    owner: UserId,
}

/// A run that was given up in a directory.
struct Left {
    directory: DirectoryId,
    place: Option<Place>,
    run: api::Stopping,
}

impl Left {
    /// Whether it is there, by whichever path.
    fn is_in(&self, row: &DirectoryRow) -> bool {
        self.directory == row.id
            || self.place.as_ref().is_some_and(|place| place.is_same_directory(&row.place()))
    }
}

/// What else is known of directories.
struct Known {
    names: BTreeMap<TaskId, String>,
    /// The daemons of each machine, by id.
    on_machines: BTreeMap<MachineId, Vec<Seat>>,
    stopping: Vec<Left>,
}

/// Whether a caller may see the resolved paths of a machine: they are for those whose daemons are on it, and admins.
fn sees_paths(who: &Identity, on_machine: &[Seat]) -> bool {
    let own = |user: UserId| on_machine.iter().any(|seat| seat.owner == user);
    who.role >= Role::Admin || matches!(&who.caller, Caller::Member { user, .. } if own(*user))
}

/// The daemon whose tasks are in the directory, else the first one of its machine.
fn daemon_of(queue: &DirectoryRow, on_machine: &[Seat]) -> Option<String> {
    let holder = queue.holder.as_ref().map(|holder| &holder.daemon);
    let waits = || queue.queue.first().map(|waiter| &waiter.daemon);
    let first = || on_machine.iter().map(|seat| &seat.daemon).min();
    holder.or_else(waits).or_else(first).cloned()
}

fn value(
    who: &Identity,
    row: &DirectoryRow,
    known_as: Option<&DirectoryRow>,
    known: &Known,
) -> api::Directory {
    let on_machine = known.on_machines.get(&row.machine).map_or(&[][..], Vec::as_slice);
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
            task_id: lock.by_task(),
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
    let there = |left: &&Left| [Some(row), known_as].into_iter().flatten().any(|row| left.is_in(row));
    let stopping = known.stopping.iter().filter(there).map(|left| &left.run);
    api::Directory {
        id: row.id,
        label: row.label.clone(),
        path: sees_paths(who, on_machine).then(|| row.real_path.clone()),
        machine_id: row.machine,
        daemon_id: daemon_of(queue, on_machine),
        holder,
        queue: queue.queue.iter().zip(1..).map(in_line).collect(),
        same_as: known_as.map(|other| other.id),
        stopping: stopping.filter(|run| !holds(run.task_id)).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Via;
    use crate::domain::spec::{WORKSPACE, id};

    #[test]
    fn a_machine_s_paths_are_for_the_owner_of_any_of_its_daemons_and_for_admins() {
        let user = |n| UserId(id(n));
        let seat = |daemon: &str, n| Seat { daemon: daemon.to_owned(), owner: user(n) };
        let machine = [seat("a", 1), seat("b", 2)];
        let who = |n, role| Identity {
            workspace: WORKSPACE,
            caller: Caller::Member { user: user(n), token: None },
            role,
            via: Via::Api,
            daemon: None,
        };
        let sees = |n, role| sees_paths(&who(n, role), &machine);
        assert!(sees(1, Role::Member) && sees(2, Role::Member));
        assert!(!sees(3, Role::Member) && sees(3, Role::Admin));
        let task = Caller::Daemon { daemon: "a".to_owned(), user: user(1) };
        assert!(!sees_paths(&Identity { caller: task, ..who(1, Role::Member) }, &machine));
    }
}
