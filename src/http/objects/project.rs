//! Projects, resources and agents.

use serde_json::json;

use super::{Loaded, Texts, ids, load, load_one};
use crate::domain::agent::{self, Agent};
use crate::domain::project::state::Resource;
use crate::domain::project::{self, Project, ProjectEvent};
use crate::domain::{ContentRef, Envelope, Event};
use crate::http::App;
use crate::http::error::ApiError;
use crate::kernel::ids::{AgentId, ProjectId, ResourceId, WorkspaceId};
use crate::wire::api;

/// Projects that aren't deleted.
///
/// # Errors
/// See [`load`].
pub async fn projects(
    app: &App,
    workspace: WorkspaceId,
    ids: &[ProjectId],
) -> Result<Vec<Loaded<Project>>, ApiError> {
    let keys: Vec<_> = ids.iter().copied().map(project::evolve::stream).collect();
    let loaded = load(app, workspace, &keys, project::evolve::fold).await?;
    Ok(loaded.into_iter().filter(|project| !project.state.deleted).collect())
}

/// One project.
///
/// # Errors
/// `not_found`; see [`load`].
pub async fn project(app: &App, workspace: WorkspaceId, id: ProjectId) -> Result<Loaded<Project>, ApiError> {
    let found = load_one(app, workspace, project::evolve::stream(id), project::evolve::fold).await?;
    found.filter(|project| !project.state.deleted).ok_or_else(|| ApiError::unknown("project", id))
}

/// Projects as the API shows them.
///
/// # Errors
/// What went wrong with the database.
pub async fn project_values(
    app: &App,
    workspace: WorkspaceId,
    projects: &[Loaded<Project>],
) -> Result<Vec<api::Project>, ApiError> {
    let references = projects
        .iter()
        .flat_map(|project| std::iter::once(&project.state.title).chain(project.state.description.iter()));
    let texts = Texts::load(app, ids(references)).await?;
    Ok(projects.iter().map(|project| project_value(workspace, project, &texts)).collect())
}

fn project_value(workspace: WorkspaceId, project: &Loaded<Project>, texts: &Texts) -> api::Project {
    let state = &project.state;
    api::Project {
        id: state.id,
        workspace_id: workspace,
        title: texts.of(&state.title).to_owned(),
        description: texts.of_some(state.description.as_ref()),
        status: state.status.clone(),
        priority: state.priority.clone(),
        resource_count: state.resources.len(),
        created_at: project.created_at(),
        updated_at: project.updated_at(),
        resources: None,
        more: api::more(json!({
            "icon": null, "lead_type": null, "lead_id": null, "start_date": null, "due_date": null,
        })),
    }
}

/// A project's resources in their order.
#[must_use]
pub fn resource_values(workspace: WorkspaceId, project: &Loaded<Project>) -> Vec<api::Resource> {
    let mut resources: Vec<&Resource> = project.state.resources.iter().collect();
    resources.sort_by_key(|resource| resource.position);
    resources.into_iter().map(|resource| resource_value(workspace, project, resource)).collect()
}

/// One resource of a project.
///
/// # Errors
/// `not_found`.
pub fn one_resource(
    workspace: WorkspaceId,
    project: &Loaded<Project>,
    id: ResourceId,
) -> Result<api::Resource, ApiError> {
    let resource = project.state.resource(id).ok_or_else(|| ApiError::unknown("resource", id))?;
    Ok(resource_value(workspace, project, resource))
}

fn resource_value(workspace: WorkspaceId, project: &Loaded<Project>, resource: &Resource) -> api::Resource {
    let attached = project.events.iter().find(|envelope| attaches(envelope, resource.id));
    api::Resource {
        id: resource.id,
        project_id: project.state.id,
        workspace_id: workspace,
        resource_type: resource.resource_type.clone(),
        resource_ref: resource.resource_ref.clone(),
        label: resource.label.clone(),
        position: resource.position,
        verified: resource.verified,
        created_at: attached.and_then(|envelope| envelope.recorded_at),
        created_by: attached.map(|envelope| envelope.actor.id.clone()),
        warnings: None,
    }
}

fn attaches(envelope: &Envelope, id: ResourceId) -> bool {
    matches!(&envelope.event, Event::Project(ProjectEvent::ResourceAttached(e)) if e.resource == id)
}

/// Agents, archived ones too.
///
/// # Errors
/// See [`load`].
pub async fn agents(
    app: &App,
    workspace: WorkspaceId,
    ids: &[AgentId],
) -> Result<Vec<Loaded<Agent>>, ApiError> {
    let keys: Vec<_> = ids.iter().copied().map(agent::evolve::stream).collect();
    load(app, workspace, &keys, agent::evolve::fold).await
}

/// Agents as the API shows them; `busy` says which have a run.
///
/// # Errors
/// What went wrong with the database.
pub async fn agent_values(
    app: &App,
    workspace: WorkspaceId,
    agents: &[Loaded<Agent>],
    busy: &[AgentId],
) -> Result<Vec<api::Agent>, ApiError> {
    let references: Vec<&ContentRef> =
        agents.iter().filter_map(|agent| agent.state.facts.instructions.as_ref()).collect();
    let texts = Texts::load(app, ids(references)).await?;
    Ok(agents
        .iter()
        .map(|agent| agent_value(workspace, agent, &texts, busy.contains(&agent.state.id)))
        .collect())
}

fn agent_value(workspace: WorkspaceId, agent: &Loaded<Agent>, texts: &Texts, is_busy: bool) -> api::Agent {
    let Agent { id, facts, archived } = &agent.state;
    api::Agent {
        id: *id,
        workspace_id: workspace,
        runtime_id: facts.runtime,
        name: facts.name.clone(),
        provider: facts.provider.clone(),
        instructions: texts.of_some(facts.instructions.as_ref()).unwrap_or_default(),
        model: facts.model.clone(),
        command: facts.command.clone(),
        custom_args: facts.custom_arguments.clone(),
        status: if is_busy { "working" } else { "idle" }.to_owned(),
        max_concurrent_tasks: facts.max_concurrent_tasks,
        owner_id: facts.owner,
        created_at: agent.created_at(),
        updated_at: agent.updated_at(),
        archived_at: agent.updated_at().filter(|_| *archived),
        more: api::more(json!({
            "runtime_bound": true, "description": "", "runtime_mode": "local", "runtime_config": {},
            "has_custom_env": false, "custom_env_key_count": 0, "visibility": "workspace", "skills": [],
        })),
    }
}
