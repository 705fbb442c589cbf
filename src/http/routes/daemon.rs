//! Daemons: they register, beat, drain, sign off, get orders.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::id;
use crate::app::daemon_register::DaemonRegister;
use crate::app::daemon_write::DaemonWrite;
use crate::app::task_sweep::DaemonLost;
use crate::domain::Refusal;
use crate::domain::daemon::{DaemonCommand, FoundRuntime, Registration};
use crate::fold::daemon_orders::{OrderKind, OrderRow};
use crate::fold::runtime_presence::DaemonRow;
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::auth::Identity;
use crate::http::body::{Path, Query, Reported};
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at};
use crate::kernel::digest;
use crate::kernel::ids::{
    DirectoryId, Incarnation, MachineId, OrderId, RuntimeId, StreamId, TaskId, WorkspaceId, digest_uuid,
};
use crate::readmodel::found::Found;
use crate::readmodel::{access, daemon_orders, directory_queue, task_status};
use crate::store::heartbeat;
use crate::wire::daemon::{
    Heartbeat, Order, OrderBody, Orders, Probed, Register, Registered, RegisteredRuntime,
};

pub use super::claims::{assignment, claim, claim_one};
pub use super::reports::{
    messages, messages_so_far, prepare_lease, progress, recover_orphans, report, status, wait_local_directory,
};

/// `GET /api/daemon/workspaces`.
pub async fn workspaces(State(app): State<App>, who: Identity) -> Result<Json<Value>, ApiError> {
    let Json(values) = super::workspaces::list(AsAsked(app), who).await?;
    let short = values.iter().map(|value| json!({"id": value["id"], "name": value["name"]}));
    Ok(Json(short.collect()))
}

/// `GET /api/daemon/workspaces/{id}/runtime-profiles`: there are none.
pub async fn runtime_profiles(
    State(app): State<App>,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let wanted: WorkspaceId = id(&path, "id")?;
    super::workspaces::visible(&app, &who, wanted).await?;
    Ok(Json(json!({"workspace_id": wanted, "runtime_profiles": []})))
}

/// `POST /api/daemon/register`.
pub async fn register(
    State(app): State<App>,
    mut call: Call,
    body: Reported<Register>,
) -> Result<Response, ApiError> {
    let member = call.who.user()?;
    let asked = body.value;
    call.who.move_to(&app, asked.workspace_id).await?;
    call.who.registers(&app, &asked.daemon_id).await?;
    let daemon = asked.daemon_id.clone();
    // Public daemons name neither machine nor process: both are derived from their id.
    let derived = |label: &[u8]| digest_uuid(&[label, daemon.as_bytes()]);
    let incarnation =
        asked.incarnation.unwrap_or_else(|| Incarnation(derived(b"multica-public-incarnation")));
    let registration = Registration {
        workspace: call.who.workspace,
        daemon: daemon.clone(),
        machine: asked.machine_id.unwrap_or_else(|| MachineId(derived(b"multica-public-machine"))),
        incarnation,
        device_name: asked.device_name,
        cli_version: asked.cli_version,
        os: asked.os,
        member,
        role: call.who.role,
        capabilities: asked.capabilities,
        runtimes: asked
            .runtimes
            .into_iter()
            .map(|found| FoundRuntime { provider: found.provider, version: found.version, name: found.name })
            .collect(),
    };
    let workspace = call.who.workspace;
    let claims: Option<Vec<_>> =
        asked.claims.map(|all| all.into_iter().map(|claim| (claim.task, claim.generation)).collect());
    let (tasks, directories) = match &claims {
        Some(_) => had(&app, workspace, &daemon).await?,
        None => (Vec::new(), Vec::new()),
    };
    let daemon_slots = app.limits.daemon_slots;
    let decision = DaemonRegister { registration, claims, tasks, directories, daemon_slots };
    let done = call.submit(&app, "daemon.register", &body.raw, decision).await?;
    let stream = StreamId::of_daemon(workspace, &daemon);
    heartbeat::beat(&app.store, stream, workspace, &daemon, incarnation).await?;
    let row = call.who.speaks_for(&app, &daemon).await?;
    Ok(at(done.position, Json(registered(&app, &call.who, &row).await?)))
}

/// Tasks that a daemon is seen to have, each with the id of a run that may be queued in its stead.
type HadTasks = Vec<(TaskId, TaskId)>;
/// Directories that a daemon is seen to hold, with the holding task.
type HadDirectories = Vec<(DirectoryId, TaskId)>;

/// What a daemon is seen to have.
async fn had(
    app: &App,
    workspace: WorkspaceId,
    daemon: &str,
) -> Result<(HadTasks, HadDirectories), ApiError> {
    let tasks = task_status::of_daemon(&app.store, &app.registry, workspace, daemon)
        .await?
        .into_iter()
        .map(|task| (task.row.id, TaskId(app.world.uuid_v7())))
        .collect();
    let directories = directory_queue::held_by_daemon(&app.store, &app.registry, workspace, daemon).await?;
    Ok((tasks, directories))
}

async fn registered(app: &App, who: &Identity, row: &DaemonRow) -> Result<Registered, ApiError> {
    let workspace = access::workspace(&app.store, &app.registry, who.workspace).await?;
    let repos = workspace.map(|found| found.row.repos).unwrap_or_default();
    let mut urls: Vec<&str> = repos.iter().map(|repo| repo.url.as_str()).collect();
    urls.sort_unstable();
    let repos_version = digest::hex(&digest::sha256_plain(urls.join("\n").as_bytes()));
    Ok(Registered {
        runtimes: row
            .runtimes
            .iter()
            .map(|runtime| RegisteredRuntime {
                id: runtime.id,
                name: runtime.name.clone(),
                provider: runtime.provider.clone(),
                status: if runtime.online { "online" } else { "offline" }.to_owned(),
            })
            .collect(),
        repos: repos.iter().map(|repo| json!({"url": repo.url})).collect(),
        repos_version,
        settings: serde_json::Map::new(),
    })
}

/// Refuses a process that isn't the registered one.
///
/// # Errors
/// `daemon_superseded`.
pub fn live(row: &DaemonRow, incarnation: Option<Incarnation>) -> Result<(), ApiError> {
    match incarnation {
        Some(incarnation) if incarnation != row.incarnation => Err(Refusal::conflict(
            "daemon_superseded",
            "another process of this daemon has registered since",
            "Stop this process; the newer one goes on.",
        )
        .into()),
        Some(_) | None => Ok(()),
    }
}

/// The daemon that a public client may also name by one of its runtimes.
async fn named(
    app: &App,
    who: &mut Identity,
    daemon: Option<&str>,
    runtime: Option<RuntimeId>,
) -> Result<DaemonRow, ApiError> {
    match (daemon, runtime) {
        (Some(daemon), _) => who.speaks_for(app, daemon).await,
        (None, Some(runtime)) => who.speaks_for_runtime(app, runtime).await,
        (None, None) => Err(ApiError::field("daemon_id", "`daemon_id` is missing")),
    }
}

/// `POST /api/daemon/heartbeat`.
pub async fn heartbeat(
    State(app): State<App>,
    mut call: Call,
    body: Reported<Heartbeat>,
) -> Result<Response, ApiError> {
    let asked = body.value;
    let workspace = call.who.workspace;
    let row = named(&app, &mut call.who, asked.daemon_id.as_deref(), asked.runtime_id).await?;
    live(&row, asked.incarnation)?;
    heartbeat::beat(&app.store, row.id, workspace, &row.daemon, row.incarnation).await?;
    let mut position = *app.store.head().borrow();
    if row.runtimes.iter().any(|runtime| !runtime.online && !runtime.withdrawn) && !row.signed_off {
        let command =
            DaemonCommand::ComeBack { incarnation: asked.incarnation, runtimes: Vec::new(), last_seen: None };
        let decision = DaemonWrite { workspace, daemon: row.daemon, command, result: Value::Null };
        position = call.submit(&app, "daemon.come_back", &body.raw, decision).await?.position;
    }
    Ok(at(position, Json(json!({"status": "ok"}))))
}

/// `POST /api/daemon/deregister`.
#[derive(Debug, Deserialize)]
pub struct Deregister {
    #[serde(default)]
    daemon_id: Option<String>,
    #[serde(default)]
    incarnation: Option<Incarnation>,
    #[serde(default)]
    runtime_ids: Vec<RuntimeId>,
}

/// A daemon signs off; its runtimes are offline.
pub async fn deregister(
    State(app): State<App>,
    mut call: Call,
    body: Reported<Deregister>,
) -> Result<Response, ApiError> {
    let asked = body.value;
    let workspace = call.who.workspace;
    let runtime = asked.runtime_ids.first().copied();
    let row = named(&app, &mut call.who, asked.daemon_id.as_deref(), runtime).await?;
    let command = DaemonCommand::Deregister { incarnation: asked.incarnation };
    let decision = DaemonWrite { workspace, daemon: row.daemon, command, result: Value::Null };
    let done = call.submit(&app, "daemon.deregister", &body.raw, decision).await?;
    Ok(at(done.position, Json(json!({"status": "ok"}))))
}

/// `POST /api/daemon/drain`.
#[derive(Debug, Deserialize)]
pub struct Drain {
    daemon_id: String,
    incarnation: Incarnation,
    #[serde(default)]
    ended: bool,
}

/// A daemon takes no new claims, or takes them again.
pub async fn drain(
    State(app): State<App>,
    mut call: Call,
    body: Reported<Drain>,
) -> Result<Response, ApiError> {
    let Drain { daemon_id, incarnation, ended } = body.value;
    call.who.speaks_for(&app, &daemon_id).await?;
    let command = if ended {
        DaemonCommand::EndDrain { incarnation }
    } else {
        DaemonCommand::StartDrain { incarnation }
    };
    let decision =
        DaemonWrite { workspace: call.who.workspace, daemon: daemon_id, command, result: Value::Null };
    let done = call.submit(&app, "daemon.drain", &body.raw, decision).await?;
    Ok(at(done.position, Json(json!({"status": "ok"}))))
}

/// `GET /api/daemon/orders?daemon_id=&after=&wait_ms=`.
#[derive(Debug, Deserialize)]
pub struct OrdersAsked {
    daemon_id: String,
    #[serde(default)]
    after: i64,
    #[serde(default)]
    wait_ms: u64,
    incarnation: Option<Incarnation>,
}

/// Open orders, as soon as there are some.
pub async fn orders(
    State(app): State<App>,
    mut who: Identity,
    Query(asked): Query<OrdersAsked>,
) -> Result<Json<Orders>, ApiError> {
    let row = who.speaks_for(&app, &asked.daemon_id).await?;
    live(&row, asked.incarnation)?;
    let stream = row.id;
    let wait = app.limits.order_poll.duration().min(std::time::Duration::from_millis(asked.wait_ms));
    let deadline = tokio::time::Instant::now() + wait;
    let mut head = app.store.head();
    loop {
        head.borrow_and_update();
        let found = daemon_orders::after(&app.store, &app.registry, stream, asked.after).await?;
        let orders: Vec<Order> = found.into_iter().filter_map(order).collect();
        let over = app.shutdown.is_cancelled() || tokio::time::Instant::now() >= deadline;
        if !orders.is_empty() || over {
            let after = orders.iter().map(|order| order.position).max().unwrap_or(asked.after);
            return Ok(Json(Orders { orders, after }));
        }
        tokio::select! {
            () = tokio::time::sleep_until(deadline) => {}
            () = app.shutdown.cancelled() => {}
            _ = head.changed() => {}
        }
    }
}

fn order(found: Found<OrderRow>) -> Option<Order> {
    let Found { position, row, .. } = found;
    let body = match row.order_kind {
        OrderKind::Cancel => OrderBody::Cancel { task: row.task?, generation: row.generation? },
        OrderKind::Promoted => {
            OrderBody::Promoted { task: row.task?, generation: row.generation?, directory: row.directory? }
        }
        OrderKind::Probe => OrderBody::Probe { path: row.path? },
    };
    Some(Order { id: row.id, position, body })
}

/// `POST /api/daemon/orders/{id}/probed`.
pub async fn probed(
    State(app): State<App>,
    mut call: Call,
    Path(path): Path<String>,
    body: Reported<Probed>,
) -> Result<Response, ApiError> {
    let order: OrderId = id(&path, "id")?;
    let Probed { daemon_id, result } = body.value;
    call.who.speaks_for(&app, &daemon_id).await?;
    let command = DaemonCommand::RecordProbe { order, result };
    let decision =
        DaemonWrite { workspace: call.who.workspace, daemon: daemon_id, command, result: Value::Null };
    let done = call.submit(&app, "daemon.probed", &body.raw, decision).await?;
    Ok(at(done.position, Json(json!({"status": "ok"}))))
}

/// `POST /api/daemons/{id}/declare-dead`: its owner or an admin gives a machine up.
pub async fn declare_dead(
    State(app): State<App>,
    call: Call,
    Path(daemon): Path<String>,
) -> Result<Response, ApiError> {
    let workspace = call.who.workspace;
    let row =
        call.who.may_speak_for(&app, &daemon).await?.ok_or_else(|| ApiError::unknown("daemon", &daemon))?;
    let (tasks, directories) = had(&app, workspace, &daemon).await?;
    let beats = heartbeat::of(&app.store, &[row.id]).await?;
    let decision = DaemonLost {
        workspace,
        daemon: daemon.clone(),
        reason: "by_member".to_owned(),
        last_seen: beats.first().map(|beat| beat.last_seen),
        tasks,
        directories,
        daemon_slots: app.limits.daemon_slots,
    };
    let done = call.submit(&app, "daemon.declare_dead", &Value::Null, decision).await?;
    Ok(at(done.position, Json(done.result).into_response()))
}
