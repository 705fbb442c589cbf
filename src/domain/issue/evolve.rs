//! Folds an issue's events.

use super::event::IssueEvent;
use super::state::{Comment, Issue};
use crate::domain::folding::fold_stream;
use crate::domain::{Envelope, Event, Family, Impossible, StreamKey};
use crate::kernel::ids::IssueId;

/// The stream of an issue.
#[must_use]
pub fn stream(id: IssueId) -> StreamKey {
    StreamKey::new(Family::Issue, id)
}

/// Folds a whole stream; none when it is empty.
///
/// # Errors
/// [`Impossible`] when an event can't follow what came before.
pub fn fold(events: &[Envelope]) -> Result<Option<Issue>, Impossible> {
    fold_stream(
        events,
        |event| match event {
            Event::Issue(event) => Some(event),
            _ => None,
        },
        |state, event, envelope| evolve(IssueId(envelope.stream.id), state, event),
    )
}

/// Applies one event; none when it can't follow.
#[must_use]
pub fn evolve(id: IssueId, issue: Option<Issue>, event: &IssueEvent) -> Option<Issue> {
    let Some(mut issue) = issue else {
        let IssueEvent::Created(e) = event else { return None };
        return Some(Issue {
            id,
            number: e.number,
            key: e.key.clone(),
            title: e.title.clone(),
            description: e.description.clone(),
            project: e.project,
            status: e.status.clone(),
            priority: e.priority.clone(),
            assignee: e.assignee,
            comments: Vec::new(),
        });
    };
    match event {
        IssueEvent::Created(_) => return None,
        IssueEvent::Updated(e) => {
            issue.title = e.title.clone().unwrap_or(issue.title);
            issue.description = e.description.clone().or(issue.description);
            issue.priority = e.priority.clone().unwrap_or(issue.priority);
            issue.project = e.project.or(issue.project);
        }
        IssueEvent::Assigned(e) => issue.assignee = e.assignee,
        IssueEvent::StatusChanged(e) => issue.status.clone_from(&e.to),
        IssueEvent::Commented(e) => issue.comments.push(Comment {
            id: e.comment,
            author: e.author,
            kind: e.kind.clone(),
            body: e.body.clone(),
            parent: e.parent,
            task: e.task,
        }),
    }
    Some(issue)
}
