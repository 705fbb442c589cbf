//! What is recorded of the log itself, for the installation or one workspace.

use serde_json::json;

use super::decision::{Decided, Decision, Halt, NewEvent, View};
use crate::domain::operation::{self, OperationCommand};
use crate::kernel::ids::WorkspaceId;

/// One command on a stream of operations.
pub struct OperationWrite {
    /// Whose: the submission's workspace too.
    pub workspace: WorkspaceId,
    /// What is asked.
    pub command: OperationCommand,
}

impl Decision for OperationWrite {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let stream = operation::evolve::stream(self.workspace);
        let state = operation::evolve::fold(view.stream(stream)?)?;
        let events = operation::decide::decide(state.as_ref(), self.command.clone())?;
        let events = events.into_iter().map(|event| NewEvent::new(stream, event)).collect();
        Ok(Decided { events, contents: Vec::new(), result: json!({}) })
    }
}
