//! States of single streams out of a view, only if they are this workspace's.
//!
//! Invariants: a stream of another workspace is as if it weren't there.

use super::decision::{Halt, View};
use crate::domain::agent::{self, Agent};
use crate::domain::daemon::{self, Daemon};
use crate::domain::issue::{self, Issue};
use crate::domain::project::{self, Project};
use crate::domain::resource::MachineFacts;
use crate::domain::webhook::{self, Webhook};
use crate::domain::workspace::{self, Workspace};
use crate::domain::{Envelope, Family, StreamKey};
use crate::kernel::ids::{AgentId, IssueId, ProjectId, StreamId, WebhookId, WorkspaceId};

fn mine(view: &View, workspace: WorkspaceId, key: StreamKey) -> Result<&[Envelope], Halt> {
    let events = view.stream(key)?;
    let mine = events.first().is_none_or(|first| first.workspace == workspace);
    Ok(if mine { events } else { &[] })
}

/// An agent.
///
/// # Errors
/// [`Halt`] when it isn't loaded or can't be folded.
pub fn agent(view: &View, workspace: WorkspaceId, id: AgentId) -> Result<Option<Agent>, Halt> {
    Ok(agent::evolve::fold(mine(view, workspace, agent::evolve::stream(id))?)?)
}

/// An issue.
///
/// # Errors
/// [`Halt`] when it isn't loaded or can't be folded.
pub fn issue(view: &View, workspace: WorkspaceId, id: IssueId) -> Result<Option<Issue>, Halt> {
    Ok(issue::evolve::fold(mine(view, workspace, issue::evolve::stream(id))?)?)
}

/// A project that isn't deleted.
///
/// # Errors
/// [`Halt`] when it isn't loaded or can't be folded.
pub fn project(view: &View, workspace: WorkspaceId, id: ProjectId) -> Result<Option<Project>, Halt> {
    let folded = project::evolve::fold(mine(view, workspace, project::evolve::stream(id))?)?;
    Ok(folded.filter(|project| !project.deleted))
}

/// A webhook.
///
/// # Errors
/// [`Halt`] when it isn't loaded or can't be folded.
pub fn webhook(view: &View, workspace: WorkspaceId, id: WebhookId) -> Result<Option<Webhook>, Halt> {
    Ok(webhook::evolve::fold(mine(view, workspace, webhook::evolve::stream(id))?)?)
}

/// A workspace.
///
/// # Errors
/// [`Halt`] when it isn't loaded or can't be folded.
pub fn workspace(view: &View, id: WorkspaceId) -> Result<Option<Workspace>, Halt> {
    Ok(workspace::evolve::fold(mine(view, id, workspace::evolve::stream(id))?)?)
}

/// What can be read; none for what is damaged, where the rest is right without it.
///
/// # Errors
/// [`Halt`] for all else.
pub fn if_readable<T>(found: Result<T, Halt>) -> Result<Option<T>, Halt> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Halt::Corrupt(_)) => Ok(None),
        Err(halt) => Err(halt),
    }
}

/// The stream of a daemon.
#[must_use]
pub fn daemon_stream(workspace: WorkspaceId, daemon: &str) -> StreamKey {
    StreamKey::new(Family::Daemon, StreamId::of_daemon(workspace, daemon))
}

/// A daemon.
///
/// # Errors
/// [`Halt`] when it isn't loaded or can't be folded.
pub fn daemon(view: &View, workspace: WorkspaceId, id: &str) -> Result<Option<Daemon>, Halt> {
    Ok(daemon::evolve::fold(mine(view, workspace, daemon_stream(workspace, id))?)?)
}

/// What a resource's rules may know of the machine that has it; `verified` is what was given.
#[must_use]
pub fn machine_facts(daemon: Option<&Daemon>, given: &MachineFacts) -> MachineFacts {
    MachineFacts {
        verified: given.verified,
        cli_version: daemon.map(|daemon| daemon.facts.cli_version.clone()),
        capabilities: daemon.map(|daemon| daemon.capabilities.iter().cloned().collect()).unwrap_or_default(),
    }
}
