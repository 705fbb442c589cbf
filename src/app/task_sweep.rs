//! What the server does by the clock.
//!
//! Invariants: each is judged again here, so that a stale timer does nothing; a parked task of a lost
//! machine keeps its place; a lost holder's directory goes to the next in the same append.
//!
//! Not here: when (`policy`).

use serde_json::json;

use super::decision::{Decided, Decision, Halt, View};
use super::directory_promote::promote_first;
use super::draft::Draft;
use super::task_outcome::{Failure, fail};
use super::task_report::{back_in_line, unanswered};
use crate::domain::daemon::DaemonCommand;
use crate::domain::directory::DirectoryCommand;
use crate::domain::task::{Ending, Phase, TaskCommand};
use crate::kernel::ids::{DirectoryId, TaskId, WorkspaceId};
use jiff::Timestamp;

/// Nobody confirmed a claim or a promotion in time.
pub struct ReceiptOverdue {
    /// Whose task.
    pub workspace: WorkspaceId,
    /// The task.
    pub task: TaskId,
    /// The claim.
    pub generation: u32,
    /// Slots of a daemon.
    pub daemon_slots: u32,
}

impl Decision for ReceiptOverdue {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let task = draft.needed_task(self.task)?;
        if let Phase::Dispatched(claim) = &task.phase
            && claim.generation == self.generation
            && !claim.received
        {
            if claim.promoted {
                unanswered(&mut draft, self.task, self.daemon_slots)?;
            } else {
                let reason = "no_receipt".to_owned();
                draft.tell_task(
                    self.task,
                    TaskCommand::ReleaseClaim { generation: self.generation, reason },
                )?;
            }
        }
        let standing = draft.standing(self.task)?;
        Ok(draft.finish(standing))
    }
}

/// Nobody claimed a task for too long.
pub struct QueuedExpired {
    /// Whose task.
    pub workspace: WorkspaceId,
    /// The task.
    pub task: TaskId,
}

impl Decision for QueuedExpired {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        if matches!(draft.needed_task(self.task)?.phase, Phase::Queued) {
            fail(&mut draft, self.task, by_server("queued_expired", self.task))?;
        }
        let standing = draft.standing(self.task)?;
        Ok(draft.finish(standing))
    }
}

fn by_server(reason: &str, retry: TaskId) -> Failure<'_> {
    Failure { generation: None, reason, detail: None, ending: Ending::default(), retry, last_word: None }
}

/// A machine is given up: what ran there is lost.
pub struct DaemonLost {
    /// Whose daemon.
    pub workspace: WorkspaceId,
    /// The daemon.
    pub daemon: String,
    /// `reconnect_grace_over` or `by_member`.
    pub reason: String,
    /// The last heartbeat.
    pub last_seen: Option<Timestamp>,
    /// Tasks it was seen to have, each with the id of a run in its stead.
    pub tasks: Vec<(TaskId, TaskId)>,
    /// Directories it was seen to hold, with the holding task.
    pub directories: Vec<(DirectoryId, TaskId)>,
    /// Slots of a daemon.
    pub daemon_slots: u32,
}

impl Decision for DaemonLost {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let command = DaemonCommand::DeclareDead { reason: self.reason.clone(), last_seen: self.last_seen };
        super::daemon_write::tell(&mut draft, &self.daemon, command)?;
        draft.note_gone(&self.daemon);
        let mut lost = Vec::new();
        for (task, retry) in &self.tasks {
            if self.lose(&mut draft, *task, *retry)? {
                lost.push(*task);
            }
        }
        for (directory, task) in &self.directories {
            let held = draft.directory(*directory)?.is_some_and(|state| {
                state
                    .holder
                    .as_ref()
                    .is_some_and(|holder| holder.who.task == *task && holder.who.daemon == self.daemon)
            });
            let parked = draft.task(*task)?.is_some_and(|task| matches!(task.phase, Phase::Parked(_)));
            if held && parked {
                // It waits for a lock that nobody on its machine tries any more.
                back_in_line(&mut draft, *task, self.daemon_slots)?;
            } else if held {
                draft.tell_directory(*directory, DirectoryCommand::LoseHolder { task: *task })?;
                promote_first(&mut draft, *directory, self.daemon_slots, None)?;
            }
        }
        Ok(draft.finish(json!({"lost": lost})))
    }
}

impl DaemonLost {
    fn lose(&self, draft: &mut Draft<'_>, id: TaskId, retry: TaskId) -> Result<bool, Halt> {
        let Some(task) = draft.task(id)?.cloned() else { return Ok(false) };
        let mine = super::draft::live_claim(&task).is_some_and(|claim| claim.daemon == self.daemon);
        match &task.phase {
            Phase::Dispatched(claim) if mine && !claim.received && !claim.promoted => {
                let reason = "no_receipt".to_owned();
                draft.tell_task(id, TaskCommand::ReleaseClaim { generation: claim.generation, reason })?;
                Ok(false)
            }
            // It had not begun: it waits at its old place.
            Phase::Dispatched(claim) if mine && claim.promoted && !claim.received => {
                unanswered(draft, id, self.daemon_slots)?;
                Ok(false)
            }
            Phase::Dispatched(_) | Phase::Running(_) if mine => {
                fail(draft, id, by_server("runtime_offline", retry))?;
                Ok(true)
            }
            Phase::Queued
            | Phase::Dispatched(_)
            | Phase::Parked(_)
            | Phase::Running(_)
            | Phase::Ended { .. } => Ok(false),
        }
    }
}
