//! Sentences of workspaces, projects, issues and agents.

use super::{Writer, list};
use crate::domain::agent::AgentEvent;
use crate::domain::issue::{Assignee, IssueEvent};
use crate::domain::project::ProjectEvent;
use crate::domain::resource;
use crate::domain::workspace::{Role, TokenHolder, WorkspaceEvent};
use crate::kernel::ids::{AgentId, IssueId, ProjectId};
use serde_json::{Map, Value};

pub(super) fn workspace(w: &mut Writer<'_>, actor: &str, event: &WorkspaceEvent) -> String {
    match event {
        WorkspaceEvent::Created(e) => format!("{actor} created the workspace {}", e.slug),
        WorkspaceEvent::ReposReplaced(e) => {
            let urls: Vec<&str> = e.repos.iter().map(|repo| repo.url.as_str()).collect();
            format!("{actor} set the workspace's repositories to {}", list(&urls))
        }
        WorkspaceEvent::MemberAdded(e) => {
            let name = w.names.content(e.name.id).or_else(|| w.names.member(e.user));
            let member = w.link("member", e.user.to_string(), name);
            let role = match e.role {
                Role::Member => "a member",
                Role::Admin => "an admin",
                Role::Owner => "the owner",
            };
            format!("{actor} made {member} {role} of the workspace")
        }
        WorkspaceEvent::TokenIssued(e) => match &e.holder {
            TokenHolder::Member { user } => {
                let member = w.member(*user);
                format!("{actor} issued the token {} for {member}", e.name)
            }
            TokenHolder::Daemon { daemon, .. } => {
                let daemon = w.daemon(daemon);
                format!("{actor} issued the token {} for the daemon {daemon}", e.name)
            }
        },
        WorkspaceEvent::TokenRevoked(e) => match e.reason.as_str() {
            "replaced" => format!("{actor} revoked a token, since a new one replaces it"),
            _ => format!("{actor} revoked a token"),
        },
    }
}

pub(super) fn project(w: &mut Writer<'_>, actor: &str, id: ProjectId, event: &ProjectEvent) -> String {
    let title = match event {
        ProjectEvent::Created(e) => w.names.content(e.title.id).or_else(|| w.names.project(id)),
        _ => w.names.project(id),
    };
    let project = w.link("project", id.to_string(), title);
    match event {
        ProjectEvent::Created(_) => format!("{actor} created the project {project}"),
        ProjectEvent::Updated(e) => {
            let mut what = Vec::new();
            let status = e.status.as_ref().map(|status| format!("status to {status}"));
            let priority = e.priority.as_ref().map(|priority| format!("priority to {priority}"));
            what.extend(e.title.is_some().then_some("title"));
            what.extend(e.description.is_some().then_some("description"));
            what.extend(status.as_deref());
            what.extend(priority.as_deref());
            format!("{actor} changed the {} of {project}", list(&what))
        }
        ProjectEvent::Deleted(_) => format!("{actor} deleted the project {project}; its issues stay"),
        ProjectEvent::ResourceAttached(e) => {
            let what = shown(&e.resource_type, &e.resource_ref, e.label.as_deref());
            let checked = if e.verified { "" } else { ", which no machine has looked at yet" };
            format!("{actor} attached {what} to {project}{checked}")
        }
        ProjectEvent::ResourceUpdated(e) => match &e.label {
            Some(label) => format!("{actor} changed the resource {label} of {project}"),
            None => format!("{actor} changed a resource of {project}"),
        },
        ProjectEvent::ResourceDetached(_) => {
            format!("{actor} detached a resource from {project}; nothing on a machine was touched")
        }
    }
}

fn shown(resource_type: &str, reference: &Map<String, Value>, label: Option<&str>) -> String {
    let name = match (label, resource::find(resource_type)) {
        (Some(label), _) => label.to_owned(),
        (None, Ok(kind)) => kind.display(reference),
        (None, Err(_)) => String::new(),
    };
    let kind = match resource_type {
        "github_repo" => "the repository",
        "local_directory" => "the directory",
        other => other,
    };
    format!("{kind} {name}").trim_end().to_owned()
}

pub(super) fn issue(w: &mut Writer<'_>, actor: &str, id: IssueId, event: &IssueEvent) -> String {
    let key = match event {
        IssueEvent::Created(e) => Some(e.key.clone()),
        _ => w.names.issue(id),
    };
    let issue = w.link("issue", id.to_string(), key);
    match event {
        IssueEvent::Created(e) => {
            let title = w.quoted(&e.title);
            let whose = match e.assignee {
                Some(assignee) => format!(" and assigned it to {}", assigned(w, assignee)),
                None => String::new(),
            };
            format!("{actor} created {issue} {title}{whose}")
        }
        IssueEvent::Updated(e) => {
            let mut what = Vec::new();
            let priority = e.priority.as_ref().map(|priority| format!("priority to {priority}"));
            let project = e.project.map(|project| format!("project to {}", w.project(project)));
            what.extend(e.title.is_some().then_some("title"));
            what.extend(e.description.is_some().then_some("description"));
            what.extend(priority.as_deref());
            what.extend(project.as_deref());
            format!("{actor} changed the {} of {issue}", list(&what))
        }
        IssueEvent::Assigned(e) => match e.assignee {
            Some(assignee) => format!("{actor} assigned {issue} to {}", assigned(w, assignee)),
            None => format!("{actor} unassigned {issue}"),
        },
        IssueEvent::StatusChanged(e) => match e.because_of {
            Some(task) => {
                let task = w.task(task);
                format!("{issue} went from {} to {} because of {task}", e.from, e.to)
            }
            None => format!("{actor} moved {issue} from {} to {}", e.from, e.to),
        },
        IssueEvent::Commented(e) => {
            let body = w.quoted(&e.body);
            let answer = if e.parent.is_some() { "answered a comment" } else { "commented" };
            match e.task {
                Some(task) => {
                    let task = w.task(task);
                    format!("{actor} {answer} on {issue} in {task}: {body}")
                }
                None => format!("{actor} {answer} on {issue}: {body}"),
            }
        }
    }
}

fn assigned(w: &mut Writer<'_>, assignee: Assignee) -> String {
    match assignee {
        Assignee::Member(user) => w.member(user),
        Assignee::Agent(agent) => w.agent(agent),
    }
}

pub(super) fn agent(w: &mut Writer<'_>, actor: &str, id: AgentId, event: &AgentEvent) -> String {
    match event {
        AgentEvent::Created(e) => {
            let agent = w.link("agent", id.to_string(), Some(e.name.clone()));
            format!("{actor} created the agent {agent} (provider {})", e.provider)
        }
        AgentEvent::Updated(e) => {
            let mut what = Vec::new();
            let name = e.name.as_ref().map(|name| format!("name to {name}"));
            let model = e.model.as_ref().map(|model| match model.as_str() {
                "" => "model to the provider's own choice".to_owned(),
                model => format!("model to {model}"),
            });
            let most = e.max_concurrent_tasks.map(|most| format!("tasks at once to {most}"));
            what.extend(name.as_deref());
            what.extend(e.runtime.is_some().then_some("runtime"));
            what.extend(model.as_deref());
            what.extend(e.instructions.is_some().then_some("instructions"));
            what.extend(e.command.is_some().then_some("command"));
            what.extend(e.custom_arguments.is_some().then_some("arguments"));
            what.extend(most.as_deref());
            let agent = w.agent(id);
            format!("{actor} changed the {} of the agent {agent}", list(&what))
        }
        AgentEvent::Archived(_) => {
            let agent = w.agent(id);
            format!("{actor} archived the agent {agent}; it takes no more tasks")
        }
    }
}
