//! What the installation allows.

use super::command::OperationCommand;
use super::event::{EventSkipped, OperationEvent, Started};
use super::state::Operation;
use crate::domain::Refusal;

/// What is refused, or what happens: no events when nothing does.
pub type Decision = Result<Vec<OperationEvent>, Refusal>;

/// Decides one command; `None` is an installation that never started, or a workspace that nothing was taken
/// from.
///
/// # Errors
/// `instance_key_mismatch`, `not_found`.
pub fn decide(operation: Option<&Operation>, command: OperationCommand) -> Decision {
    match (operation, command) {
        (operation, OperationCommand::Start(started)) => start(operation, started),
        (
            None,
            OperationCommand::RecordRebuild(_)
            | OperationCommand::RecordSkip(_)
            | OperationCommand::RecordVerified(_)
            | OperationCommand::RecordSealed(_),
        ) => Err(Refusal::not_found("installation")),
        (Some(_), OperationCommand::RecordRebuild(e)) => Ok(vec![OperationEvent::ReadModelRebuilt(e)]),
        (Some(operation), OperationCommand::RecordSkip(e)) => Ok(skip(operation, e)),
        (Some(_), OperationCommand::RecordVerified(e)) => Ok(vec![OperationEvent::Verified(e)]),
        (Some(_), OperationCommand::RecordSealed(e)) => Ok(vec![OperationEvent::Sealed(e)]),
        (_, OperationCommand::RecordExport(e)) => Ok(vec![OperationEvent::ExportMade(e)]),
        (_, OperationCommand::Erase(e)) if e.contents.is_empty() && e.transcripts.is_empty() => {
            Ok(Vec::new())
        }
        (_, OperationCommand::Erase(e)) => Ok(vec![OperationEvent::Erased(e)]),
        (_, OperationCommand::RemoveTranscripts(e)) if e.transcripts.is_empty() => Ok(Vec::new()),
        (_, OperationCommand::RemoveTranscripts(e)) => Ok(vec![OperationEvent::TranscriptsRemoved(e)]),
    }
}

fn start(operation: Option<&Operation>, started: Started) -> Decision {
    if operation.is_some_and(|operation| operation.instance_key_id != started.instance_key_id) {
        return Err(Refusal::conflict(
            "instance_key_mismatch",
            "this server's instance key isn't the one that the log was begun with",
            "Give the server the key file of this installation (MULTICA_INSTANCE_KEY_FILE).",
        ));
    }
    Ok(vec![OperationEvent::Started(started)])
}

fn skip(operation: &Operation, event: EventSkipped) -> Vec<OperationEvent> {
    let before = operation.skipped.get(&event.read_model).is_some_and(|all| all.contains(&event.position));
    if before { Vec::new() } else { vec![OperationEvent::EventSkipped(event)] }
}
