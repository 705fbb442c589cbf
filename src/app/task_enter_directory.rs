//! A claimed task asks for its directory: it gets it, or is parked in the directory's queue.
//!
//! Invariants: the directory's and the task's events are one append; a parked task has no slot; a
//! repeated request gets the same answer; an ended task gets nothing; who comes by another path of a directory
//! that is taken joins its queue (when two come at the same moment by two paths, only the lock keeps them apart).

use serde_json::{Value, json};

use super::decision::{Decided, Decision, Halt, View};
use super::directory_promote::promote_first;
use super::draft::Draft;
use super::load;
use crate::domain::Refusal;
use crate::domain::directory::{Directory, DirectoryCommand, Place};
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
    /// Other directories that are the same one by another path, as far as known; judged again here.
    pub same: Vec<DirectoryId>,
    /// Slots of a daemon.
    pub daemon_slots: u32,
}

impl Decision for TaskEnterDirectory {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let task = draft.needed_task(self.task)?;
        let directory = self.joined(&mut draft, &task)?;
        let grant = match &task.phase {
            Phase::Ended { .. } => Value::Null,
            // A repeat under a new ordinal.
            Phase::Parked(claim) | Phase::Running(claim)
                if claim.generation == self.generation && claim.directory == Some(directory) =>
            {
                self.grant(&mut draft, directory)?
            }
            Phase::Queued | Phase::Dispatched(_) | Phase::Parked(_) | Phase::Running(_) => {
                self.enter(&mut draft, &task, directory)?
            }
        };
        let mut result = draft.standing(self.task)?;
        result["grant"] = grant;
        Ok(draft.finish(result))
    }
}

impl TaskEnterDirectory {
    /// The directory whose queue it is: the path's own, or the one that this directory is known as for as long as
    /// that has a holder or a queue.
    fn joined(&self, draft: &mut Draft<'_>, task: &Task) -> Result<DirectoryId, Halt> {
        let at_present = task.claim().and_then(|claim| claim.directory);
        let own = draft.directory(self.directory)?.is_some_and(Directory::is_busy);
        let others = if own { &[] } else { self.same.as_slice() };
        for id in at_present.iter().chain(others) {
            let other = draft.directory(*id)?;
            if other.is_some_and(|other| other.is_busy() && other.place.is_same_directory(&self.place)) {
                return Ok(*id);
            }
        }
        Ok(self.directory)
    }

    fn enter(&self, draft: &mut Draft<'_>, task: &Task, directory: DirectoryId) -> Result<Value, Halt> {
        // Asked of the task first: a stale or unreceived claim must not touch the directory.
        let may =
            TaskCommand::Enter { generation: self.generation, directory, label: self.place.label.clone() };
        crate::domain::task::decide::decide(Some(task), may.clone())?;
        let Some(claim) = task.claim().cloned() else { return Ok(Value::Null) };
        self.check_machine(draft, &claim)?;
        // Its path leads elsewhere since it was parked: the old place is given up.
        if let Some(old) = claim.directory.filter(|old| *old != directory) {
            draft.tell_directory(
                old,
                DirectoryCommand::Leave { task: self.task, reason: "moved".to_owned() },
            )?;
            promote_first(draft, old, self.daemon_slots, None)?;
        }
        draft.tell_directory(
            directory,
            DirectoryCommand::Enter {
                task: self.task,
                generation: self.generation,
                agent: task.facts.agent,
                daemon: claim.daemon,
                place: self.place.clone(),
            },
        )?;
        let state = draft.directory(directory)?.cloned();
        let place = state.as_ref().and_then(|directory| directory.place_in_line(self.task));
        match place {
            None => draft.tell_task(self.task, may)?,
            Some(place) => draft.tell_task(
                self.task,
                TaskCommand::Park {
                    generation: self.generation,
                    directory,
                    label: self.place.label.clone(),
                    holder: state.and_then(|directory| directory.holder).map(|holder| holder.who.task),
                    place: u32::try_from(place).unwrap_or(u32::MAX),
                    because: ParkedBecause::Held,
                },
            )?,
        };
        self.grant(draft, directory)
    }

    fn grant(&self, draft: &mut Draft<'_>, directory: DirectoryId) -> Result<Value, Halt> {
        let place = draft.directory(directory)?.and_then(|directory| directory.place_in_line(self.task));
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
