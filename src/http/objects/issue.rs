//! Issues and comments.

use serde_json::json;

use super::{Loaded, Texts, ids, load, load_one};
use crate::domain::issue::{self, Assignee, Author, Issue, IssueEvent};
use crate::domain::{ActorKind, Event};
use crate::http::App;
use crate::http::error::ApiError;
use crate::kernel::ids::{IssueId, WorkspaceId};
use crate::wire::api;

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
    let found = load_one(app, workspace, issue::evolve::stream(id), issue::evolve::fold).await?;
    found.ok_or_else(|| ApiError::unknown("issue", id))
}

/// Issues as the API shows them.
///
/// # Errors
/// What went wrong with the database.
pub async fn issue_values(
    app: &App,
    workspace: WorkspaceId,
    issues: &[Loaded<Issue>],
) -> Result<Vec<api::Issue>, ApiError> {
    let references = issues
        .iter()
        .flat_map(|issue| std::iter::once(&issue.state.title).chain(issue.state.description.iter()));
    let texts = Texts::load(app, ids(references)).await?;
    Ok(issues.iter().map(|issue| issue_value(workspace, issue, &texts)).collect())
}

fn issue_value(workspace: WorkspaceId, issue: &Loaded<Issue>, texts: &Texts) -> api::Issue {
    let state = &issue.state;
    let (assignee_type, assignee_id) = match state.assignee {
        None => (None, None),
        Some(Assignee::Member(user)) => (Some("member"), Some(user.0)),
        Some(Assignee::Agent(agent)) => (Some("agent"), Some(agent.0)),
    };
    let creator = issue.events.first().map(|event| &event.actor);
    let creator_type = creator.map(|by| if by.kind == ActorKind::Agent { "agent" } else { "member" });
    api::Issue {
        id: state.id,
        workspace_id: workspace,
        number: state.number,
        identifier: state.key.clone(),
        title: texts.of(&state.title).to_owned(),
        description: texts.of_some(state.description.as_ref()),
        status: state.status.clone(),
        priority: state.priority.clone(),
        assignee_type: assignee_type.map(str::to_owned),
        assignee_id,
        project_id: state.project,
        created_at: issue.created_at(),
        updated_at: issue.updated_at(),
        task_id: None,
        more: api::more(json!({
            "creator_type": creator_type, "creator_id": creator.map(|actor| actor.id.clone()),
            "parent_issue_id": null, "position": state.number, "stage": null, "start_date": null,
            "due_date": null, "revision": issue.events.last().map_or(0, |event| event.version),
            "last_activity_at": issue.updated_at(), "metadata": {}, "properties": {},
        })),
    }
}

/// An issue's comments, oldest first.
///
/// # Errors
/// What went wrong with the database.
pub async fn comment_values(app: &App, issue: &Loaded<Issue>) -> Result<Vec<api::Comment>, ApiError> {
    let texts = Texts::load(app, ids(issue.state.comments.iter().map(|comment| &comment.body))).await?;
    Ok(issue
        .state
        .comments
        .iter()
        .map(|comment| {
            let (author_type, author_id) = match comment.author {
                Author::Member(user) => ("member", user.0),
                Author::Agent(agent) => ("agent", agent.0),
            };
            let at = issue.events.iter().find_map(|envelope| match &envelope.event {
                Event::Issue(IssueEvent::Commented(said)) if said.comment == comment.id => {
                    envelope.recorded_at
                }
                _ => None,
            });
            api::Comment {
                id: comment.id,
                issue_id: issue.state.id,
                author_type: author_type.to_owned(),
                author_id,
                content: texts.of(&comment.body).to_owned(),
                source_task_id: comment.task,
                created_at: at,
                more: api::more(json!({
                    "type": comment.kind, "parent_id": comment.parent, "updated_at": at, "revision": 1,
                    "resolved_at": null, "resolved_by_type": null, "resolved_by_id": null,
                    "reactions": [], "attachments": [],
                })),
            }
        })
        .collect())
}
