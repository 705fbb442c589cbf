//! What a machine reports about a task, as one command each.
//!
//! Invariants: a report of a claim that isn't the live one is refused, on an ended task it is kept or
//! passed over; the terminal reports free the directory and promote the next in the same append.
//!
//! Not here: receipts (`task_receipt`) and directories asked for (`task_enter_directory`).

use super::decision::{Decided, Decision, Halt, View};
use super::directory_promote::{promote, promote_first};
use super::draft::Draft;
use super::task_outcome::{Failure, LastWord, complete, fail, free_directory};
use crate::domain::directory::{DirectoryCommand, LockBlocked, LockingRun};
use crate::domain::task::{
    Ending, Finalized, ParkedBecause, Phase, Prepared, ProcessExited, ProcessStarted, Sidecars, TaskCommand,
};
use crate::domain::{NewContent, Refusal};
use crate::kernel::ids::{DirectoryId, TaskId, WorkspaceId};
use crate::wire::daemon::{EndingReport, LockReport, ReportBody};

/// One report.
pub struct TaskReport {
    /// Whose task.
    pub workspace: WorkspaceId,
    /// The task.
    pub task: TaskId,
    /// The claim; none from public daemons, which mean the last one.
    pub generation: Option<u32>,
    /// What it says.
    pub body: ReportBody,
    /// Its long text (output or error), redacted, where it has one.
    pub text: Option<NewContent>,
    /// The comment that its ending may write.
    pub last_word: Option<LastWord>,
    /// Transcript messages stored by now, and the digest over them.
    pub transcript: (u64, Option<String>),
    /// The id of a run that may be queued in its stead.
    pub retry: TaskId,
    /// Slots of a daemon.
    pub daemon_slots: u32,
}

impl Decision for TaskReport {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let task = draft.needed_task(self.task)?;
        let generation = self.generation.unwrap_or(task.generation);
        self.say(&mut draft, generation)?;
        let standing = draft.standing(self.task)?;
        Ok(draft.finish(standing))
    }
}

impl TaskReport {
    fn say(&self, draft: &mut Draft<'_>, generation: u32) -> Result<(), Halt> {
        match &self.body {
            ReportBody::Complete { ending, .. } => {
                let ending = self.ending(ending);
                complete(draft, self.task, generation, self.text.as_ref(), self.last_word.as_ref(), ending)?;
                free_directory(draft, self.task, generation, self.daemon_slots)
            }
            ReportBody::Fail { failure_reason, ending, .. } => {
                let failure = Failure {
                    generation: Some(generation),
                    reason: failure_reason,
                    detail: self.text.as_ref(),
                    ending: self.ending(ending),
                    retry: self.retry,
                    last_word: self.last_word.as_ref(),
                };
                fail(draft, self.task, failure)?;
                free_directory(draft, self.task, generation, self.daemon_slots)
            }
            ReportBody::CancelAck { failure_reason, .. } => {
                let reason = failure_reason.clone();
                draft.tell_task(self.task, TaskCommand::AcknowledgeCancel { generation, reason })?;
                free_directory(draft, self.task, generation, self.daemon_slots)
            }
            ReportBody::DirectoryLock { directory, lock } => self.lock(draft, generation, *directory, lock),
            ReportBody::Return { reason } => self.give_back(draft, generation, reason),
            // Has a decision of its own; http never sends it here.
            ReportBody::EnterDirectory { .. } => {
                Err(Refusal::invalid("wrong_route", "this report has a route of its own", "Use it.").into())
            }
            other => {
                if let Some(command) = simple(other, generation) {
                    draft.tell_task(self.task, command)?;
                }
                Ok(())
            }
        }
    }

    fn ending(&self, report: &EndingReport) -> Ending {
        Ending {
            session_id: report.session_id.clone(),
            work_dir: report.work_dir.clone(),
            branch: report.branch_name.clone(),
            transcript_messages: self.transcript.0,
            transcript_sha256: self.transcript.1.clone(),
        }
    }

    fn lock(
        &self,
        draft: &mut Draft<'_>,
        generation: u32,
        directory: DirectoryId,
        lock: &LockReport,
    ) -> Result<(), Halt> {
        let task = draft.needed_task(self.task)?;
        let current = super::draft::live_claim(&task).is_some_and(|claim| claim.generation == generation);
        if matches!(task.phase, Phase::Ended { .. }) {
            return Ok(());
        }
        if !current {
            // Lets the task itself say so.
            draft.tell_task(self.task, TaskCommand::CancelReceived { generation })?;
            return Ok(());
        }
        match lock {
            LockReport::Taken {} => {
                draft.tell_directory(directory, DirectoryCommand::Lock { task: self.task })?;
            }
            LockReport::Blocked { pid, program, task: by } => {
                let run = match by {
                    Some(by) if draft.task(*by)?.is_some() => Some(LockingRun::Task { task: *by }),
                    Some(_) => Some(LockingRun::Elsewhere {}),
                    None => None,
                };
                let blocked = LockBlocked { task: self.task, pid: *pid, program: program.clone(), run };
                draft.tell_directory(directory, DirectoryCommand::Block(blocked))?;
                let label = draft.directory(directory)?.map(|d| d.place.label.clone()).unwrap_or_default();
                let park = TaskCommand::Park {
                    generation,
                    directory,
                    label,
                    holder: None,
                    place: 0,
                    because: ParkedBecause::ForeignLock,
                };
                draft.tell_task(self.task, park)?;
            }
            LockReport::Free {} => {
                let parked = matches!(task.phase, Phase::Parked(_));
                if parked && !promote(draft, directory, self.task, self.daemon_slots)? {
                    return Err(Refusal::conflict(
                        "no_free_slot",
                        "the directory is free, but the agent or the daemon has no free slot",
                        "Report it again in a second.",
                    )
                    .into());
                }
            }
        }
        Ok(())
    }

    fn give_back(&self, draft: &mut Draft<'_>, generation: u32, reason: &str) -> Result<(), Halt> {
        let task = draft.needed_task(self.task)?;
        let Phase::Dispatched(claim) = &task.phase else {
            draft.tell_task(
                self.task,
                TaskCommand::ReleaseClaim { generation, reason: "returned".to_owned() },
            )?;
            return Ok(());
        };
        if claim.generation == generation
            && let Some(directory) = claim.directory
        {
            if claim.promoted {
                return unanswered(draft, self.task, self.daemon_slots);
            }
            draft.tell_directory(
                directory,
                DirectoryCommand::Leave { task: self.task, reason: reason.to_owned() },
            )?;
            draft.tell_task(
                self.task,
                TaskCommand::ReleaseClaim { generation, reason: "returned".to_owned() },
            )?;
            promote_first(draft, directory, self.daemon_slots, None)?;
            return Ok(());
        }
        draft
            .tell_task(self.task, TaskCommand::ReleaseClaim { generation, reason: "returned".to_owned() })?;
        Ok(())
    }
}

/// Takes a promotion back: the task waits at its old place, the next one is promoted.
///
/// # Errors
/// [`Halt`] when facts are missing.
pub fn unanswered(draft: &mut Draft<'_>, id: TaskId, daemon_slots: u32) -> Result<(), Halt> {
    let task = draft.needed_task(id)?;
    let Phase::Dispatched(claim) = &task.phase else { return Ok(()) };
    let Some(directory) = claim.directory.filter(|_| claim.promoted) else { return Ok(()) };
    requeue(draft, id, claim.generation, directory, ParkedBecause::PromotionUnanswered)?;
    // Not to the one that has just not answered.
    promote_first(draft, directory, daemon_slots, Some(id)).map(drop)
}

/// A task that holds a directory and waits for a foreign lock on it gives the directory up and waits at its old
/// place: its machine, which would have to try the lock, isn't there.
///
/// # Errors
/// [`Halt`] when facts are missing.
pub fn back_in_line(draft: &mut Draft<'_>, id: TaskId, daemon_slots: u32) -> Result<(), Halt> {
    let task = draft.needed_task(id)?;
    let Phase::Parked(claim) = &task.phase else { return Ok(()) };
    let Some(directory) = claim.directory else { return Ok(()) };
    requeue(draft, id, claim.generation, directory, ParkedBecause::Held)?;
    promote_first(draft, directory, daemon_slots, None).map(drop)
}

/// A holder waits at its old place again.
fn requeue(
    draft: &mut Draft<'_>,
    id: TaskId,
    generation: u32,
    directory: DirectoryId,
    because: ParkedBecause,
) -> Result<(), Halt> {
    draft.tell_directory(directory, DirectoryCommand::Requeue { task: id })?;
    let (label, place) = draft
        .directory(directory)?
        .map(|state| (state.place.label.clone(), state.place_in_line(id).unwrap_or(0)))
        .unwrap_or_default();
    let place = u32::try_from(place).unwrap_or(u32::MAX);
    let park = TaskCommand::Park { generation, directory, label, holder: None, place, because };
    draft.tell_task(id, park).map(drop)
}

/// The command of a report that concerns the task's stream alone.
fn simple(body: &ReportBody, generation: u32) -> Option<TaskCommand> {
    Some(match body.clone() {
        ReportBody::Receipt {} => TaskCommand::Receive { generation },
        ReportBody::Prepared { place, work_dir, env_root, sidecars, git } => {
            TaskCommand::Prepared(Prepared { generation, place, work_dir, env_root, sidecars, git })
        }
        ReportBody::Start {} => TaskCommand::Start { generation },
        ReportBody::ProcessStarted { pid, program } => {
            TaskCommand::ProcessStarted(ProcessStarted { generation, pid, program })
        }
        ReportBody::Session { session_id } => TaskCommand::PinSession { generation, session_id },
        ReportBody::Usage { usage } => TaskCommand::RecordUsage { generation, usage },
        ReportBody::CancelReceived {} => TaskCommand::CancelReceived { generation },
        ReportBody::ProcessExited { code, signal, killed } => {
            TaskCommand::ProcessExited(ProcessExited { generation, code, signal, killed })
        }
        ReportBody::SidecarsLeft { paths } => TaskCommand::SidecarsLeft(Sidecars { generation, paths }),
        ReportBody::SidecarsRemoved { paths } => TaskCommand::SidecarsRemoved(Sidecars { generation, paths }),
        ReportBody::Finalized { git } => TaskCommand::Finalized(Finalized { generation, git }),
        ReportBody::EnterDirectory { .. }
        | ReportBody::DirectoryLock { .. }
        | ReportBody::Complete { .. }
        | ReportBody::Fail { .. }
        | ReportBody::CancelAck { .. }
        | ReportBody::Return { .. } => return None,
    })
}
