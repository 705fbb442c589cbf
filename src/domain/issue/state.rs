//! What an issue is after its events.

use super::event::{Assignee, Author};
use crate::domain::ContentRef;
use crate::kernel::ids::{CommentId, IssueId, ProjectId, TaskId};

/// What an issue may be.
pub const STATUSES: [&str; 7] =
    ["backlog", "todo", "in_progress", "in_review", "done", "blocked", "cancelled"];

/// What kinds of comment there are; `system` is the server's alone.
pub const COMMENT_KINDS: [&str; 3] = ["comment", "progress_update", "system"];

/// A comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// Its id.
    pub id: CommentId,
    /// Who wrote it.
    pub author: Author,
    /// See [`COMMENT_KINDS`].
    pub kind: String,
    /// What it says.
    pub body: ContentRef,
    /// The comment it answers.
    pub parent: Option<CommentId>,
    /// The task in which it was written.
    pub task: Option<TaskId>,
}

/// An issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Its id.
    pub id: IssueId,
    /// Its number in the workspace.
    pub number: u32,
    /// Its key, `GAME-12`.
    pub key: String,
    /// Its title.
    pub title: ContentRef,
    /// Its description.
    pub description: Option<ContentRef>,
    /// Its project.
    pub project: Option<ProjectId>,
    /// See [`STATUSES`].
    pub status: String,
    /// urgent, high, medium, low, none.
    pub priority: String,
    /// Who it is assigned to.
    pub assignee: Option<Assignee>,
    /// Its comments, oldest first.
    pub comments: Vec<Comment>,
}

impl Issue {
    /// The priority as tasks order by it: urgent 4 … none 0.
    #[must_use]
    pub fn priority_number(&self) -> u8 {
        match self.priority.as_str() {
            "urgent" => 4,
            "high" => 3,
            "medium" => 2,
            "low" => 1,
            _ => 0,
        }
    }

    /// The comment of that id.
    #[must_use]
    pub fn comment(&self, id: CommentId) -> Option<&Comment> {
        self.comments.iter().find(|comment| comment.id == id)
    }
}
