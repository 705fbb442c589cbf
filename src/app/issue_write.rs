//! Issues are created, changed and commented on; assigning one to an agent queues a run in the same append.
//!
//! Invariants: an issue's number is drawn from the reservations under the view, so that a race draws
//! again; the issue and its first task are one append; an issue in `backlog` queues nothing.

use serde_json::json;

use super::decision::{Decided, Decision, Halt, View};
use super::draft::Draft;
use super::load;
use super::task_queue::{NewRun, Work, queue};
use crate::domain::issue::{Assignee, Author, Commented, Created, IssueCommand, Updated};
use crate::domain::{NewContent, Refusal, issue};
use crate::kernel::ids::{CommentId, IssueId, ProjectId, TaskId, WorkspaceId};

/// Creates an issue.
pub struct IssueCreate {
    /// Whose issue.
    pub workspace: WorkspaceId,
    /// Its id.
    pub issue: IssueId,
    /// The number to try first, as a read model says.
    pub number_from: u32,
    /// Its title.
    pub title: NewContent,
    /// Its description.
    pub description: Option<NewContent>,
    /// Its project.
    pub project: Option<ProjectId>,
    /// Its status.
    pub status: String,
    /// Its priority.
    pub priority: String,
    /// Who it is assigned to.
    pub assignee: Option<Assignee>,
    /// The run to queue when that is an agent.
    pub run: Option<NewRun>,
}

impl Decision for IssueCreate {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let workspace =
            load::workspace(view, self.workspace)?.ok_or_else(|| Refusal::not_found("workspace"))?;
        check_project(view, self.workspace, self.project)?;
        check_assignee(view, self.workspace, self.assignee)?;
        let number = view.next_number(&format!("number/{}/", self.workspace), self.number_from.max(1))?;
        let key = format!("{}-{number}", workspace.issue_prefix);
        let created = Created {
            number,
            key: key.clone(),
            title: self.title.reference.clone(),
            description: self.description.as_ref().map(|text| text.reference.clone()),
            project: self.project,
            status: self.status.clone(),
            priority: self.priority.clone(),
            assignee: self.assignee,
        };
        tell(&mut draft, self.issue, IssueCommand::Create(created))?;
        draft.attach(&self.title);
        if let Some(description) = &self.description {
            draft.attach(description);
        }
        let work = Work {
            issue: self.issue,
            key: key.clone(),
            project: self.project,
            priority: self.priority.clone(),
        };
        let task = match &self.run {
            Some(run) if self.status != "backlog" => queue(&mut draft, &work, run)?,
            Some(_) | None => None,
        };
        Ok(draft.finish(json!({"issue": self.issue, "key": key, "number": number, "task": task})))
    }
}

fn check_project(view: &View, workspace: WorkspaceId, project: Option<ProjectId>) -> Result<(), Halt> {
    match project {
        Some(id) if load::project(view, workspace, id)?.is_none() => {
            Err(Refusal::invalid("bad_project", "there is no such project", "List the projects.").into())
        }
        Some(_) | None => Ok(()),
    }
}

fn check_assignee(view: &View, workspace: WorkspaceId, assignee: Option<Assignee>) -> Result<(), Halt> {
    let there = match assignee {
        None => true,
        Some(Assignee::Agent(agent)) => load::agent(view, workspace, agent)?.is_some(),
        Some(Assignee::Member(user)) => {
            load::workspace(view, workspace)?.is_some_and(|workspace| workspace.role(user).is_some())
        }
    };
    if there {
        return Ok(());
    }
    Err(Refusal::invalid("bad_assignee", "there is no such assignee", "List the members and agents.").into())
}

fn tell(draft: &mut Draft<'_>, id: IssueId, command: IssueCommand) -> Result<usize, Halt> {
    let state = load::issue(draft.view, draft.workspace, id)?;
    let events = issue::decide::decide(state.as_ref(), command)?;
    let count = events.len();
    for event in events {
        draft.push(issue::evolve::stream(id), event);
    }
    Ok(count)
}

/// Changes an issue; absent fields keep their value.
pub struct IssueUpdate {
    /// Whose issue.
    pub workspace: WorkspaceId,
    /// The issue.
    pub issue: IssueId,
    /// The new title.
    pub title: Option<NewContent>,
    /// The new description.
    pub description: Option<NewContent>,
    /// The new project.
    pub project: Option<ProjectId>,
    /// The new status.
    pub status: Option<String>,
    /// The new priority.
    pub priority: Option<String>,
    /// The new assignee; `Some(None)` unassigns.
    pub assignee: Option<Option<Assignee>>,
    /// The run to queue when an agent gets it.
    pub run: Option<NewRun>,
}

impl Decision for IssueUpdate {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let before =
            load::issue(view, self.workspace, self.issue)?.ok_or_else(|| Refusal::not_found("issue"))?;
        check_project(view, self.workspace, self.project)?;
        let updated = Updated {
            title: self.title.as_ref().map(|text| text.reference.clone()),
            description: self.description.as_ref().map(|text| text.reference.clone()),
            priority: self.priority.clone(),
            project: self.project,
        };
        if tell(&mut draft, self.issue, IssueCommand::Update(updated))? > 0 {
            for text in self.title.iter().chain(self.description.iter()) {
                draft.attach(text);
            }
        }
        if let Some(to) = &self.status {
            let change = IssueCommand::ChangeStatus { to: to.clone(), because_of: None };
            tell(&mut draft, self.issue, change)?;
        }
        let mut assigned = false;
        if let Some(assignee) = self.assignee {
            check_assignee(view, self.workspace, assignee)?;
            assigned = tell(&mut draft, self.issue, IssueCommand::Assign { assignee })? > 0;
        }
        let status = self.status.as_ref().unwrap_or(&before.status);
        let woken = before.status == "backlog" && status != "backlog";
        let work = Work {
            issue: self.issue,
            key: before.key.clone(),
            project: self.project.or(before.project),
            priority: self.priority.clone().unwrap_or(before.priority),
        };
        let task: Option<TaskId> = match &self.run {
            Some(run) if (assigned || woken) && status != "backlog" => queue(&mut draft, &work, run)?,
            Some(_) | None => None,
        };
        Ok(draft.finish(json!({"issue": self.issue, "task": task})))
    }
}

/// Comments on an issue.
pub struct IssueComment {
    /// Whose issue.
    pub workspace: WorkspaceId,
    /// The issue.
    pub issue: IssueId,
    /// The comment.
    pub comment: CommentId,
    /// Who says it.
    pub author: Author,
    /// comment, progress_update.
    pub kind: String,
    /// What.
    pub body: NewContent,
    /// The comment it answers.
    pub parent: Option<CommentId>,
    /// The task in which an agent says it.
    pub task: Option<TaskId>,
}

impl Decision for IssueComment {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        if self.kind == "system" {
            let sentence = "only the server writes system comments";
            return Err(Refusal::invalid("bad_comment_type", sentence, "Use type `comment`.").into());
        }
        let comment = Commented {
            comment: self.comment,
            author: self.author,
            kind: self.kind.clone(),
            body: self.body.reference.clone(),
            parent: self.parent,
            task: self.task,
        };
        if tell(&mut draft, self.issue, IssueCommand::Comment(comment))? > 0 {
            draft.attach(&self.body);
        }
        Ok(draft.finish(json!({"comment": self.comment})))
    }
}
