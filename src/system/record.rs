//! What a server writes into the log of its own accord when it starts.

use super::{SystemError, VERSION};
use crate::app::AppError;
use crate::app::decision::{Committed, Decision, Submission};
use crate::app::operation_write::OperationWrite;
use crate::domain::operation::{EventSkipped, NOWHERE, OperationCommand, Started};
use crate::domain::{Actor, ActorKind, Via};
use crate::http::App;
use crate::kernel::ids::{CommandId, CorrelationId, EventId, WorkspaceId};
use crate::readmodel::query;

/// Submits a decision of the server's own.
pub(super) async fn submit(
    app: &App,
    kind: &'static str,
    workspace: WorkspaceId,
    decision: impl Decision,
) -> Result<Committed, AppError> {
    let id = app.world.uuid_v7();
    app.writer
        .submit(Submission {
            command_id: CommandId(id),
            event_seed: EventId(app.world.uuid_v7()),
            kind,
            workspace,
            fingerprint: [0; 16],
            actor: Actor { kind: ActorKind::System, id: "up".to_owned(), via: Via::Up },
            correlation: CorrelationId(id),
            causation: None,
            occurred_at: app.world.now(),
            decision: Box::new(decision),
        })
        .await
}

/// Says in the log that this server has started.
pub(super) async fn record_start(app: &App) -> Result<(), AppError> {
    let command = OperationCommand::Start(Started {
        version: VERSION.to_owned(),
        instance_key_id: app.key.id().to_owned(),
    });
    submit(app, "operation.start", NOWHERE, OperationWrite { workspace: NOWHERE, command }).await?;
    Ok(())
}

/// Says in the log which events read models have passed over; what is known already is not said again.
pub(super) async fn record_passed_over(app: &App) -> Result<(), SystemError> {
    for standing in query::standings(&app.store).await? {
        let passed = standing.stopped_at.zip(standing.stop_reason);
        if let (true, "active", Some((position, reason))) =
            (standing.degraded, standing.state.as_str(), passed)
        {
            let skipped = EventSkipped { read_model: standing.name, position, reason };
            let command = OperationCommand::RecordSkip(skipped);
            submit(app, "operation.skip", NOWHERE, OperationWrite { workspace: NOWHERE, command }).await?;
        }
    }
    Ok(())
}
