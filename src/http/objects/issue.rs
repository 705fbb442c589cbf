//! Issues and comments.

use serde_json::{Value, json};

use super::{Loaded, Texts, ids, load, time};
use crate::domain::issue::{self, Assignee, Author, Issue, IssueEvent};
use crate::domain::{ActorKind, Event};
use crate::http::App;
use crate::http::error::ApiError;
use crate::kernel::ids::{IssueId, WorkspaceId};

/// Issues.
///
/// # Errors
/// See [`load`].
pub async fn issues(
    app: &App,
    workspace: WorkspaceId,
    ids: &[IssueId],
) -> Result<Vec<Loaded<Issue>>, ApiError> {
    let keys: Vec<_> = ids.iter().copied().map(issue::evolve::stream).collect();
    load(app, workspace, &keys, issue::evolve::fold).await
}

/// One issue.
///
/// # Errors
/// `not_found`; see [`load`].
pub async fn issue(app: &App, workspace: WorkspaceId, id: IssueId) -> Result<Loaded<Issue>, ApiError> {
    issues(app, workspace, &[id]).await?.pop().ok_or(ApiError::NotFound("issue"))
}

/// Issues as the API shows them.
///
/// # Errors
/// What went wrong with the database.
pub async fn issue_values(
    app: &App,
    workspace: WorkspaceId,
    issues: &[Loaded<Issue>],
) -> Result<Vec<Value>, ApiError> {
    let references = issues
        .iter()
        .flat_map(|issue| std::iter::once(&issue.state.title).chain(issue.state.description.iter()));
    let texts = Texts::load(app, ids(references)).await?;
    Ok(issues.iter().map(|issue| issue_value(workspace, issue, &texts)).collect())
}

fn issue_value(workspace: WorkspaceId, issue: &Loaded<Issue>, texts: &Texts) -> Value {
    let state = &issue.state;
    let (assignee_type, assignee_id) = match state.assignee {
        None => (Value::Null, Value::Null),
        Some(Assignee::Member(user)) => (json!("member"), json!(user)),
        Some(Assignee::Agent(agent)) => (json!("agent"), json!(agent)),
    };
    let creator = issue.events.first().map(|event| &event.actor);
    json!({
        "id": state.id, "workspace_id": workspace, "number": state.number, "identifier": state.key,
        "title": texts.of(&state.title), "description": texts.or_null(state.description.as_ref()),
        "status": state.status, "priority": state.priority, "assignee_type": assignee_type,
        "assignee_id": assignee_id,
        "creator_type": creator.map(|actor| if actor.kind == ActorKind::Agent { "agent" } else { "member" }),
        "creator_id": creator.map(|actor| actor.id.clone()), "parent_issue_id": null,
        "project_id": state.project, "position": state.number, "stage": null, "start_date": null,
        "due_date": null, "created_at": issue.created_at(), "updated_at": issue.updated_at(),
        "revision": issue.events.last().map_or(0, |event| event.version),
        "last_activity_at": issue.updated_at(), "metadata": {}, "properties": {},
    })
}

/// An issue's comments, oldest first.
///
/// # Errors
/// What went wrong with the database.
pub async fn comment_values(app: &App, issue: &Loaded<Issue>) -> Result<Vec<Value>, ApiError> {
    let texts = Texts::load(app, ids(issue.state.comments.iter().map(|comment| &comment.body))).await?;
    Ok(issue
        .state
        .comments
        .iter()
        .map(|comment| {
            let (author_type, author_id) = match comment.author {
                Author::Member(user) => ("member", json!(user)),
                Author::Agent(agent) => ("agent", json!(agent)),
            };
            let at = time(issue.events.iter().find_map(|envelope| match &envelope.event {
                Event::Issue(IssueEvent::Commented(said)) if said.comment == comment.id => {
                    envelope.recorded_at
                }
                _ => None,
            }));
            json!({
                "id": comment.id, "issue_id": issue.state.id, "author_type": author_type,
                "author_id": author_id, "content": texts.of(&comment.body), "type": comment.kind,
                "parent_id": comment.parent, "created_at": at, "updated_at": at, "revision": 1,
                "resolved_at": null, "resolved_by_type": null, "resolved_by_id": null,
                "source_task_id": comment.task, "reactions": [], "attachments": [],
            })
        })
        .collect())
}
