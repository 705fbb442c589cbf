//! Read model `project_resources`: every project with its resources.
//!
//! Rows: `project/<id>`, a [`ProjectRow`]; a deleted one stays, marked, since old entries name it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::At;
use super::of_stream::OfStream;
use crate::domain::project::ProjectEvent;
use crate::domain::{Actor, ContentRef, Envelope, Event};
use crate::kernel::ids::{ProjectId, ResourceId};

/// See the module.
pub struct ProjectResources;

/// A resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceRow {
    /// Its id.
    pub id: ResourceId,
    /// Its type.
    pub resource_type: String,
    /// Its normalised reference.
    pub resource_ref: Map<String, Value>,
    /// What people call it.
    pub label: Option<String>,
    /// Its place in the list.
    pub position: u32,
    /// Whether a machine looked at it.
    pub verified: bool,
    /// When it was attached.
    pub created_at: At,
    /// Who attached it.
    pub created_by: Actor,
}

/// A project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRow {
    /// Its id.
    pub id: ProjectId,
    /// Its title.
    pub title: ContentRef,
    /// Its description.
    pub description: Option<ContentRef>,
    /// planned, in_progress, paused, completed, cancelled.
    pub status: String,
    /// urgent, high, medium, low, none.
    pub priority: String,
    /// When it was created.
    pub created_at: At,
    /// When it changed last.
    pub updated_at: At,
    /// Its resources, by place, then by age.
    pub resources: Vec<ResourceRow>,
    /// Whether it was deleted.
    pub deleted: bool,
}

/// The key of a project's row.
#[must_use]
pub fn key(project: ProjectId) -> String {
    format!("project/{project}")
}

impl OfStream for ProjectResources {
    const NAME: &'static str = "project_resources";
    const VERSION: u32 = 1;
    type Happened = ProjectEvent;
    type Row = ProjectRow;

    fn pick(event: &Event) -> Option<&ProjectEvent> {
        if let Event::Project(happened) = event { Some(happened) } else { None }
    }

    fn key(stream: Uuid) -> String {
        key(ProjectId(stream))
    }

    fn after(
        before: Option<ProjectRow>,
        happened: &ProjectEvent,
        event: &Envelope,
        at: At,
    ) -> Option<ProjectRow> {
        let ProjectEvent::Created(e) = happened else {
            let mut row = before?;
            change(&mut row, happened, &event.actor, &at);
            row.resources.sort_by_key(|resource| resource.position);
            row.updated_at = at;
            return Some(row);
        };
        Some(ProjectRow {
            id: ProjectId(event.stream.id),
            title: e.title.clone(),
            description: e.description.clone(),
            status: e.status.clone(),
            priority: e.priority.clone(),
            created_at: at.clone(),
            updated_at: at,
            resources: Vec::new(),
            deleted: false,
        })
    }
}

fn change(row: &mut ProjectRow, event: &ProjectEvent, actor: &Actor, at: &At) {
    match event {
        ProjectEvent::Created(_) => {}
        ProjectEvent::Updated(e) => {
            if let Some(title) = &e.title {
                row.title = title.clone();
            }
            row.description = e.description.clone().or(row.description.take());
            if let Some(status) = &e.status {
                row.status.clone_from(status);
            }
            if let Some(priority) = &e.priority {
                row.priority.clone_from(priority);
            }
        }
        ProjectEvent::Deleted(_) => row.deleted = true,
        ProjectEvent::ResourceAttached(e) => row.resources.push(ResourceRow {
            id: e.resource,
            resource_type: e.resource_type.clone(),
            resource_ref: e.resource_ref.clone(),
            label: e.label.clone(),
            position: e.position,
            verified: e.verified,
            created_at: at.clone(),
            created_by: actor.clone(),
        }),
        ProjectEvent::ResourceUpdated(e) => {
            if let Some(resource) = row.resources.iter_mut().find(|resource| resource.id == e.resource) {
                resource.resource_ref = e.resource_ref.clone();
                resource.label.clone_from(&e.label);
                resource.position = e.position;
                resource.verified = e.verified;
            }
        }
        ProjectEvent::ResourceDetached(e) => row.resources.retain(|resource| resource.id != e.resource),
    }
}
