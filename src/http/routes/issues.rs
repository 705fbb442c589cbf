//! Issues and comments.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{bounded, description, id, listed, one_of, optional_id, required_title, said, tasks, title};
use crate::app::issue_write::{IssueComment, IssueCreate, IssueUpdate};
use crate::app::task_queue::{IssueRerun, NewRun};
use crate::domain::Refusal;
use crate::domain::issue::state::STATUSES;
use crate::domain::issue::{Assignee, Author, Issue};
use crate::domain::task::Trigger;
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::auth::{Caller, Identity};
use crate::http::body::{Body, Path, Query};
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at, content};
use crate::http::objects::Loaded;
use crate::http::objects::issue::{comment_values, issue, issue_values, issues};
use crate::http::objects::task::task;
use crate::kernel::ids::{AgentId, CommentId, IssueId, ProjectId, TaskId, WorkspaceId};
use crate::readmodel::{agent_roster, counters, issue_board, runtime_presence, task_status};
use crate::wire::api;

/// `GET /api/issues`.
#[derive(Debug, Deserialize)]
pub struct Filter {
    status: Option<String>,
    project_id: Option<String>,
    assignee_id: Option<String>,
    limit: Option<u32>,
    offset: Option<u32>,
}

/// Newest first.
pub async fn list(
    AsAsked(app): AsAsked,
    who: Identity,
    Query(filter): Query<Filter>,
) -> Result<Json<Value>, ApiError> {
    let status = filter.status.filter(|status| !status.is_empty());
    status.as_deref().map(|status| one_of(status, &STATUSES, "status")).transpose()?;
    let wanted = issue_board::Wanted {
        status,
        project: optional_id(filter.project_id.as_deref(), "project_id")?,
        assignee: optional_id(filter.assignee_id.as_deref(), "assignee_id")?,
        limit: listed(&app, filter.limit),
        offset: i64::from(filter.offset.unwrap_or(0)),
    };
    let ids = issue_board::ids(&app.store, &app.registry, who.workspace, &wanted).await?;
    let loaded = issues(&app, who.workspace, &ids).await?;
    let values = issue_values(&app, who.workspace, &loaded).await?;
    Ok(Json(json!({"total": values.len(), "issues": values})))
}

/// The issue that a path names: by id or by key.
///
/// # Errors
/// `not_found`.
pub async fn named(app: &App, workspace: WorkspaceId, reference: &str) -> Result<IssueId, ApiError> {
    if let Ok(id) = reference.parse() {
        return Ok(id);
    }
    let by_key =
        |key: String| async move { issue_board::by_key(&app.store, &app.registry, workspace, &key).await };
    if let Some(found) = by_key(reference.to_owned()).await? {
        return Ok(found);
    }
    let near = match reference.split_once('#') {
        Some((key, _)) if by_key(key.to_owned()).await?.is_some() => {
            format!("That names a task; its issue is {key}.")
        }
        _ => String::new(),
    };
    Err(ApiError::Unknown { kind: "issue", reference: reference.to_owned(), near })
}

/// The issue that a path names, loaded.
///
/// # Errors
/// `not_found`, also for one of another workspace.
pub async fn by_name(app: &App, workspace: WorkspaceId, reference: &str) -> Result<Loaded<Issue>, ApiError> {
    let wanted = named(app, workspace, reference).await?;
    issue(app, workspace, wanted).await
}

async fn shown(app: &App, workspace: WorkspaceId, id: IssueId) -> Result<api::Issue, ApiError> {
    value(app, workspace, issue(app, workspace, id).await?).await
}

async fn value(app: &App, workspace: WorkspaceId, loaded: Loaded<Issue>) -> Result<api::Issue, ApiError> {
    issue_values(app, workspace, &[loaded]).await?.pop().ok_or(ApiError::NotFound("issue"))
}

/// `GET /api/issues/{id}`.
pub async fn get(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<api::Issue>, ApiError> {
    let loaded = by_name(&app, who.workspace, &path).await?;
    Ok(Json(value(&app, who.workspace, loaded).await?))
}

/// `POST /api/issues`.
#[derive(Debug, Deserialize)]
pub struct NewIssue {
    title: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    project_id: Option<String>,
    #[serde(default)]
    assignee_type: Option<String>,
    #[serde(default)]
    assignee_id: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    priority: Option<String>,
}

fn assignee(kind: Option<&str>, who: Option<&str>) -> Result<Option<Assignee>, ApiError> {
    match (kind.filter(|text| !text.is_empty()), who.filter(|text| !text.is_empty())) {
        (None, None) => Ok(None),
        (Some("agent"), Some(who)) => Ok(Some(Assignee::Agent(id(who, "assignee_id")?))),
        (Some("member"), Some(who)) => Ok(Some(Assignee::Member(id(who, "assignee_id")?))),
        (Some(_), Some(_)) => Err(ApiError::field("assignee_type", "`assignee_type` is `member` or `agent`")),
        _ => Err(ApiError::field("assignee_id", "`assignee_type` and `assignee_id` go together")),
    }
}

/// What would be queued for that assignee.
async fn run_for(app: &App, call: &Call, assignee: Option<Assignee>) -> Result<Option<NewRun>, ApiError> {
    match assignee {
        Some(Assignee::Agent(agent)) => {
            Ok(run_of(app, call.who.workspace, agent, Trigger::Assignment).await?)
        }
        Some(Assignee::Member(_)) | None => Ok(None),
    }
}

async fn run_of(
    app: &App,
    workspace: WorkspaceId,
    agent: AgentId,
    trigger: Trigger,
) -> Result<Option<NewRun>, ApiError> {
    let Some(row) = agent_roster::of(&app.store, &app.registry, workspace, agent).await? else {
        return Ok(None);
    };
    let pointer = runtime_presence::runtime(&app.store, &app.registry, workspace, row.runtime)
        .await?
        .ok_or(ApiError::NotFound("runtime"))?;
    Ok(Some(NewRun { task: TaskId(app.world.uuid_v7()), agent, daemon: pointer.daemon, trigger }))
}

/// Creates an issue; for an agent it queues the first run in the same append.
pub async fn create(State(app): State<App>, call: Call, body: Body<NewIssue>) -> Result<Response, ApiError> {
    let asked = body.value;
    let title = required_title(&app, &asked.title)?;
    let description = description(&app, asked.description.as_deref().filter(|text| !text.is_empty()))?;
    let assignee = assignee(asked.assignee_type.as_deref(), asked.assignee_id.as_deref())?;
    let decision = IssueCreate {
        workspace: call.who.workspace,
        issue: IssueId(app.world.uuid_v4()),
        number_from: counters::next_issue(&app.store, &app.registry, call.who.workspace).await?,
        title,
        description,
        project: optional_id::<ProjectId>(asked.project_id.as_deref(), "project_id")?,
        status: asked.status.unwrap_or_else(|| "todo".to_owned()),
        priority: asked.priority.unwrap_or_else(|| "none".to_owned()),
        assignee,
        run: run_for(&app, &call, assignee).await?,
    };
    let done = call.submit(&app, "issue.create", &body.raw, decision).await?;
    let new: IssueId = serde_json::from_value(done.result["issue"].clone())?;
    let mut value = shown(&app, call.who.workspace, new).await?;
    value.task_id = serde_json::from_value(done.result["task"].clone())?;
    Ok(at(done.position, (StatusCode::CREATED, Json(value))))
}

/// The members of a change: an absent one keeps the value, null takes it away.
struct Change<'a>(&'a Map<String, Value>);

impl<'a> Change<'a> {
    /// Refuses what is no object, and texts that are something else: it would look like a change that
    /// was made.
    fn read(body: &'a Value) -> Result<Self, ApiError> {
        let members = body.as_object().ok_or_else(|| ApiError::Invalid {
            code: "invalid_body",
            field: None,
            sentence: "the body is no JSON object".to_owned(),
        })?;
        for name in
            ["title", "description", "project_id", "status", "priority", "assignee_type", "assignee_id"]
        {
            if members.get(name).is_some_and(|value| !value.is_string() && !value.is_null()) {
                return Err(Self::wrong(name, "a text"));
            }
        }
        Ok(Self(members))
    }

    fn wrong(name: &str, wanted: &str) -> ApiError {
        let sentence = format!("the body doesn't fit: `{name}` isn't {wanted}");
        ApiError::Invalid { code: "invalid_body", field: Some(name.to_owned()), sentence }
    }

    fn names(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).and_then(Value::as_str)
    }

    fn given(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let number = |value: &Value| value.as_i64().ok_or_else(|| Self::wrong(name, "a whole number"));
        self.given(name).map(number).transpose()
    }

    fn flag(&self, name: &str) -> Result<bool, ApiError> {
        let flag = |value: &Value| value.as_bool().ok_or_else(|| Self::wrong(name, "true or false"));
        self.given(name).map_or(Ok(false), flag)
    }
}

/// `PUT /api/issues/{id}`: absent fields keep their value; null unassigns.
pub async fn update(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
    body: Body<Value>,
) -> Result<Response, ApiError> {
    let before = by_name(&app, call.who.workspace, &path).await?;
    let wanted = before.state.id;
    let asked = Change::read(&body.value)?;
    let text = |name: &str| asked.text(name);
    if let Some(expected) = asked.number("expected_revision")? {
        let actual = before.events.last().map_or(0, |event| i64::from(event.version));
        if expected != actual {
            return Err(Refusal::conflict(
                "revision_conflict",
                format!("the issue is at revision {actual}, not {expected}"),
                "Read the issue again and repeat the change.",
            )
            .into());
        }
    }
    let reassigned = if asked.names("assignee_type") || asked.names("assignee_id") {
        Some(assignee(text("assignee_type"), text("assignee_id"))?)
    } else {
        None
    };
    let suppressed = asked.flag("suppress_run")?;
    let run = if suppressed {
        None
    } else {
        run_for(&app, &call, reassigned.unwrap_or(before.state.assignee)).await?
    };
    let title = title(&app, text("title"))?;
    let description = description(&app, text("description"))?;
    let decision = IssueUpdate {
        workspace: call.who.workspace,
        issue: wanted,
        title,
        description,
        project: optional_id(text("project_id"), "project_id")?,
        status: text("status").map(str::to_owned),
        priority: text("priority").map(str::to_owned),
        assignee: reassigned,
        run,
    };
    let done = call.submit(&app, "issue.update", &body.raw, decision).await?;
    let mut value = shown(&app, call.who.workspace, wanted).await?;
    value.task_id = serde_json::from_value(done.result["task"].clone())?;
    Ok(at(done.position, Json(value)))
}

/// `GET /api/issues/{id}/comments`: oldest first.
pub async fn comments(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<Vec<api::Comment>>, ApiError> {
    let loaded = by_name(&app, who.workspace, &path).await?;
    Ok(Json(comment_values(&app, &loaded).await?))
}

/// `POST /api/issues/{id}/comments`.
#[derive(Debug, Deserialize)]
pub struct NewComment {
    content: String,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    parent_id: Option<String>,
}

/// A comment's text as it was written: spaces at a line's beginning mean something.
fn whole(app: &App, content: String) -> Result<String, ApiError> {
    said(app, &content, "content")?;
    bounded(app, &content, "content")
}

/// Comments; an agent's comment names its task.
pub async fn comment(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
    body: Body<NewComment>,
) -> Result<Response, ApiError> {
    let wanted = named(&app, call.who.workspace, &path).await?;
    let (author, task) = match &call.who.caller {
        Caller::Member { user, .. } | Caller::Daemon { user, .. } => (Author::Member(*user), None),
        Caller::Task { agent, task, .. } => (Author::Agent(*agent), Some(*task)),
    };
    let decision = IssueComment {
        workspace: call.who.workspace,
        issue: wanted,
        comment: CommentId(app.world.uuid_v7()),
        author,
        kind: body.value.kind.unwrap_or_else(|| "comment".to_owned()),
        body: content(&app, whole(&app, body.value.content)?),
        parent: optional_id(body.value.parent_id.as_deref(), "parent_id")?,
        task,
    };
    let done = call.submit(&app, "issue.comment", &body.raw, decision).await?;
    let loaded = issue(&app, call.who.workspace, wanted).await?;
    let new: CommentId = serde_json::from_value(done.result["comment"].clone())?;
    let values = comment_values(&app, &loaded).await?;
    let value = values.into_iter().find(|value| value.id == new).ok_or(ApiError::NotFound("comment"))?;
    Ok(at(done.position, (StatusCode::CREATED, Json(value))))
}

/// `POST /api/issues/{id}/rerun`.
#[derive(Debug, Deserialize)]
pub struct Rerun {
    #[serde(default)]
    task_id: Option<String>,
}

/// Queues another run: of that task's agent, else of the assignee.
pub async fn rerun(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
    body: Body<Rerun>,
) -> Result<Response, ApiError> {
    call.who.user()?;
    let workspace = call.who.workspace;
    let loaded = by_name(&app, workspace, &path).await?;
    let wanted = loaded.state.id;
    let of: Option<TaskId> = optional_id(body.value.task_id.as_deref(), "task_id")?;
    let (agent, of) = match (of, loaded.state.assignee) {
        (Some(of), _) => (task(&app, workspace, of).await?.state.facts.agent, Some(of)),
        (None, Some(Assignee::Agent(agent))) => {
            let runs = task_status::Wanted {
                issue: Some(wanted.0),
                agent: Some(agent.0),
                limit: 1,
                ..task_status::Wanted::default()
            };
            let last = task_status::list(&app.store, &app.registry, workspace, &runs).await?;
            (agent, last.first().map(|found| found.row.id))
        }
        (None, Some(Assignee::Member(_)) | None) => {
            return Err(ApiError::field(
                "task_id",
                "the issue isn't assigned to an agent: assign it to one first",
            ));
        }
    };
    let trigger = of.map_or(Trigger::Assignment, |of| Trigger::Rerun { of });
    let run = run_of(&app, workspace, agent, trigger).await?.ok_or(ApiError::NotFound("agent"))?;
    let daemon_slots = app.limits.daemon_slots;
    let decision = IssueRerun { workspace, issue: wanted, run, daemon_slots };
    let done = call.submit(&app, "issue.rerun", &body.raw, decision).await?;
    let Ok(new) = serde_json::from_value::<TaskId>(done.result["task"].clone()) else {
        return Err(ApiError::NotFound("task"));
    };
    let value = tasks::shown(&app, workspace, new).await?;
    Ok(at(done.position, (StatusCode::ACCEPTED, Json(value)).into_response()))
}
