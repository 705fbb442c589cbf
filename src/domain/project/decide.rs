//! What a project allows.

use serde_json::{Map, Value};

use super::command::{NewResource, ProjectCommand};
use super::event::{
    Created, Deleted, ProjectEvent, ResourceAttached, ResourceDetached, ResourceUpdated, Updated,
};
use super::state::{PRIORITIES, Project, Resource, STATUSES};
use crate::domain::resource::{self, MachineFacts};
use crate::domain::workspace::Role;
use crate::domain::{Refusal, RefusalKind};
use crate::kernel::ids::ResourceId;

/// What is refused, or what happens: no events when nothing does.
pub type Decision = Result<Vec<ProjectEvent>, Refusal>;

/// Decides one command on one project; `None` is one that doesn't exist yet.
///
/// # Errors
/// `not_found`, `project_exists`, `bad_status`, `bad_priority`, `role_too_low`, `resource_duplicate`,
/// `resource_id_taken`, an exclusive key's refusal (`directory_of_daemon_taken`), and those of
/// [`resource::ResourceType::normalise`] and [`resource::ResourceType::check_machine`].
pub fn decide(project: Option<&Project>, command: ProjectCommand) -> Decision {
    let Some(project) = project else {
        return match command {
            ProjectCommand::Create { title, description, status, priority, resources } => {
                let status = one_of(&STATUSES, status, "planned", "bad_status")?;
                let priority = one_of(&PRIORITIES, priority, "none", "bad_priority")?;
                create(Created { title, description, status, priority }, resources)
            }
            ProjectCommand::Update { .. }
            | ProjectCommand::Delete { .. }
            | ProjectCommand::Attach(_)
            | ProjectCommand::UpdateResource { .. }
            | ProjectCommand::Detach { .. } => Err(Refusal::not_found("project")),
        };
    };
    match command {
        ProjectCommand::Create { .. } => Err(Refusal::conflict(
            "project_exists",
            "a project with this id exists already",
            "Create another one with a fresh id.",
        )),
        ProjectCommand::Delete { by } => delete(project, by),
        _ if project.deleted => Err(Refusal::not_found("project")),
        ProjectCommand::Update { title, description, status, priority } => {
            update(project, Updated { title, description, status, priority })
        }
        ProjectCommand::Attach(new) => attach(&project.resources, new),
        ProjectCommand::UpdateResource { resource, resource_ref, label, position, machine } => {
            update_resource(project, resource, Change { resource_ref, label, position, machine })
        }
        ProjectCommand::Detach { resource } => Ok(match project.resource(resource) {
            Some(_) => vec![ProjectEvent::ResourceDetached(ResourceDetached { resource })],
            None => Vec::new(),
        }),
    }
}

fn create(created: Created, resources: Vec<NewResource>) -> Decision {
    let mut events = vec![ProjectEvent::Created(created)];
    let mut attached: Vec<Resource> = Vec::new();
    for (index, new) in resources.into_iter().enumerate() {
        let inside = |mut refusal: Refusal| {
            refusal.sentence = format!("resources[{index}]: {}", refusal.sentence);
            refusal
        };
        for event in attach(&attached, new).map_err(inside)? {
            if let ProjectEvent::ResourceAttached(e) = &event {
                attached.push(Resource::from(e));
            }
            events.push(event);
        }
    }
    Ok(events)
}

fn update(project: &Project, asked: Updated) -> Decision {
    let allowed = |known: &[&str], value: Option<String>, now: &str, code| {
        value.map(|value| one_of(known, Some(value), now, code)).transpose()
    };
    let changed = Updated {
        title: asked.title.filter(|title| *title != project.title),
        description: asked.description.filter(|text| Some(text) != project.description.as_ref()),
        status: allowed(&STATUSES, asked.status, &project.status, "bad_status")?
            .filter(|status| *status != project.status),
        priority: allowed(&PRIORITIES, asked.priority, &project.priority, "bad_priority")?
            .filter(|priority| *priority != project.priority),
    };
    let nothing = Updated { title: None, description: None, status: None, priority: None };
    Ok(if changed == nothing { Vec::new() } else { vec![ProjectEvent::Updated(changed)] })
}

fn delete(project: &Project, by: Role) -> Decision {
    if by < Role::Admin {
        return Err(Refusal::new(
            RefusalKind::Forbidden,
            "role_too_low",
            "a member may not delete a project",
            "Ask an admin or the owner of the workspace.",
        ));
    }
    Ok(if project.deleted { Vec::new() } else { vec![ProjectEvent::Deleted(Deleted {})] })
}

fn attach(present: &[Resource], new: NewResource) -> Decision {
    let kind = resource::find(&new.resource_type)?;
    resource::no_foreign_keys(kind, &new.resource_ref, None)?;
    let normal = kind.normalise(&new.resource_ref)?;
    let label = clean_label(new.label).or_else(|| kind.label_of(&normal));
    let resource_ref = kind.with_label(normal, label.as_deref());
    if let Some(there) = present.iter().find(|resource| resource.id == new.resource) {
        let same = there.resource_type == new.resource_type && there.resource_ref == resource_ref;
        return if same { Ok(Vec::new()) } else { Err(id_taken()) };
    }
    collisions(present, kind, &resource_ref, None)?;
    kind.check_machine(&resource_ref, &new.machine)?;
    let position = new.position.unwrap_or_else(|| u32::try_from(present.len()).unwrap_or(u32::MAX));
    Ok(vec![ProjectEvent::ResourceAttached(ResourceAttached {
        resource: new.resource,
        resource_type: new.resource_type,
        resource_ref,
        label,
        position,
        verified: new.machine.verified,
    })])
}

struct Change {
    resource_ref: Option<Map<String, Value>>,
    label: Option<Option<String>>,
    position: Option<u32>,
    machine: MachineFacts,
}

fn update_resource(project: &Project, id: ResourceId, change: Change) -> Decision {
    let Some(there) = project.resource(id) else { return Err(Refusal::not_found("resource")) };
    let kind = resource::find(&there.resource_type)?;
    let normal = match &change.resource_ref {
        Some(given) => {
            resource::no_foreign_keys(kind, given, Some(&there.resource_ref))?;
            kind.normalise(given)?
        }
        None => there.resource_ref.clone(),
    };
    let label = match change.label {
        Some(label) => clean_label(label),
        None if change.resource_ref.is_some() => kind.label_of(&normal).or_else(|| there.label.clone()),
        None => there.label.clone(),
    };
    let resource_ref = kind.with_label(normal, label.as_deref());
    // A row that only gets another name or place isn't looked at again: its daemon may be old or away.
    let same_place =
        kind.with_label(resource_ref.clone(), None) == kind.with_label(there.resource_ref.clone(), None);
    if !same_place {
        collisions(&project.resources, kind, &resource_ref, Some(id))?;
        kind.check_machine(&resource_ref, &change.machine)?;
    }
    let event = ResourceUpdated {
        resource: id,
        resource_ref,
        label,
        position: change.position.unwrap_or(there.position),
        verified: if same_place {
            there.verified || change.machine.verified
        } else {
            change.machine.verified
        },
    };
    let unchanged = event.resource_ref == there.resource_ref
        && event.label == there.label
        && event.position == there.position
        && event.verified == there.verified;
    Ok(if unchanged { Vec::new() } else { vec![ProjectEvent::ResourceUpdated(event)] })
}

fn collisions(
    present: &[Resource],
    kind: &dyn resource::ResourceType,
    reference: &Map<String, Value>,
    except: Option<ResourceId>,
) -> Result<(), Refusal> {
    let others = || present.iter().filter(|r| Some(r.id) != except && r.resource_type == kind.name());
    let bare = kind.with_label(reference.clone(), None);
    if let Some(exclusive) = kind.exclusive(reference) {
        let taken = |r: &&Resource| kind.exclusive(&r.resource_ref).as_ref() == Some(&exclusive);
        if let Some(there) = others().find(taken) {
            return Err(kind.taken(&there.resource_ref, &there.id.to_string()));
        }
    }
    if others().any(|r| kind.with_label(r.resource_ref.clone(), None) == bare) {
        return Err(Refusal::conflict(
            "resource_duplicate",
            "the project has this resource already",
            "Look at its resources; change the one that is there.",
        ));
    }
    Ok(())
}

fn id_taken() -> Refusal {
    Refusal::conflict("resource_id_taken", "another resource has this id", "Attach it with a fresh id.")
}

fn clean_label(label: Option<String>) -> Option<String> {
    label.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn one_of(
    known: &[&str],
    given: Option<String>,
    default: &str,
    code: &'static str,
) -> Result<String, Refusal> {
    let value = given.unwrap_or_else(|| default.to_owned());
    if known.contains(&value.as_str()) {
        return Ok(value);
    }
    Err(Refusal::invalid(
        code,
        format!("`{value}` isn't known here"),
        format!("Use one of {}.", known.join(", ")),
    ))
}
