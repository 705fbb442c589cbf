//! Somebody ends a task.
//!
//! Invariants: the task is terminal at once; a directory that nothing runs in is free in the same
//! append (parked, or not yet received); one in which something may run stays held until its machine
//! has reported; a repeat writes nothing.

use super::decision::{Decided, Decision, Halt, View};
use super::directory_promote::promote_first;
use super::draft::Draft;
use crate::domain::directory::DirectoryCommand;
use crate::domain::task::{Phase, TaskCommand};
use crate::kernel::ids::{TaskId, WorkspaceId};

/// See the module.
pub struct TaskCancel {
    /// Whose task.
    pub workspace: WorkspaceId,
    /// The task.
    pub task: TaskId,
    /// The failure reason, when the server does it.
    pub reason: Option<String>,
    /// Slots of a daemon.
    pub daemon_slots: u32,
}

impl Decision for TaskCancel {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        cancel(&mut draft, self.task, self.reason.clone(), self.daemon_slots)?;
        let standing = draft.standing(self.task)?;
        Ok(draft.finish(standing))
    }
}

/// Cancels a task inside a larger command.
///
/// # Errors
/// [`Halt`]: the task isn't there, or facts are missing.
pub fn cancel(
    draft: &mut Draft<'_>,
    id: TaskId,
    reason: Option<String>,
    daemon_slots: u32,
) -> Result<(), Halt> {
    let before = draft.needed_task(id)?;
    draft.tell_task(id, TaskCommand::Cancel { reason })?;
    let free_at_once = match &before.phase {
        Phase::Parked(claim) => claim.directory,
        Phase::Dispatched(claim) if !claim.received => claim.directory,
        Phase::Queued | Phase::Dispatched(_) | Phase::Running(_) | Phase::Ended { .. } => None,
    };
    if let Some(directory) = free_at_once {
        let reason = "cancelled".to_owned();
        draft.tell_directory(directory, DirectoryCommand::Leave { task: id, reason })?;
        promote_first(draft, directory, daemon_slots, None)?;
    }
    Ok(())
}
