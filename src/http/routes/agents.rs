//! Agents, and the runtimes and daemons they run on.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{bounded, given, id};
use crate::app::agent_write::{AgentArchive, AgentCreate, AgentUpdate};
use crate::domain::agent::{CommandLine, Created, Updated};
use crate::domain::task::Status;
use crate::domain::workspace::Role;
use crate::fold::agent_roster::AgentRow;
use crate::fold::runtime_presence::DaemonRow;
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::auth::Identity;
use crate::http::body::{Body, Path, Query};
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at, content};
use crate::http::objects::project::{agent_values, agents as load_agents};
use crate::kernel::ids::{AgentId, RuntimeId, StreamId, WorkspaceId};
use crate::readmodel::found::Found;
use crate::readmodel::{agent_roster, runtime_presence, task_status};
use crate::store::heartbeat;
use crate::wire::api;

/// `GET /api/agents?include_archived=`.
#[derive(Debug, Deserialize)]
pub struct Filter {
    #[serde(default)]
    include_archived: bool,
}

/// Oldest first.
pub async fn list(
    AsAsked(app): AsAsked,
    who: Identity,
    Query(filter): Query<Filter>,
) -> Result<Json<Vec<api::Agent>>, ApiError> {
    let rows =
        agent_roster::of_workspace(&app.store, &app.registry, who.workspace, filter.include_archived).await?;
    let ids: Vec<AgentId> = rows.iter().map(|found| found.row.id).collect();
    Ok(Json(shown(&app, who.workspace, &ids).await?))
}

async fn shown(app: &App, workspace: WorkspaceId, ids: &[AgentId]) -> Result<Vec<api::Agent>, ApiError> {
    let loaded = load_agents(app, workspace, ids).await?;
    let wanted = task_status::Wanted {
        statuses: vec![Status::Dispatched.name().to_owned(), Status::Running.name().to_owned()],
        limit: i64::from(app.limits.list_most),
        ..task_status::Wanted::default()
    };
    let busy = task_status::list(&app.store, &app.registry, workspace, &wanted).await?;
    let busy: Vec<AgentId> = busy.iter().map(|found| found.row.agent).collect();
    agent_values(app, workspace, &loaded, &busy).await
}

async fn one(app: &App, workspace: WorkspaceId, id: AgentId) -> Result<api::Agent, ApiError> {
    shown(app, workspace, &[id]).await?.pop().ok_or_else(|| ApiError::unknown("agent", id))
}

/// `GET /api/agents/{id}`.
pub async fn get(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<api::Agent>, ApiError> {
    Ok(Json(one(&app, who.workspace, id(&path, "id")?).await?))
}

/// `POST /api/agents`.
#[derive(Debug, Deserialize)]
pub struct NewAgent {
    name: String,
    runtime_id: RuntimeId,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    max_concurrent_tasks: Option<u32>,
    #[serde(default)]
    custom_args: Option<Vec<String>>,
    #[serde(default)]
    command: Option<CommandBody>,
}

/// What a `command` agent starts.
#[derive(Debug, Deserialize)]
pub struct CommandBody {
    program: String,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    prompt: crate::domain::agent::PromptVia,
}

impl From<CommandBody> for CommandLine {
    fn from(body: CommandBody) -> Self {
        Self { program: body.program, arguments: body.arguments, prompt: body.prompt }
    }
}

/// Creates an agent.
pub async fn create(State(app): State<App>, call: Call, body: Body<NewAgent>) -> Result<Response, ApiError> {
    let owner = call.who.user()?;
    let asked = body.value;
    let pointer = runtime_presence::runtime(&app.store, &app.registry, call.who.workspace, asked.runtime_id)
        .await?
        .ok_or(ApiError::NotFound("runtime"))?;
    let instructions = match asked.instructions.filter(|text| !text.is_empty()) {
        Some(text) => Some(content(&app, bounded(&app, &text, "instructions")?)),
        None => None,
    };
    let facts = Created {
        name: asked.name,
        runtime: asked.runtime_id,
        provider: pointer.provider,
        instructions: instructions.as_ref().map(|text| text.reference.clone()),
        model: asked.model,
        command: asked.command.map(CommandLine::from),
        custom_arguments: asked.custom_args.unwrap_or_default(),
        max_concurrent_tasks: asked.max_concurrent_tasks.unwrap_or(app.limits.agent_slots),
        owner,
    };
    let decision = AgentCreate {
        workspace: call.who.workspace,
        agent: AgentId(app.world.uuid_v7()),
        facts,
        instructions,
        daemon: pointer.daemon,
    };
    let done = call.submit(&app, "agent.create", &body.raw, decision).await?;
    let new: AgentId = serde_json::from_value(done.result["agent"].clone())?;
    let value = one(&app, call.who.workspace, new).await?;
    Ok(at(done.position, (StatusCode::CREATED, Json(value))))
}

/// The agent that a path names, where the caller may change it: its owner or an admin.
async fn to_change(app: &App, call: &mut Call, path: &str) -> Result<AgentRow, ApiError> {
    let user = call.who.user()?;
    let agent: AgentId = id(path, "id")?;
    let row = agent_roster::of(&app.store, &app.registry, call.who.workspace, agent)
        .await?
        .ok_or_else(|| ApiError::unknown("agent", agent))?;
    if row.owner != user {
        call.who.must_be(Role::Admin)?;
    }
    call.who.daemon = None;
    Ok(row)
}

/// `PUT /api/agents/{id}`: absent fields keep their value; an empty model, or none, is the provider's choice.
#[derive(Debug, Deserialize)]
pub struct Change {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    runtime_id: Option<RuntimeId>,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default, deserialize_with = "given")]
    model: Option<Option<String>>,
    #[serde(default)]
    max_concurrent_tasks: Option<u32>,
    #[serde(default)]
    custom_args: Option<Vec<String>>,
    #[serde(default)]
    command: Option<CommandBody>,
}

/// Changes an agent; what it has claimed already runs as it was claimed.
pub async fn update(
    State(app): State<App>,
    mut call: Call,
    Path(path): Path<String>,
    body: Body<Change>,
) -> Result<Response, ApiError> {
    let agent = to_change(&app, &mut call, &path).await?.id;
    let workspace = call.who.workspace;
    let asked = body.value;
    let moves_to = match asked.runtime_id {
        Some(runtime) => runtime_presence::runtime(&app.store, &app.registry, workspace, runtime).await?,
        None => None,
    };
    // The same text again is no change, although it would be kept under another id.
    let now = one(&app, workspace, agent).await?.instructions;
    let instructions = match asked.instructions.filter(|text| *text != now) {
        Some(text) => Some(content(&app, bounded(&app, &text, "instructions")?)),
        None => None,
    };
    let change = Updated {
        name: asked.name,
        runtime: asked.runtime_id,
        instructions: instructions.as_ref().map(|text| text.reference.clone()),
        model: asked.model.map(Option::unwrap_or_default),
        command: asked.command.map(CommandLine::from),
        custom_arguments: asked.custom_args,
        max_concurrent_tasks: asked.max_concurrent_tasks,
    };
    let moves_to = moves_to.map(|pointer| (pointer.daemon, pointer.provider));
    let decision = AgentUpdate { workspace, agent, change, instructions, moves_to };
    let done = call.submit(&app, "agent.update", &body.raw, decision).await?;
    Ok(at(done.position, Json(one(&app, workspace, agent).await?)))
}

/// `POST /api/agents/{id}/archive`.
pub async fn archive(
    State(app): State<App>,
    mut call: Call,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    let agent = to_change(&app, &mut call, &path).await?.id;
    let decision = AgentArchive { workspace: call.who.workspace, agent };
    let done = call.submit(&app, "agent.archive", &Value::Null, decision).await?;
    Ok(at(done.position, Json(one(&app, call.who.workspace, agent).await?)))
}

/// `GET /api/squads`: there are none, and there never were.
pub async fn squads(_app: AsAsked, _who: Identity) -> Json<Vec<Value>> {
    Json(Vec::new())
}

/// Daemons with the time of their last heartbeat.
struct Machines {
    daemons: Vec<Found<DaemonRow>>,
    seen: BTreeMap<StreamId, heartbeat::Heartbeat>,
}

impl Machines {
    async fn load(app: &App, workspace: WorkspaceId) -> Result<Self, ApiError> {
        let daemons = runtime_presence::daemons(&app.store, &app.registry, workspace).await?;
        let streams: Vec<StreamId> = daemons.iter().map(|found| found.row.id).collect();
        let beats = heartbeat::of(&app.store, &streams).await?;
        let seen = beats.into_iter().map(|beat| (beat.stream, beat)).collect();
        Ok(Self { daemons, seen })
    }

    fn last_seen(&self, row: &DaemonRow) -> Option<Timestamp> {
        self.seen.get(&row.id).map(|beat| beat.last_seen)
    }
}

/// `GET /api/runtimes`.
pub async fn runtimes(
    AsAsked(app): AsAsked,
    who: Identity,
) -> Result<Json<Vec<api::PlacedRuntime>>, ApiError> {
    let machines = Machines::load(&app, who.workspace).await?;
    let of = |row: &DaemonRow| {
        let placed = row.runtimes.iter().map(|runtime| api::PlacedRuntime {
            id: runtime.id,
            workspace_id: who.workspace,
            daemon_id: row.daemon.clone(),
            name: runtime.name.clone(),
            provider: runtime.provider.clone(),
            status: if runtime.online { "online" } else { "offline" }.to_owned(),
            owner_id: row.owner,
            last_seen_at: machines.last_seen(row),
            created_at: row.created_at.timestamp(),
            updated_at: runtime.since.timestamp(),
            more: api::more(json!({
                "custom_name": null, "runtime_mode": "local", "launch_header": null,
                "device_info": row.device_name, "visibility": "private", "profile_id": null,
                "metadata": {
                    "version": runtime.version, "cli_version": row.cli_version,
                    "capabilities": row.capabilities,
                },
            })),
        });
        placed.collect::<Vec<_>>()
    };
    Ok(Json(machines.daemons.iter().flat_map(|found| of(&found.row)).collect()))
}

/// `GET /api/daemons`.
pub async fn daemons(AsAsked(app): AsAsked, who: Identity) -> Result<Json<Value>, ApiError> {
    let machines = Machines::load(&app, who.workspace).await?;
    let mut values = Vec::new();
    for found in &machines.daemons {
        let row = &found.row;
        let tasks = task_status::of_daemon(&app.store, &app.registry, who.workspace, &row.daemon).await?;
        let count = |wanted: &[Status]| tasks.iter().filter(|task| wanted.contains(&task.row.status)).count();
        let silent = machines.seen.get(&row.id).map(|beat| beat.silent);
        let unreachable = silent.is_some_and(|silent| silent >= app.limits.unreachable.duration());
        let status = match (row.online, row.signed_off || row.dead) {
            (true, _) if !unreachable => "online",
            (_, true) => "offline",
            _ => "unreachable",
        };
        let runtimes = row.runtimes.iter().map(|runtime| api::Runtime {
            id: runtime.id,
            provider: runtime.provider.clone(),
            version: runtime.version.clone(),
            name: runtime.name.clone(),
            status: if runtime.online { "online" } else { "offline" }.to_owned(),
        });
        values.push(api::Daemon {
            daemon_id: row.daemon.clone(),
            machine_id: row.machine,
            device_name: row.device_name.clone(),
            cli_version: row.cli_version.clone(),
            os: row.os.clone(),
            status: status.to_owned(),
            draining: row.draining,
            last_seen_at: machines.last_seen(row),
            runtimes: runtimes.collect(),
            capabilities: row.capabilities.clone(),
            owner_id: row.owner,
            running: count(&[Status::Running, Status::Dispatched]),
            parked: count(&[Status::WaitingLocalDirectory]),
            slots: app.limits.daemon_slots,
        });
    }
    Ok(Json(json!({"daemons": values})))
}
