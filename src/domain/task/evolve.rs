//! Folds a task's events.

use super::event::{Claimed, TaskEvent};
use super::state::{Claim, Fact, Outcome, Phase, Task};
use crate::domain::folding::fold_stream;
use crate::domain::{Envelope, Event, Family, Impossible, StreamKey};
use crate::kernel::ids::TaskId;

/// The stream of a task.
#[must_use]
pub fn stream(id: TaskId) -> StreamKey {
    StreamKey::new(Family::Task, id)
}

/// Folds a whole stream; none when it is empty.
///
/// # Errors
/// [`Impossible`] when an event can't follow what came before.
pub fn fold(events: &[Envelope]) -> Result<Option<Task>, Impossible> {
    fold_stream(
        events,
        |event| match event {
            Event::Task(event) => Some(event),
            _ => None,
        },
        |state, event, envelope| evolve(TaskId(envelope.stream.id), state, event),
    )
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
            told_to_stop: None,
        });
    };
    match event {
        TaskEvent::Queued(_) => return None,
        TaskEvent::PrepareFailed(_) => {}
        TaskEvent::CancelRequested(e) => task.told_to_stop = e.generation,
        TaskEvent::LateReportRecorded(e) => task.late.push((e.generation, e.kind.clone())),
        TaskEvent::Retried(e) => task.retried_by = Some(e.by),
        TaskEvent::CancelReceived(e) => task.reported.push((e.generation, Fact::CancelReceived)),
        TaskEvent::ProcessStarted(e) => task.reported.push((e.generation, Fact::ProcessStarted)),
        TaskEvent::ProcessExited(e) => task.reported.push((e.generation, Fact::ProcessExited)),
        TaskEvent::Finalized(e) => task.reported.push((e.generation, Fact::Finalized)),
        TaskEvent::SidecarsLeft(e) => task.reported.push((e.generation, Fact::SidecarsLeft)),
        TaskEvent::SidecarsRemoved(e) => task.reported.push((e.generation, Fact::SidecarsRemoved)),
        TaskEvent::CancelAcknowledged(e) => task.reported.push((e.generation, Fact::CancelAcknowledged)),
        TaskEvent::ClaimReceived(_) => claim_mut(&mut task.phase)?.received = true,
        TaskEvent::SessionPinned(e) => claim_mut(&mut task.phase)?.session_id = Some(e.session_id.clone()),
        TaskEvent::UsageRecorded(e) => claim_mut(&mut task.phase)?.usage.clone_from(&e.usage),
        TaskEvent::Prepared(e) => claim_mut(&mut task.phase)?.place = Some(e.place),
        TaskEvent::DirectoryEntered(e) => claim_mut(&mut task.phase)?.directory = Some(e.directory),
        TaskEvent::Claimed(_)
        | TaskEvent::ClaimReleased(_)
        | TaskEvent::Parked(_)
        | TaskEvent::Promoted(_)
        | TaskEvent::Started(_)
        | TaskEvent::Cancelled(_)
        | TaskEvent::Completed(_)
        | TaskEvent::Failed(_) => {
            task.phase = next_phase(task.phase, task.generation, event)?;
            if let TaskEvent::Claimed(e) = event {
                task.generation = e.generation;
            }
        }
    }
    Some(task)
}

/// Where a task stands after an event that moves it; none when it can't move so. Nothing leaves the end.
fn next_phase(phase: Phase, generation: u32, event: &TaskEvent) -> Option<Phase> {
    match (phase, event) {
        (Phase::Queued, TaskEvent::Claimed(e)) if e.generation == generation + 1 => {
            Some(Phase::Dispatched(fresh(e)))
        }
        (Phase::Dispatched(_), TaskEvent::ClaimReleased(_)) => Some(Phase::Queued),
        (Phase::Dispatched(mut claim), TaskEvent::Parked(e)) => {
            claim.directory = Some(e.directory);
            claim.promoted = false;
            claim.parked = Some(e.because);
            Some(Phase::Parked(claim))
        }
        (Phase::Parked(mut claim), TaskEvent::Parked(e)) => {
            claim.directory = Some(e.directory);
            claim.parked = Some(e.because);
            Some(Phase::Parked(claim))
        }
        (Phase::Parked(mut claim), TaskEvent::Promoted(e)) => {
            claim.directory = Some(e.directory);
            claim.promoted = true;
            claim.received = false;
            claim.parked = None;
            Some(Phase::Dispatched(claim))
        }
        (Phase::Dispatched(claim), TaskEvent::Started(_)) => Some(Phase::Running(claim)),
        (Phase::Running(claim), TaskEvent::Completed(e)) => {
            Some(ended(Some(claim), Outcome::Completed { ending: e.ending.clone() }))
        }
        (phase, TaskEvent::Failed(e)) => {
            let outcome = Outcome::Failed { reason: e.reason.clone(), ending: e.ending.clone() };
            Some(ended(live_claim(phase)?, outcome))
        }
        (phase, TaskEvent::Cancelled(e)) => {
            Some(ended(live_claim(phase)?, Outcome::Cancelled { reason: e.reason.clone() }))
        }
        _ => None,
    }
}

fn fresh(e: &Claimed) -> Claim {
    Claim {
        generation: e.generation,
        daemon: e.daemon.clone(),
        runtime: e.runtime,
        incarnation: e.incarnation,
        received: false,
        directory: None,
        promoted: false,
        place: None,
        session_id: None,
        parked: None,
        usage: Vec::new(),
    }
}

const fn ended(claim: Option<Claim>, outcome: Outcome) -> Phase {
    Phase::Ended { outcome, claim }
}

/// The claim of a task that isn't over; the outer none when it is.
#[expect(clippy::option_option, reason = "over, live without a claim, live with one")]
fn live_claim(phase: Phase) -> Option<Option<Claim>> {
    match phase {
        Phase::Queued => Some(None),
        Phase::Dispatched(claim) | Phase::Parked(claim) | Phase::Running(claim) => Some(Some(claim)),
        Phase::Ended { .. } => None,
    }
}

fn claim_mut(phase: &mut Phase) -> Option<&mut Claim> {
    match phase {
        Phase::Queued => None,
        Phase::Dispatched(claim) | Phase::Parked(claim) | Phase::Running(claim) => Some(claim),
        Phase::Ended { claim, .. } => claim.as_mut(),
    }
}
