//! Read model `task_status`: every task with all that its events say of it.
//!
//! Rows: `task/<id>`, a [`TaskRow`]. Places in line change with other tasks' events: they are read from
//! `directory_queue`.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::At;
use super::of_stream::OfStream;
use crate::domain::task::{
    Claimed, Ending, GitState, ParkedBecause, Queued, Status, TaskEvent, Trigger, Usage, WorkPlace,
};
use crate::domain::{ContentRef, Envelope, Event};
use crate::kernel::ids::{AgentId, DirectoryId, Incarnation, IssueId, ProjectId, RuntimeId, TaskId};

/// See the module.
pub struct TaskStatus;

/// What a parked task waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingRow {
    /// The directory.
    pub directory: DirectoryId,
    /// What people call it.
    pub label: String,
    /// Who held it when the task was parked.
    pub holder: Option<TaskId>,
    /// The place in line when it was parked; 0 for a holder that waits for a foreign lock.
    pub place: u32,
    /// Why.
    pub because: ParkedBecause,
    /// Since when.
    pub since: At,
}

/// What is known of the agent's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Its id.
    pub pid: Option<u32>,
    /// Its program.
    pub program: Option<String>,
    /// When it was there.
    pub started_at: Option<At>,
    /// When its tree was empty.
    pub exited_at: Option<At>,
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Further processes that had to be killed.
    pub killed: u32,
}

/// How the stopping of a cancelled task goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRow {
    /// The claim that has to stop; none when no machine is at work for it.
    pub generation: Option<u32>,
    /// When it was asked for.
    pub requested_at: At,
    /// When the daemon had the order.
    pub received_at: Option<At>,
    /// When the machine was done.
    pub acknowledged_at: Option<At>,
    /// What went wrong while stopping.
    pub reason: Option<String>,
}

/// A report that came for a task that was over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateRow {
    /// The claim it spoke of.
    pub generation: u32,
    /// Its kind.
    pub kind: String,
    /// Its failure reason.
    pub reason: Option<String>,
    /// Its text.
    pub detail: Option<ContentRef>,
    /// When it came.
    pub at: At,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Its id.
    pub id: TaskId,
    /// `GAME-12#3`.
    pub name: String,
    /// Its issue.
    pub issue: IssueId,
    /// The issue's key.
    pub issue_key: String,
    /// Which run of the issue.
    pub run: u32,
    /// Its agent.
    pub agent: AgentId,
    /// The agent's name then.
    pub agent_name: String,
    /// The runtime.
    pub runtime: RuntimeId,
    /// The daemon.
    pub daemon: String,
    /// The provider.
    pub provider: String,
    /// The project.
    pub project: Option<ProjectId>,
    /// 4 urgent … 0 none.
    pub priority: u8,
    /// Why it came to be.
    pub trigger: Trigger,
    /// Which try.
    pub attempt: u32,
    /// Of how many.
    pub max_attempts: u32,
    /// Where it stands.
    pub status: Status,
    /// How often it was claimed.
    pub generation: u32,
    /// The daemon's process that claimed it last.
    pub incarnation: Option<Incarnation>,
    /// Whether the daemon has confirmed claim or promotion.
    pub received: bool,
    /// The agent's slot that it has.
    pub agent_slot: Option<u32>,
    /// The daemon's slot that it has.
    pub daemon_slot: Option<u32>,
    /// The directory that was entered or is waited for.
    pub directory: Option<DirectoryId>,
    /// What people call that directory.
    pub directory_label: Option<String>,
    /// What it waits for, while it is parked.
    pub waiting: Option<WaitingRow>,
    /// When it was queued first.
    pub queued_at: At,
    /// When it was claimed last, or promoted.
    pub dispatched_at: Option<At>,
    /// When it was parked last.
    pub parked_at: Option<At>,
    /// When it was promoted last.
    pub promoted_at: Option<At>,
    /// When it started.
    pub started_at: Option<At>,
    /// When it ended.
    pub completed_at: Option<At>,
    /// When the place was in order again.
    pub finalized_at: Option<At>,
    /// Where it works.
    pub place: Option<WorkPlace>,
    /// The work directory: for the daemon's owner and admins.
    pub work_dir: Option<String>,
    /// The env root: for the daemon's owner and admins.
    pub env_root: Option<String>,
    /// The provider's session.
    pub session_id: Option<String>,
    /// The delivered branch.
    pub branch: Option<String>,
    /// Git's state before the run.
    pub git_before: Option<GitState>,
    /// Git's state after the run.
    pub git_after: Option<GitState>,
    /// Context files that could not be removed.
    pub sidecars_left: Vec<String>,
    /// What it used.
    pub usage: Vec<Usage>,
    /// The agent's process.
    pub process: Option<ProcessRow>,
    /// The stopping, when it was cancelled.
    pub cancel: Option<CancelRow>,
    /// The failure reason.
    pub failure_reason: Option<String>,
    /// The agent's last word.
    pub output: Option<ContentRef>,
    /// What exactly went wrong.
    pub detail: Option<ContentRef>,
    /// Transcript messages stored by its end.
    pub transcript_messages: u64,
    /// The run queued in its stead.
    pub retried_by: Option<TaskId>,
    /// Reports that came after its end.
    pub late: Vec<LateRow>,
}

/// The key of a task's row.
#[must_use]
pub fn key(task: TaskId) -> String {
    format!("task/{task}")
}

impl OfStream for TaskStatus {
    const NAME: &'static str = "task_status";
    const VERSION: u32 = 1;
    type Happened = TaskEvent;
    type Row = TaskRow;

    fn pick(event: &Event) -> Option<&TaskEvent> {
        if let Event::Task(happened) = event { Some(happened) } else { None }
    }

    fn key(stream: Uuid) -> String {
        key(TaskId(stream))
    }

    fn after(before: Option<TaskRow>, happened: &TaskEvent, event: &Envelope, at: At) -> Option<TaskRow> {
        if let TaskEvent::Queued(facts) = happened {
            return Some(queued(TaskId(event.stream.id), facts, at));
        }
        let mut row = before?;
        if !moved(&mut row, happened, &at) {
            noted(&mut row, happened, &at);
        }
        Some(row)
    }
}

fn queued(id: TaskId, facts: &Queued, at: At) -> TaskRow {
    TaskRow {
        id,
        name: format!("{}#{}", facts.issue_key, facts.run),
        issue: facts.issue,
        issue_key: facts.issue_key.clone(),
        run: facts.run,
        agent: facts.agent,
        agent_name: facts.agent_name.clone(),
        runtime: facts.runtime,
        daemon: facts.daemon.clone(),
        provider: facts.provider.clone(),
        project: facts.project,
        priority: facts.priority,
        trigger: facts.trigger.clone(),
        attempt: facts.attempt,
        max_attempts: facts.max_attempts,
        status: Status::Queued,
        generation: 0,
        incarnation: None,
        received: false,
        agent_slot: None,
        daemon_slot: None,
        directory: None,
        directory_label: None,
        waiting: None,
        queued_at: at,
        dispatched_at: None,
        parked_at: None,
        promoted_at: None,
        started_at: None,
        completed_at: None,
        finalized_at: None,
        place: None,
        work_dir: None,
        env_root: None,
        session_id: None,
        branch: None,
        git_before: None,
        git_after: None,
        sidecars_left: Vec::new(),
        usage: Vec::new(),
        process: None,
        cancel: None,
        failure_reason: None,
        output: None,
        detail: None,
        transcript_messages: 0,
        retried_by: None,
        late: Vec::new(),
    }
}

/// Events that move the task; false when this one doesn't.
fn moved(row: &mut TaskRow, event: &TaskEvent, at: &At) -> bool {
    match event {
        TaskEvent::Claimed(e) => claimed(row, e, at),
        TaskEvent::ClaimReleased(_) => {
            row.status = Status::Queued;
            row.dispatched_at = None;
            row.directory = None;
            row.directory_label = None;
            without_slots(row);
        }
        TaskEvent::Parked(e) => {
            row.status = Status::WaitingLocalDirectory;
            row.directory = Some(e.directory);
            row.directory_label = Some(e.label.clone());
            row.parked_at = Some(at.clone());
            row.waiting = Some(WaitingRow {
                directory: e.directory,
                label: e.label.clone(),
                holder: e.holder,
                place: e.place,
                because: e.because,
                since: at.clone(),
            });
            without_slots(row);
        }
        TaskEvent::Promoted(e) => {
            row.status = Status::Dispatched;
            row.received = false;
            row.waiting = None;
            row.directory = Some(e.directory);
            row.agent_slot = Some(e.agent_slot);
            row.daemon_slot = Some(e.daemon_slot);
            row.dispatched_at = Some(at.clone());
            row.promoted_at = Some(at.clone());
        }
        TaskEvent::Started(_) => {
            row.status = Status::Running;
            row.started_at = Some(at.clone());
        }
        TaskEvent::Cancelled(e) => {
            row.failure_reason.clone_from(&e.reason);
            over(row, Status::Cancelled, None, at);
        }
        TaskEvent::Completed(e) => {
            row.output.clone_from(&e.output);
            over(row, Status::Completed, Some(&e.ending), at);
        }
        TaskEvent::Failed(e) => {
            row.failure_reason = Some(e.reason.clone());
            row.detail.clone_from(&e.detail);
            over(row, Status::Failed, Some(&e.ending), at);
        }
        _ => return false,
    }
    true
}

fn claimed(row: &mut TaskRow, e: &Claimed, at: &At) {
    row.status = Status::Dispatched;
    row.generation = e.generation;
    row.daemon.clone_from(&e.daemon);
    row.runtime = e.runtime;
    row.incarnation = Some(e.incarnation);
    row.received = false;
    row.agent_slot = Some(e.agent_slot);
    row.daemon_slot = Some(e.daemon_slot);
    row.dispatched_at = Some(at.clone());
    row.usage = Vec::new();
}

fn without_slots(row: &mut TaskRow) {
    row.received = false;
    row.agent_slot = None;
    row.daemon_slot = None;
}

fn over(row: &mut TaskRow, status: Status, ending: Option<&Ending>, at: &At) {
    row.status = status;
    row.completed_at = Some(at.clone());
    row.waiting = None;
    row.agent_slot = None;
    row.daemon_slot = None;
    if let Some(ending) = ending {
        row.session_id = ending.session_id.clone().or(row.session_id.take());
        row.work_dir = ending.work_dir.clone().or(row.work_dir.take());
        row.branch = ending.branch.clone().or(row.branch.take());
        row.transcript_messages = ending.transcript_messages;
    }
}

/// Events that leave the task where it is.
fn noted(row: &mut TaskRow, event: &TaskEvent, at: &At) {
    match event {
        TaskEvent::ClaimReceived(_) => row.received = true,
        TaskEvent::DirectoryEntered(e) => {
            row.directory = Some(e.directory);
            row.directory_label = Some(e.label.clone());
        }
        TaskEvent::Prepared(e) => {
            row.place = Some(e.place);
            row.work_dir = Some(e.work_dir.clone());
            row.env_root = Some(e.env_root.clone());
            row.git_before.clone_from(&e.git);
        }
        TaskEvent::ProcessStarted(e) => {
            let process = process(row);
            process.pid = Some(e.pid);
            process.program = Some(e.program.clone());
            process.started_at = Some(at.clone());
        }
        TaskEvent::ProcessExited(e) => {
            let process = process(row);
            process.exited_at = Some(at.clone());
            process.code = e.code;
            process.signal = e.signal;
            process.killed = e.killed;
        }
        TaskEvent::SessionPinned(e) => row.session_id = Some(e.session_id.clone()),
        TaskEvent::UsageRecorded(e) => row.usage.clone_from(&e.usage),
        TaskEvent::CancelRequested(e) => {
            row.cancel = Some(CancelRow {
                generation: e.generation,
                requested_at: at.clone(),
                received_at: None,
                acknowledged_at: None,
                reason: None,
            });
        }
        TaskEvent::CancelReceived(_) => {
            if let Some(cancel) = &mut row.cancel {
                cancel.received_at = Some(at.clone());
            }
        }
        TaskEvent::CancelAcknowledged(e) => {
            if let Some(cancel) = &mut row.cancel {
                cancel.acknowledged_at = Some(at.clone());
                cancel.reason.clone_from(&e.reason);
            }
        }
        TaskEvent::Finalized(e) => {
            row.finalized_at = Some(at.clone());
            row.git_after.clone_from(&e.git);
        }
        TaskEvent::SidecarsLeft(e) => row.sidecars_left.clone_from(&e.paths),
        TaskEvent::SidecarsRemoved(e) => row.sidecars_left.retain(|path| !e.paths.contains(path)),
        TaskEvent::Retried(e) => row.retried_by = Some(e.by),
        TaskEvent::LateReportRecorded(e) => row.late.push(LateRow {
            generation: e.generation,
            kind: e.kind.clone(),
            reason: e.reason.clone(),
            detail: e.detail.clone(),
            at: at.clone(),
        }),
        _ => {}
    }
}

fn process(row: &mut TaskRow) -> &mut ProcessRow {
    row.process.get_or_insert(ProcessRow {
        pid: None,
        program: None,
        started_at: None,
        exited_at: None,
        code: None,
        signal: None,
        killed: 0,
    })
}
