//! Tasks: lists, one by any reference, its transcript, its story, its end.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{id, issues, one_of, optional_id};
use crate::app::task_cancel::TaskCancel;
use crate::domain::directory;
use crate::domain::task::{self, Status, Task, TaskEvent};
use crate::domain::{Envelope, Event, Family, StreamKey};
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::auth::Identity;
use crate::http::body::{Path, Query};
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at};
use crate::http::left_out;
use crate::http::objects::Loaded;
use crate::http::objects::task::{task, task_values, tasks};
use crate::kernel::ids::{AgentId, DirectoryId, StreamId, TaskId, WorkspaceId};
use crate::readmodel::{activity, agent_roster, issue_board, task_status};
use crate::store::raw::Reading;
use crate::store::{read, transcript};
use crate::wire::api;
use crate::wire::daemon::Message;

/// Statuses of tasks that aren't over.
const ACTIVE: [Status; 5] =
    [Status::Deferred, Status::Queued, Status::Dispatched, Status::WaitingLocalDirectory, Status::Running];

/// `GET /api/tasks`.
#[derive(Debug, Deserialize)]
pub struct Filter {
    status: Option<String>,
    #[serde(default)]
    active: bool,
    project_id: Option<String>,
    agent_id: Option<String>,
    issue_id: Option<String>,
    limit: Option<u32>,
}

/// Newest first.
pub async fn list(
    AsAsked(app): AsAsked,
    who: Identity,
    Query(filter): Query<Filter>,
) -> Result<Json<Value>, ApiError> {
    let statuses = match (&filter.status, filter.active) {
        (Some(status), _) => statuses(status)?,
        (None, true) => ACTIVE.iter().map(|status| status.name().to_owned()).collect(),
        (None, false) => Vec::new(),
    };
    let wanted = task_status::Wanted {
        statuses,
        project: optional_id(filter.project_id.as_deref(), "project_id")?,
        agent: optional_id(filter.agent_id.as_deref(), "agent_id")?,
        issue: optional_id(filter.issue_id.as_deref(), "issue_id")?,
        limit: super::listed(&app, filter.limit),
    };
    let values = listed(&app, who.workspace, &wanted).await?;
    Ok(Json(json!({"total": values.len(), "tasks": values})))
}

async fn listed(
    app: &App,
    workspace: WorkspaceId,
    wanted: &task_status::Wanted,
) -> Result<Vec<api::Task>, ApiError> {
    let found = task_status::list(&app.store, &app.registry, workspace, wanted).await?;
    let ids: Vec<TaskId> = found.iter().map(|found| found.row.id).collect();
    let loaded = tasks(app, workspace, &ids).await?;
    task_values(app, workspace, &loaded).await
}

/// `GET /api/issues/{id}/task-runs`.
pub async fn of_issue(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<Vec<api::Task>>, ApiError> {
    let issue = issues::by_name(&app, who.workspace, &path).await?.state.id;
    let wanted = task_status::Wanted {
        issue: Some(issue.0),
        limit: i64::from(app.limits.list_most),
        ..task_status::Wanted::default()
    };
    Ok(Json(listed(&app, who.workspace, &wanted).await?))
}

/// `GET /api/issues/{id}/active-task`.
pub async fn active_of_issue(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let issue = issues::by_name(&app, who.workspace, &path).await?.state.id;
    let wanted = task_status::Wanted {
        statuses: ACTIVE.iter().map(|status| status.name().to_owned()).collect(),
        issue: Some(issue.0),
        limit: i64::from(app.limits.list_most),
        ..task_status::Wanted::default()
    };
    Ok(Json(json!({"tasks": listed(&app, who.workspace, &wanted).await?})))
}

/// `GET /api/agents/{id}/tasks`.
pub async fn of_agent(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<Vec<api::Task>>, ApiError> {
    let agent: AgentId = id(&path, "id")?;
    let known = agent_roster::of(&app.store, &app.registry, who.workspace, agent).await?;
    known.ok_or_else(|| ApiError::unknown("agent", agent))?;
    let wanted = task_status::Wanted {
        agent: Some(agent.0),
        limit: i64::from(app.limits.list_most),
        ..task_status::Wanted::default()
    };
    Ok(Json(listed(&app, who.workspace, &wanted).await?))
}

/// The task that a path names: `GAME-12#3`, the full id, or a unique prefix or suffix of it.
///
/// # Errors
/// `not_found`, `ambiguous_reference`.
pub async fn named(app: &App, workspace: WorkspaceId, reference: &str) -> Result<TaskId, ApiError> {
    if let Ok(id) = reference.parse() {
        return Ok(id);
    }
    let mut found = task_status::by_reference(&app.store, &app.registry, workspace, reference).await?;
    if found.len() > 1 {
        let matches = found.iter().map(|found| format!("{} {}", found.row.name, found.row.id)).collect();
        return Err(ApiError::Ambiguous { matches });
    }
    match found.pop() {
        Some(found) => Ok(found.row.id),
        None => Err(ApiError::Unknown {
            kind: "task",
            reference: reference.to_owned(),
            near: near(app, workspace, reference).await?,
        }),
    }
}

/// The tasks that a wrong reference may have meant: those of the issue that it begins with.
async fn near(app: &App, workspace: WorkspaceId, reference: &str) -> Result<String, ApiError> {
    const NAMED: usize = 5;
    let key = reference.split('#').next().unwrap_or_default();
    let Some(issue) = issue_board::by_key(&app.store, &app.registry, workspace, key).await? else {
        return Ok(String::new());
    };
    let wanted = task_status::Wanted {
        issue: Some(issue.0),
        limit: i64::from(app.limits.list_most),
        ..task_status::Wanted::default()
    };
    let found = task_status::list(&app.store, &app.registry, workspace, &wanted).await?;
    let names: Vec<&str> = found.iter().take(NAMED).map(|found| found.row.name.as_str()).collect();
    Ok(match names.as_slice() {
        [] => format!("The issue {key} has no task yet."),
        [one] => format!("The issue {key} has the task {one}."),
        [newest, ..] => {
            let more = if found.len() > NAMED { ", …" } else { "" };
            format!("The newest task of the issue {key} is {newest}; there are {}{more}.", names.join(", "))
        }
    })
}

/// The task that a path names, loaded.
///
/// # Errors
/// `not_found`, `ambiguous_reference`.
async fn by_name(app: &App, workspace: WorkspaceId, reference: &str) -> Result<Loaded<Task>, ApiError> {
    let wanted = named(app, workspace, reference).await?;
    task(app, workspace, wanted).await
}

/// Statuses out of a query, each one that a task can have.
fn statuses(text: &str) -> Result<Vec<String>, ApiError> {
    let known: Vec<&str> = Status::ALL.iter().map(|status| status.name()).collect();
    text.split(',')
        .filter(|one| !one.is_empty())
        .map(|one| one_of(one, &known, "status").map(str::to_owned))
        .collect()
}

/// One task as the API shows it.
///
/// # Errors
/// `not_found`.
pub async fn shown(app: &App, workspace: WorkspaceId, id: TaskId) -> Result<api::Task, ApiError> {
    value(app, workspace, task(app, workspace, id).await?).await
}

async fn value(app: &App, workspace: WorkspaceId, loaded: Loaded<Task>) -> Result<api::Task, ApiError> {
    let (id, generation) = (loaded.state.id, loaded.state.generation);
    let value = task_values(app, workspace, &[loaded]).await?.pop().ok_or(ApiError::NotFound("task"))?;
    let gone = transcript::gone(&app.store, id, generation).await?;
    Ok(api::Task { transcript_gone: gone.map(told_gone), ..value })
}

fn told_gone(gone: transcript::Gone) -> api::GoneTranscript {
    let sentence = match gone.days {
        None => "The transcript was erased.".to_owned(),
        Some(1) => "The transcript was removed after 1 day.".to_owned(),
        Some(days) => format!("The transcript was removed after {days} days."),
    };
    api::GoneTranscript { position: gone.position, at: gone.at, days: gone.days, sentence }
}

/// `GET /api/tasks/{ref}`.
pub async fn get(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<api::Task>, ApiError> {
    let loaded = by_name(&app, who.workspace, &path).await?;
    Ok(Json(value(&app, who.workspace, loaded).await?))
}

/// `POST /api/tasks/{ref}/cancel`.
pub async fn cancel(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    end(&app, call, &path).await
}

/// `POST /api/issues/{issue}/tasks/{id}/cancel`.
pub async fn cancel_of_issue(
    State(app): State<App>,
    call: Call,
    Path((_issue, path)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    call.who.user()?;
    end(&app, call, &path).await
}

async fn end(app: &App, call: Call, reference: &str) -> Result<Response, ApiError> {
    let workspace = call.who.workspace;
    let id = named(app, workspace, reference).await?;
    let decision = TaskCancel { workspace, task: id, reason: None, daemon_slots: app.limits.daemon_slots };
    let done = call.submit(app, "task.cancel", &Value::Null, decision).await?;
    Ok(at(done.position, Json(shown(app, workspace, id).await?)))
}

/// `GET /api/tasks/{ref}/messages?since=`.
#[derive(Debug, Deserialize)]
pub struct Since {
    since: Option<i32>,
    generation: Option<u32>,
}

/// The transcript of a task's last claim, or of an earlier one.
pub async fn messages(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
    Query(asked): Query<Since>,
) -> Result<Json<Vec<api::Message>>, ApiError> {
    let loaded = by_name(&app, who.workspace, &path).await?;
    let wanted = loaded.state.id;
    let generation = asked.generation.unwrap_or(loaded.state.generation);
    let after = asked.since.unwrap_or(0);
    let found = transcript::since(&app.store, wanted, generation, after, app.limits.transcript_page).await?;
    let mut values = Vec::with_capacity(found.len());
    for message in found {
        let said: Message = serde_json::from_str(&message.body)?;
        let said = Message { seq: i64::from(message.seq), ..said };
        values.push(api::Message { task_id: wanted, created_at: message.recorded_at, said });
    }
    Ok(Json(values))
}

/// `GET /api/tasks/{ref}/history`: its events, its directories' that name it, and its issue's that it caused.
pub async fn history(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = named(&app, who.workspace, &path).await?;
    let events = match task(&app, who.workspace, id).await {
        // What is left of it is told, with what can't be read in its place.
        Err(error) if error.is_damage() => {
            let readings = read::stream_readings(&app.store, task::evolve::stream(id)).await?;
            if readings.first().is_none_or(|first| first.workspace() != who.workspace) {
                return Err(error);
            }
            readings
        }
        loaded => story(&app, who.workspace, loaded?).await?.into_iter().map(Reading::from).collect(),
    };
    let entries = activity::entries(&app.store, &app.registry, events).await?;
    Ok(Json(json!({"entries": entries})))
}

/// Everything that concerns a task, in log order.
///
/// # Errors
/// What went wrong with the database.
pub(super) async fn story(
    app: &App,
    workspace: WorkspaceId,
    loaded: Loaded<Task>,
) -> Result<Vec<Envelope>, ApiError> {
    let id = loaded.state.id;
    let mut directories: Vec<DirectoryId> = loaded
        .events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::Task(TaskEvent::DirectoryEntered(e)) => Some(e.directory),
            Event::Task(TaskEvent::Parked(e)) => Some(e.directory),
            _ => None,
        })
        .collect();
    directories.sort_unstable();
    directories.dedup();
    let mut keys: Vec<StreamKey> = directories.into_iter().map(directory::state::stream).collect();
    keys.push(crate::domain::issue::evolve::stream(loaded.state.facts.issue));
    let facts = &loaded.state.facts;
    keys.push(StreamKey::new(Family::Daemon, StreamId::of_daemon(workspace, &facts.daemon).0));
    // What can't be read of the others is theirs to tell.
    let streams = left_out::readable(read::each(&app.store, &keys).await?);
    // Its machine's comings and goings, as long as it wasn't over.
    let began = loaded.events.first().and_then(|envelope| envelope.position);
    let over = loaded.events.iter().find(|envelope| {
        matches!(
            &envelope.event,
            Event::Task(TaskEvent::Completed(_) | TaskEvent::Failed(_) | TaskEvent::Cancelled(_))
        )
    });
    let over = over.and_then(|envelope| envelope.position);
    let runtime = facts.runtime;
    let away = |envelope: &Envelope| {
        let lived = envelope.position >= began && over.is_none_or(|over| envelope.position <= Some(over));
        lived && activity::is_presence(envelope, runtime)
    };
    let others: Vec<Envelope> = streams.into_values().flatten().collect();
    let mut events = loaded.events;
    events.extend(others.into_iter().filter(|one| activity::concerns(one, id) || away(one)));
    events.sort_by_key(|envelope| envelope.position);
    Ok(events)
}

/// `GET /api/tasks/{ref}/explain`.
pub async fn explain(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<api::Explanation>, ApiError> {
    let id = named(&app, who.workspace, &path).await?;
    Ok(Json(crate::http::explain::of(&app, &who, id).await?))
}
