//! Folds the events of one stream of operations.

use super::event::OperationEvent;
use super::state::Operation;
use super::{NOWHERE, STREAM};
use crate::domain::folding::fold_stream;
use crate::domain::{Envelope, Event, Family, Impossible, StreamKey};
use crate::kernel::ids::{WorkspaceId, digest_uuid};

/// The stream of a workspace's operations; of the installation's own when it is [`NOWHERE`].
#[must_use]
pub fn stream(workspace: WorkspaceId) -> StreamKey {
    // A workspace's own stream has its id.
    let id = if workspace == NOWHERE { STREAM } else { digest_uuid(&[b"operation", workspace.0.as_bytes()]) };
    StreamKey::new(Family::Operation, id)
}

/// Folds a whole stream; none when it is empty.
///
/// # Errors
/// [`Impossible`] when an event can't follow what came before.
pub fn fold(events: &[Envelope]) -> Result<Option<Operation>, Impossible> {
    fold_stream(
        events,
        |event| match event {
            Event::Operation(event) => Some(event),
            _ => None,
        },
        |state, event, _| evolve(state, event),
    )
}

/// Applies one event; none when it can't follow.
#[must_use]
pub fn evolve(operation: Option<Operation>, event: &OperationEvent) -> Option<Operation> {
    let mut operation = match (operation, event) {
        (
            None,
            OperationEvent::Started(_)
            | OperationEvent::ExportMade(_)
            | OperationEvent::Erased(_)
            | OperationEvent::TranscriptsRemoved(_),
        ) => Operation::default(),
        (None, _) => return None,
        (Some(operation), _) => operation,
    };
    match event {
        OperationEvent::Started(e) => {
            operation.instance_key_id.clone_from(&e.instance_key_id);
            operation.version.clone_from(&e.version);
            operation.starts += 1;
        }
        OperationEvent::ReadModelRebuilt(e) => {
            operation.skipped.remove(&e.read_model);
        }
        OperationEvent::EventSkipped(e) => {
            operation.skipped.entry(e.read_model.clone()).or_default().insert(e.position);
        }
        OperationEvent::Verified(e) => {
            operation.verified_up_to = e.up_to;
            operation.found = e.found;
            operation.findings.clone_from(&e.findings);
        }
        OperationEvent::Sealed(e) => operation.sealed_up_to = operation.sealed_up_to.max(e.up_to),
        OperationEvent::ExportMade(_) => operation.exports += 1,
        OperationEvent::Erased(e) => operation.erased += e.contents.len() as u64,
        OperationEvent::TranscriptsRemoved(e) => operation.transcripts_removed += e.transcripts.len() as u64,
    }
    Some(operation)
}
