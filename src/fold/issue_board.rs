//! Read model `issue_board`: every issue, and every comment.
//!
//! Rows: `issue/<id>`, an [`IssueRow`]; `comment/<id>`, a [`CommentRow`].

use serde::{Deserialize, Serialize};

use super::{At, FoldError, Mode, ReadModel, Rows};
use crate::domain::issue::{Assignee, Author, IssueEvent};
use crate::domain::{Actor, ContentRef, Envelope, Event};
use crate::kernel::ids::{CommentId, IssueId, ProjectId, TaskId};

const NAME: &str = "issue_board";

/// See the module.
pub struct IssueBoard;

/// An issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssueRow {
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
    /// backlog, todo, in_progress, in_review, done, blocked, cancelled.
    pub status: String,
    /// urgent, high, medium, low, none.
    pub priority: String,
    /// Who it is assigned to.
    pub assignee: Option<Assignee>,
    /// Who created it.
    pub creator: Actor,
    /// How many comments it has.
    pub comments: u32,
    /// When it was created.
    pub created_at: At,
    /// When it changed or was commented last.
    pub updated_at: At,
}

/// A comment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentRow {
    /// Its id.
    pub id: CommentId,
    /// Its issue.
    pub issue: IssueId,
    /// Its number in the issue, from 1.
    pub n: u32,
    /// Who wrote it.
    pub author: Author,
    /// comment, progress_update, system.
    pub comment_type: String,
    /// What it says.
    pub body: ContentRef,
    /// The comment it answers.
    pub parent: Option<CommentId>,
    /// The task in which it was written.
    pub task: Option<TaskId>,
    /// When it was written.
    pub created_at: At,
}

/// The key of an issue's row.
#[must_use]
pub fn key(issue: IssueId) -> String {
    format!("issue/{issue}")
}

/// The key of a comment's row.
#[must_use]
pub fn comment_key(comment: CommentId) -> String {
    format!("comment/{comment}")
}

impl ReadModel for IssueBoard {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> u32 {
        1
    }

    fn mode(&self) -> Mode {
        Mode::Inline
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        let Event::Issue(happened) = &event.event else { return Vec::new() };
        let mut keys = vec![key(IssueId(event.stream.id))];
        if let IssueEvent::Commented(e) = happened {
            keys.push(comment_key(e.comment));
        }
        keys
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let Event::Issue(happened) = &event.event else { return Ok(()) };
        let id = IssueId(event.stream.id);
        let key = key(id);
        let at = At::now(rows);
        if let IssueEvent::Created(e) = happened {
            let row = IssueRow {
                id,
                number: e.number,
                key: e.key.clone(),
                title: e.title.clone(),
                description: e.description.clone(),
                project: e.project,
                status: e.status.clone(),
                priority: e.priority.clone(),
                assignee: e.assignee,
                creator: event.actor.clone(),
                comments: 0,
                created_at: at.clone(),
                updated_at: at,
            };
            rows.put(&key, event.workspace, row);
            return Ok(());
        }
        let mut row: IssueRow = rows.need(NAME, &key)?;
        row.updated_at = at.clone();
        match happened {
            IssueEvent::Created(_) => {}
            IssueEvent::Updated(e) => {
                if let Some(title) = &e.title {
                    row.title = title.clone();
                }
                row.description = e.description.clone().or(row.description.take());
                if let Some(priority) = &e.priority {
                    row.priority.clone_from(priority);
                }
                row.project = e.project.or(row.project);
            }
            IssueEvent::Assigned(e) => row.assignee = e.assignee,
            IssueEvent::StatusChanged(e) => row.status.clone_from(&e.to),
            IssueEvent::Commented(e) => {
                row.comments += 1;
                let comment = CommentRow {
                    id: e.comment,
                    issue: id,
                    n: row.comments,
                    author: e.author,
                    comment_type: e.kind.clone(),
                    body: e.body.clone(),
                    parent: e.parent,
                    task: e.task,
                    created_at: at,
                };
                rows.put(&comment_key(e.comment), event.workspace, comment);
            }
        }
        rows.put(&key, event.workspace, row);
        Ok(())
    }
}
