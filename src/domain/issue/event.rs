//! What can happen to an issue.

use serde::{Deserialize, Serialize};

use crate::domain::ContentRef;
use crate::kernel::ids::{AgentId, CommentId, ProjectId, TaskId, UserId};

/// Who an issue is assigned to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "id", rename_all = "snake_case")]
pub enum Assignee {
    /// A person.
    Member(UserId),
    /// An agent: a task is queued.
    Agent(AgentId),
}

/// Who wrote a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "id", rename_all = "snake_case")]
pub enum Author {
    /// A person.
    Member(UserId),
    /// An agent.
    Agent(AgentId),
}

/// What happened to an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum IssueEvent {
    /// It was created.
    Created(Created),
    /// Its title, description, priority or project changed.
    Updated(Updated),
    /// It was assigned, or unassigned.
    Assigned(Assigned),
    /// Its status changed.
    StatusChanged(StatusChanged),
    /// Somebody commented.
    Commented(Commented),
}

/// See [`IssueEvent::Created`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Created {
    /// Its number in the workspace, from 1, never reused.
    pub number: u32,
    /// Its key as people say it: prefix, dash, number.
    pub key: String,
    /// Its title.
    pub title: ContentRef,
    /// Its description.
    pub description: Option<ContentRef>,
    /// Its project, if any.
    pub project: Option<ProjectId>,
    /// backlog, todo, in_progress, in_review, done, blocked, cancelled.
    pub status: String,
    /// urgent, high, medium, low, none.
    pub priority: String,
    /// Who it is assigned to from the start.
    pub assignee: Option<Assignee>,
}

/// See [`IssueEvent::Updated`]. Absent fields kept their value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Updated {
    /// The new title.
    pub title: Option<ContentRef>,
    /// The new description.
    pub description: Option<ContentRef>,
    /// The new priority.
    pub priority: Option<String>,
    /// The new project.
    pub project: Option<ProjectId>,
}

/// See [`IssueEvent::Assigned`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Assigned {
    /// The new assignee; none when it was unassigned.
    pub assignee: Option<Assignee>,
}

/// See [`IssueEvent::StatusChanged`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatusChanged {
    /// From.
    pub from: String,
    /// To.
    pub to: String,
    /// The task whose end changed it, when it wasn't a person's or agent's word.
    pub because_of: Option<TaskId>,
}

/// See [`IssueEvent::Commented`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Commented {
    /// The comment.
    pub comment: CommentId,
    /// Who wrote it.
    pub author: Author,
    /// comment, progress_update, system.
    pub kind: String,
    /// What it says.
    pub body: ContentRef,
    /// The comment it answers.
    pub parent: Option<CommentId>,
    /// The task in which it was written.
    pub task: Option<TaskId>,
}
