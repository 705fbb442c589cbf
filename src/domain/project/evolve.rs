//! Folds a project's events.

use super::event::{ProjectEvent, ResourceAttached};
use super::state::{Project, Resource};
use crate::domain::folding::fold_stream;
use crate::domain::{Envelope, Event, Family, Impossible, StreamKey};
use crate::kernel::ids::ProjectId;

/// The stream of a project.
#[must_use]
pub fn stream(id: ProjectId) -> StreamKey {
    StreamKey::new(Family::Project, id)
}

/// Folds a whole stream; none when it is empty.
///
/// # Errors
/// [`Impossible`] when an event can't follow what came before.
pub fn fold(events: &[Envelope]) -> Result<Option<Project>, Impossible> {
    fold_stream(
        events,
        |event| match event {
            Event::Project(event) => Some(event),
            _ => None,
        },
        |state, event, envelope| evolve(ProjectId(envelope.stream.id), state, event),
    )
}

impl From<&ResourceAttached> for Resource {
    fn from(e: &ResourceAttached) -> Self {
        Self {
            id: e.resource,
            resource_type: e.resource_type.clone(),
            resource_ref: e.resource_ref.clone(),
            label: e.label.clone(),
            position: e.position,
            verified: e.verified,
        }
    }
}

/// Applies one event; none when it can't follow.
#[must_use]
pub fn evolve(id: ProjectId, project: Option<Project>, event: &ProjectEvent) -> Option<Project> {
    let Some(mut project) = project else {
        let ProjectEvent::Created(e) = event else { return None };
        return Some(Project {
            id,
            title: e.title.clone(),
            description: e.description.clone(),
            status: e.status.clone(),
            priority: e.priority.clone(),
            resources: Vec::new(),
            deleted: false,
        });
    };
    match event {
        ProjectEvent::Created(_) => return None,
        ProjectEvent::Updated(e) => {
            project.title = e.title.clone().unwrap_or(project.title);
            project.description = e.description.clone().or(project.description);
            project.status = e.status.clone().unwrap_or(project.status);
            project.priority = e.priority.clone().unwrap_or(project.priority);
        }
        ProjectEvent::Deleted(_) => project.deleted = true,
        ProjectEvent::ResourceAttached(e) => {
            if project.resource(e.resource).is_some() {
                return None;
            }
            project.resources.push(Resource::from(e));
        }
        ProjectEvent::ResourceUpdated(e) => {
            let resource = project.resources.iter_mut().find(|resource| resource.id == e.resource)?;
            resource.resource_ref = e.resource_ref.clone();
            resource.label.clone_from(&e.label);
            resource.position = e.position;
            resource.verified = e.verified;
        }
        ProjectEvent::ResourceDetached(e) => {
            let index = project.resources.iter().position(|resource| resource.id == e.resource)?;
            project.resources.remove(index);
        }
    }
    Some(project)
}
