//! A daemon registers, and says which claims its machine knows of.
//!
//! Invariants: what a machine that comes back has no record of ends in the same append, because nobody will ever
//! report it; only the first registration of a process concludes so (later, claims may be on their way to it), and
//! only one that lists its claims; what waits for a directory keeps its place, who waited on the
//! machine for a foreign lock too: it is called again, because nobody waits there any more.
//!
//! Not here: machines that don't come back (`task_sweep`), what ends with a task (`task_outcome`).

use serde_json::json;

use super::daemon_write::tell;
use super::decision::{Decided, Decision, Halt, View};
use super::directory_promote::promote_first;
use super::draft::Draft;
use super::load;
use super::task_outcome::{Failure, fail};
use super::task_report::back_in_line;
use crate::domain::daemon::{DaemonCommand, Registration};
use crate::domain::directory::DirectoryCommand;
use crate::domain::task::{Claim, Ending, ParkedBecause, Phase, Task};
use crate::kernel::ids::{DirectoryId, TaskId};

/// The reason of a run that was interrupted.
const INTERRUPTED: &str = "runtime_recovery";

/// A daemon registers.
pub struct DaemonRegister {
    /// What it says of itself.
    pub registration: Registration,
    /// The claims that its machine knows of; none when it doesn't say.
    pub claims: Option<Vec<(TaskId, u32)>>,
    /// Tasks it was seen to have, each with the id of a run in its stead.
    pub tasks: Vec<(TaskId, TaskId)>,
    /// Directories it was seen to hold, with the holding task.
    pub directories: Vec<(DirectoryId, TaskId)>,
    /// Slots of a daemon.
    pub daemon_slots: u32,
}

impl Decision for DaemonRegister {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let said = &self.registration;
        let mut draft = Draft::new(view, said.workspace);
        let known = load::daemon(view, said.workspace, &said.daemon)?;
        tell(&mut draft, &said.daemon, DaemonCommand::Register(said.clone()))?;
        let comes_back = known.is_some_and(|known| known.facts.incarnation != said.incarnation);
        if let Some(claims) = self.claims.as_ref().filter(|_| comes_back) {
            self.end_forgotten(&mut draft, claims)?;
        }
        Ok(draft.finish(json!({"daemon": said.daemon})))
    }
}

impl DaemonRegister {
    fn end_forgotten(&self, draft: &mut Draft<'_>, claims: &[(TaskId, u32)]) -> Result<(), Halt> {
        let mut forgotten = Vec::new();
        for (id, retry) in &self.tasks {
            // One whose own log is damaged keeps no machine from coming back.
            let Some(Some(task)) = load::if_readable(draft.task(*id).map(|task| task.cloned()))? else {
                continue;
            };
            match self.left(&task, claims) {
                Left::Nothing => {}
                Left::Run => {
                    let failure = Failure {
                        generation: None,
                        reason: INTERRUPTED,
                        detail: None,
                        ending: Ending::default(),
                        retry: *retry,
                        last_word: None,
                    };
                    load::if_readable(fail(draft, *id, failure))?;
                    forgotten.push(*id);
                }
                Left::Wait => {
                    load::if_readable(back_in_line(draft, *id, self.daemon_slots))?;
                }
            }
        }
        for (directory, task) in self.directories.iter().filter(|(_, task)| forgotten.contains(task)) {
            load::if_readable(self.release(draft, *directory, *task))?;
        }
        Ok(())
    }

    /// What a task leaves when its machine knows nothing of it.
    fn left(&self, task: &Task, claims: &[(TaskId, u32)]) -> Left {
        let forgotten = |claim: &Claim| {
            claim.daemon == self.registration.daemon
                && claim.incarnation != self.registration.incarnation
                && claim.received
                && !claims.contains(&(task.id, claim.generation))
        };
        match &task.phase {
            // Without a receipt its own clock ends it, or the order to go on is given again.
            Phase::Dispatched(claim) | Phase::Running(claim) if forgotten(claim) => Left::Run,
            Phase::Parked(claim) if claim.parked == Some(ParkedBecause::ForeignLock) && forgotten(claim) => {
                Left::Wait
            }
            Phase::Queued
            | Phase::Dispatched(_)
            | Phase::Parked(_)
            | Phase::Running(_)
            | Phase::Ended { .. } => Left::Nothing,
        }
    }

    fn release(&self, draft: &mut Draft<'_>, directory: DirectoryId, task: TaskId) -> Result<(), Halt> {
        let holder = draft.directory(directory)?.and_then(|state| state.holder.as_ref());
        let held = holder
            .is_some_and(|holder| holder.who.task == task && holder.who.daemon == self.registration.daemon);
        if held {
            // An agent of it may be at work: the lock on the machine keeps the next one waiting until it is gone.
            draft.tell_directory(directory, DirectoryCommand::LoseHolder { task })?;
            promote_first(draft, directory, self.daemon_slots, None)?;
        }
        Ok(())
    }
}

/// What a task leaves when its machine knows nothing of it.
enum Left {
    /// Nothing, or the machine does know of it.
    Nothing,
    /// A run that nobody will report.
    Run,
    /// A granted directory, and a wait for a foreign lock there whose end nobody will tell.
    Wait,
}
