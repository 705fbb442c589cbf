//! What is recorded of the installation itself.

use serde_json::json;

use super::decision::{Decided, Decision, Halt, NewEvent, View};
use crate::domain::operation::{self, OperationCommand, STREAM};
use crate::domain::{Family, StreamKey};
use crate::kernel::ids::WorkspaceId;

/// The workspace of the installation's own events: none.
pub const NOWHERE: WorkspaceId = WorkspaceId(uuid::Uuid::nil());

/// One command on the installation's stream.
pub struct OperationWrite {
    /// What is asked.
    pub command: OperationCommand,
}

impl Decision for OperationWrite {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let stream = StreamKey::new(Family::Operation, STREAM);
        let state = operation::evolve::fold(view.stream(stream)?)?;
        let events = operation::decide::decide(state.as_ref(), self.command.clone())?;
        let events = events.into_iter().map(|event| NewEvent::new(stream, event)).collect();
        Ok(Decided { events, contents: Vec::new(), result: json!({}) })
    }
}
