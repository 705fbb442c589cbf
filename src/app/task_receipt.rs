//! A claim or promotion has arrived at its daemon.

use super::decision::{Decided, Decision, Halt, View};
use super::draft::Draft;
use crate::domain::task::TaskCommand;
use crate::kernel::ids::{TaskId, WorkspaceId};

/// Accepts the receipt of a claim; nothing may be done on the machine before.
pub struct TaskReceipt {
    /// Whose task.
    pub workspace: WorkspaceId,
    /// The task.
    pub task: TaskId,
    /// The claim.
    pub generation: u32,
}

impl Decision for TaskReceipt {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        draft.tell_task(self.task, TaskCommand::Receive { generation: self.generation })?;
        let standing = draft.standing(self.task)?;
        Ok(draft.finish(standing))
    }
}
