//! A claimed task asks for its directory: it gets it, or is parked in the directory's queue.
//!
//! Invariants: the directory's and the task's events are one append; a parked task has no slot; a
//! repeated request gets the same answer; an ended task gets nothing.

use serde_json::{Value, json};

use super::decision::{Decided, Decision, Halt, View};
use super::directory_promote::promote_first;
use super::draft::Draft;
use super::load;
use crate::domain::Refusal;
use crate::domain::directory::{DirectoryCommand, Place};
use crate::domain::task::{Claim, ParkedBecause, Phase, Task, TaskCommand};
use crate::kernel::ids::{DirectoryId, TaskId, WorkspaceId};

/// See the module.
pub struct TaskEnterDirectory {
    /// Whose task.
    pub workspace: WorkspaceId,
    /// The task.
    pub task: TaskId,
    /// The claim.
    pub generation: u32,
    /// The directory.
    pub directory: DirectoryId,
    /// What the machine found there.
    pub place: Place,
    /// Slots of a daemon.
    pub daemon_slots: u32,
}

impl Decision for TaskEnterDirectory {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let task = draft.needed_task(self.task)?;
        let grant = match &task.phase {
            Phase::Ended { .. } => Value::Null,
            // A repeat under a new ordinal.
            Phase::Parked(claim) | Phase::Running(claim)
                if claim.generation == self.generation && claim.directory == Some(self.directory) =>
            {
                self.grant(&mut draft)?
            }
            Phase::Queued | Phase::Dispatched(_) | Phase::Parked(_) | Phase::Running(_) => {
                self.enter(&mut draft, &task)?
            }
        };
        let mut result = draft.standing(self.task)?;
        result["grant"] = grant;
        Ok(draft.finish(result))
    }
}

impl TaskEnterDirectory {
    fn enter(&self, draft: &mut Draft<'_>, task: &Task) -> Result<Value, Halt> {
        // Asked of the task first: a stale or unreceived claim must not touch the directory.
        let may = TaskCommand::Enter {
            generation: self.generation,
            directory: self.directory,
            label: self.place.label.clone(),
        };
        crate::domain::task::decide::decide(Some(task), may.clone())?;
        let Some(claim) = task.claim().cloned() else { return Ok(Value::Null) };
        self.check_machine(draft, &claim)?;
        // Its path leads elsewhere since it was parked: the old place is given up.
        if let Some(old) = claim.directory.filter(|old| *old != self.directory) {
            draft.tell_directory(
                old,
                DirectoryCommand::Leave { task: self.task, reason: "moved".to_owned() },
            )?;
            promote_first(draft, old, self.daemon_slots, None)?;
        }
        draft.tell_directory(
            self.directory,
            DirectoryCommand::Enter {
                task: self.task,
                generation: self.generation,
                agent: task.facts.agent,
                daemon: claim.daemon,
                place: self.place.clone(),
            },
        )?;
        let state = draft.directory(self.directory)?.cloned();
        let place = state.as_ref().and_then(|directory| directory.place_in_line(self.task));
        match place {
            None => draft.tell_task(self.task, may)?,
            Some(place) => draft.tell_task(
                self.task,
                TaskCommand::Park {
                    generation: self.generation,
                    directory: self.directory,
                    label: self.place.label.clone(),
                    holder: state.and_then(|directory| directory.holder).map(|holder| holder.who.task),
                    place: u32::try_from(place).unwrap_or(u32::MAX),
                    because: ParkedBecause::Held,
                },
            )?,
        };
        self.grant(draft)
    }

    fn grant(&self, draft: &mut Draft<'_>) -> Result<Value, Halt> {
        let place = draft.directory(self.directory)?.and_then(|directory| directory.place_in_line(self.task));
        Ok(place
            .map_or_else(|| json!({"grant": "acquired"}), |place| json!({"grant": "queued", "place": place})))
    }

    fn check_machine(&self, draft: &Draft<'_>, claim: &Claim) -> Result<(), Halt> {
        let Some(daemon) = load::daemon(draft.view, self.workspace, &claim.daemon)? else {
            return Err(Refusal::not_found("daemon").into());
        };
        if daemon.facts.machine != self.place.machine {
            return Err(Refusal::conflict(
                "other_machine",
                "the directory is on another machine than the task's daemon",
                "Register the daemon again, then enter the directory.",
            )
            .into());
        }
        Ok(())
    }
}
