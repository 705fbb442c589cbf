//! Folds a task's events.

use super::event::TaskEvent;
use super::state::{Claim, Fact, Outcome, Phase, Task};
use crate::domain::{Envelope, Event, Family, Impossible, StreamKey};
use crate::kernel::ids::TaskId;

/// Folds a whole stream; none when it is empty.
///
/// # Errors
/// [`Impossible`] when an event can't follow what came before.
pub fn fold(events: &[Envelope]) -> Result<Option<Task>, Impossible> {
    let mut task = None;
    for envelope in events {
        let Event::Task(event) = &envelope.event else {
            return Err(impossible(envelope, "not a task's event"));
        };
        let id = TaskId(envelope.stream.id);
        task = Some(evolve(id, task, event).ok_or_else(|| impossible(envelope, name(event)))?);
    }
    Ok(task)
}

fn impossible(envelope: &Envelope, what: &str) -> Impossible {
    Impossible { stream: envelope.stream, version: envelope.version, event_type: what.to_owned() }
}

fn name(event: &TaskEvent) -> &'static str {
    match event {
        TaskEvent::Queued(_) => "task.queued",
        TaskEvent::Claimed(_) => "task.claimed",
        TaskEvent::Parked(_) => "task.parked",
        TaskEvent::Promoted(_) => "task.promoted",
        _ => "task event",
    }
}

/// The stream of a task.
#[must_use]
pub fn stream(id: TaskId) -> StreamKey {
    StreamKey::new(Family::Task, id)
}

/// Applies one event; none when it can't follow.
#[must_use]
pub fn evolve(id: TaskId, task: Option<Task>, event: &TaskEvent) -> Option<Task> {
    let Some(mut task) = task else {
        let TaskEvent::Queued(facts) = event else { return None };
        return Some(Task {
            id,
            facts: facts.clone(),
            generation: 0,
            phase: Phase::Queued,
            reported: Vec::new(),
            late: Vec::new(),
            retried_by: None,
        });
    };
    match event {
        TaskEvent::Queued(_) => return None,
        TaskEvent::PrepareFailed(_) | TaskEvent::CancelRequested(_) | TaskEvent::UsageRecorded(_) => {}
        TaskEvent::LateReportRecorded(e) => task.late.push((e.generation, e.kind.clone())),
        TaskEvent::Retried(e) => task.retried_by = Some(e.by),
        TaskEvent::CancelReceived(e) => task.reported.push((e.generation, Fact::CancelReceived)),
        TaskEvent::ProcessStarted(e) => task.reported.push((e.generation, Fact::ProcessStarted)),
        TaskEvent::ProcessExited(e) => task.reported.push((e.generation, Fact::ProcessExited)),
        TaskEvent::Finalized(e) => task.reported.push((e.generation, Fact::Finalized)),
        TaskEvent::SidecarsLeft(e) => task.reported.push((e.generation, Fact::SidecarsLeft)),
        TaskEvent::SidecarsRemoved(e) => task.reported.push((e.generation, Fact::SidecarsRemoved)),
        TaskEvent::CancelAcknowledged(e) => task.reported.push((e.generation, Fact::CancelAcknowledged)),
        TaskEvent::Claimed(e) => {
            task.generation = e.generation;
            task.phase = Phase::Dispatched(Claim {
                generation: e.generation,
                daemon: e.daemon.clone(),
                runtime: e.runtime,
                incarnation: e.incarnation,
                received: false,
                directory: None,
                promoted: false,
                place: None,
                session_id: None,
            });
        }
        _ => return evolve_claimed(task, event),
    }
    Some(task)
}

/// Events that need a claim, or end the task.
fn evolve_claimed(mut task: Task, event: &TaskEvent) -> Option<Task> {
    if let Some(claim) = claim_mut(&mut task.phase) {
        match event {
            TaskEvent::ClaimReceived(_) => claim.received = true,
            TaskEvent::SessionPinned(e) => claim.session_id = Some(e.session_id.clone()),
            TaskEvent::Prepared(e) => claim.place = Some(e.place),
            TaskEvent::DirectoryEntered(e) => claim.directory = Some(e.directory),
            _ => {}
        }
    }
    task.phase = match (task.phase, event) {
        (Phase::Dispatched(_), TaskEvent::ClaimReleased(_)) => Phase::Queued,
        (Phase::Dispatched(mut claim) | Phase::Parked(mut claim), TaskEvent::Parked(e)) => {
            claim.directory = Some(e.directory);
            claim.promoted = false;
            Phase::Parked(claim)
        }
        (Phase::Parked(mut claim), TaskEvent::Promoted(e)) => {
            claim.directory = Some(e.directory);
            claim.promoted = true;
            claim.received = false;
            Phase::Dispatched(claim)
        }
        (Phase::Dispatched(claim), TaskEvent::Started(_)) => Phase::Running(claim),
        (Phase::Queued, TaskEvent::Cancelled(_) | TaskEvent::Failed(_)) => ended(None, event)?,
        (
            Phase::Dispatched(claim) | Phase::Parked(claim) | Phase::Running(claim),
            TaskEvent::Cancelled(_) | TaskEvent::Failed(_) | TaskEvent::Completed(_),
        ) => ended(Some(claim), event)?,
        (
            phase,
            TaskEvent::ClaimReceived(_)
            | TaskEvent::SessionPinned(_)
            | TaskEvent::Prepared(_)
            | TaskEvent::DirectoryEntered(_),
        ) => phase,
        _ => return None,
    };
    Some(task)
}

fn ended(claim: Option<Claim>, event: &TaskEvent) -> Option<Phase> {
    let outcome = match event {
        TaskEvent::Completed(e) => Outcome::Completed { ending: e.ending.clone() },
        TaskEvent::Failed(e) => Outcome::Failed { reason: e.reason.clone(), ending: e.ending.clone() },
        TaskEvent::Cancelled(e) => Outcome::Cancelled { reason: e.reason.clone() },
        _ => return None,
    };
    Some(Phase::Ended { outcome, claim })
}

fn claim_mut(phase: &mut Phase) -> Option<&mut Claim> {
    match phase {
        Phase::Queued => None,
        Phase::Dispatched(claim) | Phase::Parked(claim) | Phase::Running(claim) => Some(claim),
        Phase::Ended { claim, .. } => claim.as_mut(),
    }
}
