//! A run of an agent on an issue is queued.
//!
//! Invariants: at most one pending task for an issue and agent; the run's number is drawn from the
//! reservations, so that a race is a conflict and draws again.

use super::decision::{Decided, Decision, Halt, View};
use super::draft::Draft;
use super::load;
use super::task_cancel::cancel;
use crate::domain::Refusal;
use crate::domain::task::{Queued, TaskCommand, Trigger};
use crate::kernel::ids::{AgentId, IssueId, ProjectId, TaskId, WorkspaceId};

/// How often a run may be tried.
pub const MAX_ATTEMPTS: u32 = 2;

/// What is queued.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// The task's id.
    pub task: TaskId,
    /// Its agent.
    pub agent: AgentId,
    /// The daemon that has the agent's runtime, as the read models say.
    pub daemon: String,
    /// Why.
    pub trigger: Trigger,
}

/// The issue as it will stand in the same append.
#[derive(Debug, Clone)]
pub struct Work {
    /// The issue.
    pub issue: IssueId,
    /// Its key.
    pub key: String,
    /// Its project.
    pub project: Option<ProjectId>,
    /// Its priority by name.
    pub priority: String,
}

/// Queues a run inside a larger command; none when one of that issue and agent waits already.
///
/// # Errors
/// `not_found` and `agent_archived` of the agent; missing facts.
pub fn queue(draft: &mut Draft<'_>, work: &Work, run: &NewRun) -> Result<Option<TaskId>, Halt> {
    let agent =
        load::agent(draft.view, draft.workspace, run.agent)?.ok_or_else(|| Refusal::not_found("agent"))?;
    if agent.archived {
        return Err(Refusal::conflict(
            "agent_archived",
            format!("agent {} is archived", agent.facts.name),
            "Assign the issue to another agent.",
        )
        .into());
    }
    let pending = format!("pending/{}/{}", work.issue, run.agent);
    if draft.is_held(&pending)? {
        return Ok(None);
    }
    let number = draft.next_run(work.issue)?;
    let facts = Queued {
        issue: work.issue,
        issue_key: work.key.clone(),
        run: number,
        agent: run.agent,
        agent_name: agent.facts.name,
        runtime: agent.facts.runtime,
        daemon: run.daemon.clone(),
        provider: agent.facts.provider,
        project: work.project,
        priority: priority_number(&work.priority),
        trigger: run.trigger.clone(),
        attempt: 1,
        max_attempts: MAX_ATTEMPTS,
    };
    draft.tell_task(run.task, TaskCommand::Queue(facts))?;
    draft.note_taken(pending);
    Ok(Some(run.task))
}

/// urgent 4, high 3, medium 2, low 1, none 0.
#[must_use]
pub fn priority_number(name: &str) -> u8 {
    match name {
        "urgent" => 4,
        "high" => 3,
        "medium" => 2,
        "low" => 1,
        _ => 0,
    }
}

/// Queues another run of an issue; a run of that agent that still waits to be claimed is cancelled first.
pub struct IssueRerun {
    /// Whose issue.
    pub workspace: WorkspaceId,
    /// The issue.
    pub issue: IssueId,
    /// The run.
    pub run: NewRun,
    /// Slots of a daemon.
    pub daemon_slots: u32,
}

impl Decision for IssueRerun {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let issue =
            load::issue(view, self.workspace, self.issue)?.ok_or_else(|| Refusal::not_found("issue"))?;
        let pending = format!("pending/{}/{}", self.issue, self.run.agent);
        let waiting = view.reservations(&pending)?.values().next().copied();
        if let Some(waiting) = waiting {
            cancel(&mut draft, TaskId(waiting), None, self.daemon_slots)?;
        }
        let work = Work {
            issue: self.issue,
            key: issue.key.clone(),
            project: issue.project,
            priority: issue.priority.clone(),
        };
        let task = queue(&mut draft, &work, &self.run)?;
        Ok(draft.finish(serde_json::json!({"task": task})))
    }
}
