//! What an issue allows.

use super::command::IssueCommand;
use super::event::{Assigned, Commented, Created, IssueEvent, StatusChanged, Updated};
use super::state::{COMMENT_KINDS, Issue, STATUSES};
use crate::domain::Refusal;
use crate::domain::project::state::PRIORITIES;

/// What is refused, or what happens: no events when nothing does.
pub type Decision = Result<Vec<IssueEvent>, Refusal>;

/// Decides one command on one issue; `None` is one that doesn't exist yet.
///
/// # Errors
/// `not_found`, `issue_exists`, `bad_status`, `bad_priority`, `bad_comment_type`, `empty_comment`,
/// `comment_id_taken`.
pub fn decide(issue: Option<&Issue>, command: IssueCommand) -> Decision {
    let Some(issue) = issue else {
        return match command {
            IssueCommand::Create(created) => create(created),
            IssueCommand::Update(_)
            | IssueCommand::Assign { .. }
            | IssueCommand::ChangeStatus { .. }
            | IssueCommand::Comment(_) => Err(Refusal::not_found("issue")),
        };
    };
    match command {
        IssueCommand::Create(_) => Err(Refusal::conflict(
            "issue_exists",
            "an issue with this id exists already",
            "Create another one with a fresh id.",
        )),
        IssueCommand::Update(asked) => update(issue, asked),
        IssueCommand::Assign { assignee } => Ok(if assignee == issue.assignee {
            Vec::new()
        } else {
            vec![IssueEvent::Assigned(Assigned { assignee })]
        }),
        IssueCommand::ChangeStatus { to, because_of } => {
            known(&STATUSES, &to, "bad_status")?;
            if to == issue.status {
                return Ok(Vec::new());
            }
            let from = issue.status.clone();
            Ok(vec![IssueEvent::StatusChanged(StatusChanged { from, to, because_of })])
        }
        IssueCommand::Comment(comment) => say(issue, comment),
    }
}

fn create(created: Created) -> Decision {
    known(&STATUSES, &created.status, "bad_status")?;
    known(&PRIORITIES, &created.priority, "bad_priority")?;
    Ok(vec![IssueEvent::Created(created)])
}

fn update(issue: &Issue, asked: Updated) -> Decision {
    if let Some(priority) = &asked.priority {
        known(&PRIORITIES, priority, "bad_priority")?;
    }
    let changed = Updated {
        title: asked.title.filter(|title| *title != issue.title),
        description: asked.description.filter(|text| Some(text) != issue.description.as_ref()),
        priority: asked.priority.filter(|priority| *priority != issue.priority),
        project: asked.project.filter(|project| Some(*project) != issue.project),
    };
    let nothing = Updated { title: None, description: None, priority: None, project: None };
    Ok(if changed == nothing { Vec::new() } else { vec![IssueEvent::Updated(changed)] })
}

fn say(issue: &Issue, comment: Commented) -> Decision {
    known(&COMMENT_KINDS, &comment.kind, "bad_comment_type")?;
    if comment.body.bytes == 0 {
        return Err(Refusal::invalid("empty_comment", "a comment says something", "Write a text."));
    }
    if comment.parent.is_some_and(|parent| issue.comment(parent).is_none()) {
        return Err(Refusal::not_found("parent comment"));
    }
    match issue.comment(comment.comment) {
        None => Ok(vec![IssueEvent::Commented(comment)]),
        Some(there) if there.author == comment.author && there.body == comment.body => Ok(Vec::new()),
        Some(_) => Err(Refusal::conflict(
            "comment_id_taken",
            "another comment has this id",
            "Comment with a fresh id.",
        )),
    }
}

fn known(values: &[&str], value: &str, code: &'static str) -> Result<(), Refusal> {
    if values.contains(&value) {
        return Ok(());
    }
    Err(Refusal::invalid(
        code,
        format!("`{value}` isn't known here"),
        format!("Use one of {}.", values.join(", ")),
    ))
}
