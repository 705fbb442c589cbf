//! Projects and their resources.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{description, given, id, one_of, required_title, title};
use crate::app::daemon_write::DaemonWrite;
use crate::app::project_write::ProjectWrite;
use crate::domain::daemon::{DaemonCommand, ProbeOutcome};
use crate::domain::project::state::{PRIORITIES, STATUSES};
use crate::domain::project::{NewResource, Project, ProjectCommand};
use crate::domain::resource::{self, MachineFacts};
use crate::domain::{NewContent, Refusal, RefusalKind};
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::auth::Identity;
use crate::http::body::{Body, Path, Query};
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at};
use crate::http::objects::Loaded;
use crate::http::objects::project::{one_resource, project, project_values, projects, resource_values};
use crate::kernel::ids::{OrderId, ProjectId, ResourceId, WorkspaceId};
use crate::readmodel::{project_resources, runtime_presence};
use crate::store::read;
use crate::wire::api;
use crate::wire::daemon::DIRECTORY_QUEUE;

/// `GET /api/projects?status=&priority=`.
#[derive(Debug, Deserialize)]
pub struct Filter {
    status: Option<String>,
    priority: Option<String>,
}

/// Newest first.
pub async fn list(
    AsAsked(app): AsAsked,
    who: Identity,
    Query(filter): Query<Filter>,
) -> Result<Json<Value>, ApiError> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let (status, priority) = (given(&filter.status), given(&filter.priority));
    status.as_deref().map(|status| one_of(status, &STATUSES, "status")).transpose()?;
    priority.as_deref().map(|priority| one_of(priority, &PRIORITIES, "priority")).transpose()?;
    let (status, priority) = (status.as_deref(), priority.as_deref());
    let ids = project_resources::ids(&app.store, &app.registry, who.workspace, status, priority).await?;
    let loaded = projects(&app, who.workspace, &ids).await?;
    let values = project_values(&app, who.workspace, &loaded).await?;
    Ok(Json(json!({"total": values.len(), "projects": values})))
}

/// `GET /api/projects/{id}`.
pub async fn get(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<api::Project>, ApiError> {
    Ok(Json(shown(&app, &who, id(&path, "id")?).await?))
}

async fn shown(app: &App, who: &Identity, id: ProjectId) -> Result<api::Project, ApiError> {
    let loaded = project(app, who.workspace, id).await?;
    let mut values = project_values(app, who.workspace, &[loaded]).await?;
    values.pop().ok_or(ApiError::NotFound("project"))
}

/// A resource as it is typed.
#[derive(Debug, Deserialize)]
pub struct ResourceBody {
    resource_type: String,
    resource_ref: Map<String, Value>,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    position: Option<u32>,
}

/// `POST /api/projects`.
#[derive(Debug, Deserialize)]
pub struct NewProject {
    title: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    priority: Option<String>,
    #[serde(default)]
    resources: Option<Vec<ResourceBody>>,
}

/// Creates a project with its first resources, all or none.
pub async fn create(
    State(app): State<App>,
    call: Call,
    body: Body<NewProject>,
) -> Result<Response, ApiError> {
    call.who.user()?;
    let asked = body.value;
    let title = required_title(&app, &asked.title)?;
    let description = description(&app, asked.description.as_deref().filter(|text| !text.is_empty()))?;
    let with_resources = asked.resources.is_some();
    let mut resources = Vec::new();
    for (index, resource) in asked.resources.unwrap_or_default().into_iter().enumerate() {
        resources.push(looked_at(&app, &call, resource, index).await?);
    }
    let command = ProjectCommand::Create {
        title: title.reference.clone(),
        description: description.as_ref().map(|text| text.reference.clone()),
        status: asked.status,
        priority: asked.priority,
        resources,
    };
    let new = ProjectId(app.world.uuid_v7());
    let contents = std::iter::once(title).chain(description).collect();
    let done = write(&app, &call, "project.create", &body.raw, new, command, contents).await?;
    let new: ProjectId = of_result(&done.result, "project")?;
    let mut value = shown(&app, &call.who, new).await?;
    if with_resources {
        let loaded = project(&app, call.who.workspace, new).await?;
        value.resources = Some(resource_values(call.who.workspace, &loaded));
    }
    Ok(at(done.position, (StatusCode::CREATED, Json(value))))
}

async fn write(
    app: &App,
    call: &Call,
    kind: &'static str,
    raw: &Value,
    project: ProjectId,
    command: ProjectCommand,
    contents: Vec<NewContent>,
) -> Result<crate::app::decision::Committed, ApiError> {
    let result = match &command {
        ProjectCommand::Attach(resource) => json!({"project": project, "resource": resource.resource}),
        _ => Value::Null,
    };
    let decision = ProjectWrite { workspace: call.who.workspace, project, command, contents, result };
    call.submit(app, kind, raw, decision).await
}

fn of_result<T: serde::de::DeserializeOwned>(result: &Value, name: &str) -> Result<T, ApiError> {
    Ok(serde_json::from_value(result[name].clone())?)
}

/// `PUT /api/projects/{id}`: absent fields keep their value.
#[derive(Debug, Deserialize)]
pub struct Change {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    priority: Option<String>,
}

/// Changes a project.
pub async fn update(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
    body: Body<Change>,
) -> Result<Response, ApiError> {
    call.who.user()?;
    let project: ProjectId = id(&path, "id")?;
    let asked = body.value;
    let title = title(&app, asked.title.as_deref())?;
    let description = description(&app, asked.description.as_deref())?;
    let command = ProjectCommand::Update {
        title: title.as_ref().map(|text| text.reference.clone()),
        description: description.as_ref().map(|text| text.reference.clone()),
        status: asked.status,
        priority: asked.priority,
    };
    let contents = title.into_iter().chain(description).collect();
    let done = write(&app, &call, "project.update", &body.raw, project, command, contents).await?;
    Ok(at(done.position, Json(shown(&app, &call.who, project).await?)))
}

/// `DELETE /api/projects/{id}`.
pub async fn remove(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    call.who.user()?;
    let command = ProjectCommand::Delete { by: call.who.role };
    let project = id(&path, "id")?;
    let done = write(&app, &call, "project.delete", &Value::Null, project, command, Vec::new()).await?;
    Ok(at(done.position, StatusCode::NO_CONTENT))
}

/// `GET /api/projects/{id}/resources`.
pub async fn resources(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let loaded = project(&app, who.workspace, id(&path, "id")?).await?;
    let values = resource_values(who.workspace, &loaded);
    Ok(Json(json!({"total": values.len(), "resources": values})))
}

/// `POST /api/projects/{id}/resources`.
pub async fn attach(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
    body: Body<ResourceBody>,
) -> Result<Response, ApiError> {
    call.who.user()?;
    let to: ProjectId = id(&path, "id")?;
    project(&app, call.who.workspace, to).await?;
    let new = looked_at(&app, &call, body.value, 0).await?;
    let command = ProjectCommand::Attach(new);
    let done = write(&app, &call, "resource.attach", &body.raw, to, command, Vec::new()).await?;
    let attached: ResourceId = of_result(&done.result, "resource")?;
    let loaded = project(&app, call.who.workspace, to).await?;
    let mut value = one_resource(call.who.workspace, &loaded, attached)?;
    value.warnings = Some(warnings(&app, call.who.workspace, &loaded, attached).await?);
    Ok(at(done.position, (StatusCode::CREATED, Json(value))))
}

/// `PUT /api/projects/{id}/resources/{rid}`.
#[derive(Debug, Deserialize)]
pub struct ResourceChange {
    #[serde(default)]
    resource_ref: Option<Map<String, Value>>,
    #[serde(default, deserialize_with = "given")]
    label: Option<Option<String>>,
    #[serde(default)]
    position: Option<u32>,
}

/// Changes a resource.
pub async fn update_resource(
    State(app): State<App>,
    call: Call,
    Path((path, rid)): Path<(String, String)>,
    body: Body<ResourceChange>,
) -> Result<Response, ApiError> {
    call.who.user()?;
    let (of, which): (ProjectId, ResourceId) = (id(&path, "id")?, id(&rid, "rid")?);
    let before = project(&app, call.who.workspace, of).await?;
    let mut machine = MachineFacts::default();
    if let (Some(reference), Some(there)) = (&body.value.resource_ref, before.state.resource(which)) {
        machine.verified = look(&app, &call, &there.resource_type, reference, 0).await?;
    }
    let command = ProjectCommand::UpdateResource {
        resource: which,
        resource_ref: body.value.resource_ref,
        label: body.value.label,
        position: body.value.position,
        machine,
    };
    let done = write(&app, &call, "resource.update", &body.raw, of, command, Vec::new()).await?;
    let loaded = project(&app, call.who.workspace, of).await?;
    let mut value = one_resource(call.who.workspace, &loaded, which)?;
    value.warnings = Some(warnings(&app, call.who.workspace, &loaded, which).await?);
    Ok(at(done.position, Json(value)))
}

/// What people should know of a resource beside the others of its type: allowed, and maybe not meant.
async fn warnings(
    app: &App,
    workspace: WorkspaceId,
    of: &Loaded<Project>,
    which: ResourceId,
) -> Result<Vec<String>, ApiError> {
    let Some(own) = of.state.resource(which) else { return Ok(Vec::new()) };
    let kind = resource::find(&own.resource_type)?;
    let ids = project_resources::ids(&app.store, &app.registry, workspace, None, None).await?;
    let loaded = projects(app, workspace, &ids).await?;
    let others = loaded.iter().flat_map(|project| &project.state.resources);
    let same_type = others.filter(|other| other.id != which && other.resource_type == own.resource_type);
    // A directory may be attached to several projects: it is one neighbour all the same.
    let told: BTreeSet<String> =
        same_type.filter_map(|other| kind.overlap(&own.resource_ref, &other.resource_ref)).collect();
    let mut told: Vec<String> = told.into_iter().collect();
    if let Some(daemon) = own.resource_ref.get("daemon_id").and_then(Value::as_str)
        && runtime_presence::daemon(&app.store, &app.registry, workspace, daemon).await?.is_none()
    {
        told.push(format!(
            "no daemon `{daemon}` is known here: until one registers with this id, the project's tasks run on other \
             machines, in directories of their own"
        ));
    }
    Ok(told)
}

/// `DELETE /api/projects/{id}/resources/{rid}`.
pub async fn detach(
    State(app): State<App>,
    call: Call,
    Path((path, rid)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    call.who.user()?;
    let of: ProjectId = id(&path, "id")?;
    project(&app, call.who.workspace, of).await?;
    let command = ProjectCommand::Detach { resource: id(&rid, "rid")? };
    let done = write(&app, &call, "resource.detach", &Value::Null, of, command, Vec::new()).await?;
    Ok(at(done.position, StatusCode::NO_CONTENT))
}

async fn looked_at(
    app: &App,
    call: &Call,
    typed: ResourceBody,
    index: usize,
) -> Result<NewResource, ApiError> {
    let verified = look(app, call, &typed.resource_type, &typed.resource_ref, index).await?;
    Ok(NewResource {
        resource: ResourceId(app.world.uuid_v7()),
        resource_type: typed.resource_type,
        resource_ref: typed.resource_ref,
        label: typed.label,
        position: typed.position,
        machine: MachineFacts { verified, ..MachineFacts::default() },
    })
}

/// Asks the machine what is there; says whether it found it usable. A machine that isn't there, or doesn't
/// answer in time, leaves the resource unverified.
async fn look(
    app: &App,
    call: &Call,
    resource_type: &str,
    reference: &Map<String, Value>,
    index: usize,
) -> Result<bool, ApiError> {
    let kind = resource::find(resource_type)?;
    let normal = kind.normalise(reference)?;
    let (Some(daemon), Some(path)) = (kind.daemon(&normal), kind.probe_path(&normal)) else {
        return Ok(false);
    };
    let workspace = call.who.workspace;
    let row = runtime_presence::daemon(&app.store, &app.registry, workspace, &daemon).await?;
    let answers = row.is_some_and(|found| {
        found.row.online && found.row.capabilities.iter().any(|capability| capability == DIRECTORY_QUEUE)
    });
    if !answers {
        return Ok(false);
    }
    let order = OrderId(call.derived(app, &format!("probe/{index}")));
    let command = DaemonCommand::RequestProbe { order, path };
    let decision =
        DaemonWrite { workspace, daemon: daemon.clone(), command, result: json!({"order": order}) };
    let asked = call.submit_part(app, "daemon.probe", &format!("probe/{index}"), decision).await;
    match asked {
        Ok(_) => {}
        // It went away in between.
        Err(ApiError::App(crate::app::AppError::Refused(_))) => return Ok(false),
        Err(error) => return Err(error),
    }
    match answer(app, call, &daemon, order).await? {
        None => Ok(false),
        Some(ProbeOutcome::Usable { .. }) => Ok(true),
        Some(ProbeOutcome::Refused { code, sentence, next_step }) => {
            Err(Refusal { kind: RefusalKind::Unprocessable, code, sentence, next_step }.into())
        }
    }
}

async fn answer(
    app: &App,
    call: &Call,
    daemon: &str,
    order: OrderId,
) -> Result<Option<ProbeOutcome>, ApiError> {
    let deadline = tokio::time::Instant::now() + app.limits.probe_wait.duration();
    let mut head = app.store.head();
    let stream = crate::app::load::daemon_stream(call.who.workspace, daemon);
    loop {
        head.borrow_and_update();
        let events = read::stream(&app.store, stream).await?;
        let found = events.iter().find_map(|envelope| match &envelope.event {
            crate::domain::Event::Daemon(crate::domain::daemon::DaemonEvent::DirectoryProbed(e))
                if e.order == order =>
            {
                Some(e.result.clone())
            }
            _ => None,
        });
        if found.is_some() {
            return Ok(found);
        }
        tokio::select! {
            () = tokio::time::sleep_until(deadline) => return Ok(None),
            () = app.shutdown.cancelled() => return Ok(None),
            _ = head.changed() => {}
        }
    }
}
