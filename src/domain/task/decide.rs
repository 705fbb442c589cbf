//! What a task allows.

use super::command::TaskCommand;
use super::event::{
    CancelAcknowledged, CancelRequested, Cancelled, ClaimReleased, Completed, DirectoryEntered, Failed,
    Generation, LateReportRecorded, Parked, ParkedBecause, PrepareFailed, Prepared, Promoted, Retried,
    SessionPinned, TaskEvent, UsageRecorded,
};
use super::state::{Claim, Fact, Outcome, Phase, Task};
use crate::domain::{ContentRef, Refusal};
use crate::kernel::ids::DirectoryId;

/// What is refused, or what happens: no events when nothing does.
pub type Decision = Result<Vec<TaskEvent>, Refusal>;

/// Decides one command on one task; `None` is a task that doesn't exist yet.
///
/// # Errors
/// A [`Refusal`]: `not_found`, `already_queued`, `already_claimed`, `stale_generation`,
/// `not_dispatched`, `not_received`, `not_parked`, `not_running`, `already_ended`.
pub fn decide(task: Option<&Task>, command: TaskCommand) -> Decision {
    let Some(task) = task else {
        return match command {
            TaskCommand::Queue(facts) => Ok(vec![TaskEvent::Queued(facts)]),
            _ => Err(Refusal::not_found("task")),
        };
    };
    match command {
        TaskCommand::Queue(facts) => queue(task, &facts),
        TaskCommand::Claim(command) => claim(task, command),
        TaskCommand::Receive { generation } => receive(task, generation),
        TaskCommand::ReleaseClaim { generation, reason } => release_claim(task, generation, reason),
        TaskCommand::Enter { generation, directory, label } => {
            enter(task, DirectoryEntered { generation, directory, label })
        }
        TaskCommand::Park { generation, directory, label, holder, place, because } => {
            park(task, Parked { generation, directory, label, holder, place, because })
        }
        TaskCommand::Promote { directory, agent_slot, daemon_slot } => {
            promote(task, directory, agent_slot, daemon_slot)
        }
        TaskCommand::Prepared(event) => prepared(task, event),
        TaskCommand::Start { generation } => start(task, generation),
        TaskCommand::PinSession { generation, session_id } => {
            pin_session(task, SessionPinned { generation, session_id })
        }
        TaskCommand::RecordUsage { generation, usage } => {
            record_usage(task, UsageRecorded { generation, usage })
        }
        TaskCommand::Cancel { reason } => Ok(cancel(task, reason)),
        TaskCommand::CancelReceived { generation } => fact(task, generation, Fact::CancelReceived, || {
            TaskEvent::CancelReceived(Generation { generation })
        }),
        TaskCommand::ProcessStarted(e) => {
            of_process(task, e.generation, Fact::ProcessStarted, || TaskEvent::ProcessStarted(e))
        }
        TaskCommand::ProcessExited(e) => {
            of_process(task, e.generation, Fact::ProcessExited, || TaskEvent::ProcessExited(e))
        }
        TaskCommand::Finalized(e) => fact(task, e.generation, Fact::Finalized, || TaskEvent::Finalized(e)),
        TaskCommand::SidecarsLeft(e) => {
            fact(task, e.generation, Fact::SidecarsLeft, || TaskEvent::SidecarsLeft(e))
        }
        TaskCommand::SidecarsRemoved(e) => {
            fact(task, e.generation, Fact::SidecarsRemoved, || TaskEvent::SidecarsRemoved(e))
        }
        TaskCommand::AcknowledgeCancel { generation, reason } => acknowledge(task, generation, reason),
        TaskCommand::Complete { generation, output, ending } => {
            complete(task, Completed { generation, output, ending })
        }
        TaskCommand::Fail { generation, reason, detail, ending } => {
            fail(task, Failed { generation, reason, detail, ending })
        }
        TaskCommand::MarkRetried { by } => Ok(match task.retried_by {
            Some(_) => Vec::new(),
            None => vec![TaskEvent::Retried(Retried { by })],
        }),
    }
}

fn queue(task: &Task, facts: &super::event::Queued) -> Decision {
    if task.facts == *facts {
        return Ok(Vec::new());
    }
    Err(Refusal::conflict(
        "already_queued",
        "this task exists already",
        "Look at it with `multica task show`.",
    ))
}

fn enter(task: &Task, event: DirectoryEntered) -> Decision {
    let Some(held) = dispatched(task, event.generation)? else { return Ok(Vec::new()) };
    if held.directory == Some(event.directory) {
        return Ok(Vec::new());
    }
    Ok(vec![TaskEvent::DirectoryEntered(event)])
}

fn promote(task: &Task, directory: DirectoryId, agent_slot: u32, daemon_slot: u32) -> Decision {
    match &task.phase {
        Phase::Parked(claim) => Ok(vec![TaskEvent::Promoted(Promoted {
            generation: claim.generation,
            directory,
            agent: task.facts.agent,
            daemon: claim.daemon.clone(),
            agent_slot,
            daemon_slot,
        })]),
        Phase::Queued | Phase::Dispatched(_) | Phase::Running(_) | Phase::Ended { .. } => {
            Err(not_in(task, "not_parked", "parked"))
        }
    }
}

fn prepared(task: &Task, event: Prepared) -> Decision {
    let Some(claim) = live(task, event.generation)? else { return Ok(Vec::new()) };
    if claim.place.is_some() {
        return Ok(Vec::new());
    }
    if !matches!(task.phase, Phase::Dispatched(_)) {
        return Err(not_in(task, "not_dispatched", "dispatched"));
    }
    if !claim.received {
        return Err(not_received());
    }
    Ok(vec![TaskEvent::Prepared(event)])
}

fn pin_session(task: &Task, event: SessionPinned) -> Decision {
    let known = task.claim().filter(|claim| claim.generation == event.generation);
    if known.and_then(|claim| claim.session_id.as_ref()) == Some(&event.session_id) {
        return Ok(Vec::new());
    }
    live_or_ended(task, event.generation, || TaskEvent::SessionPinned(event))
}

fn record_usage(task: &Task, event: UsageRecorded) -> Decision {
    if task.claim().is_some_and(|claim| claim.generation == event.generation && claim.usage == event.usage) {
        return Ok(Vec::new());
    }
    live_or_ended(task, event.generation, || TaskEvent::UsageRecorded(event))
}

fn complete(task: &Task, event: Completed) -> Decision {
    match &task.phase {
        Phase::Running(claim) => {
            current(task, claim, event.generation)?;
            Ok(vec![TaskEvent::Completed(event)])
        }
        Phase::Ended { .. } => {
            let mut said = late(task, event.generation, "complete", None, event.output);
            said.extend(nothing_left(task, event.generation));
            Ok(said)
        }
        Phase::Queued | Phase::Parked(_) | Phase::Dispatched(_) => {
            stale(task, event.generation)?;
            Err(not_in(task, "not_running", "running"))
        }
    }
}

fn claim(task: &Task, command: super::command::Claim) -> Decision {
    match &task.phase {
        Phase::Queued => Ok(vec![TaskEvent::Claimed(command.event(&task.facts, task.generation + 1))]),
        Phase::Dispatched(_) | Phase::Parked(_) | Phase::Running(_) => {
            Err(not_in(task, "already_claimed", "queued"))
        }
        Phase::Ended { .. } => Err(ended(task)),
    }
}

fn receive(task: &Task, generation: u32) -> Decision {
    match &task.phase {
        Phase::Dispatched(claim) => {
            current(task, claim, generation)?;
            if claim.received {
                return Ok(Vec::new());
            }
            Ok(vec![TaskEvent::ClaimReceived(Generation { generation })])
        }
        Phase::Running(claim) => {
            current(task, claim, generation)?;
            Ok(Vec::new())
        }
        // A promotion answered too late: it was taken back, and the directory may be another's by now.
        Phase::Parked(claim) => {
            current(task, claim, generation)?;
            Err(not_granted())
        }
        Phase::Queued => Err(stale_generation(task, generation)),
        // The daemon learns from the answer's status that there is nothing to do.
        Phase::Ended { .. } => Ok(Vec::new()),
    }
}

fn release_claim(task: &Task, generation: u32, reason: String) -> Decision {
    match &task.phase {
        Phase::Dispatched(claim) if claim.generation == generation && claim.promoted => Err(not_in(
            task,
            "not_dispatched",
            "dispatched by a claim (a promotion is taken back by parking it again)",
        )),
        Phase::Dispatched(claim) if claim.generation == generation => {
            Ok(vec![TaskEvent::ClaimReleased(ClaimReleased { generation, reason })])
        }
        Phase::Queued | Phase::Dispatched(_) | Phase::Parked(_) | Phase::Ended { .. } => Ok(Vec::new()),
        Phase::Running(_) => Err(not_in(task, "already_running", "dispatched")),
    }
}

fn park(task: &Task, event: Parked) -> Decision {
    match &task.phase {
        Phase::Dispatched(claim) => {
            current(task, claim, event.generation)?;
            if !claim.received && event.because != ParkedBecause::PromotionUnanswered {
                return Err(not_received());
            }
            Ok(vec![TaskEvent::Parked(event)])
        }
        Phase::Parked(claim) => {
            current(task, claim, event.generation)?;
            // Nobody tries the lock any more: it waits in line again.
            let back =
                claim.parked == Some(ParkedBecause::ForeignLock) && event.because == ParkedBecause::Held;
            Ok(if back { vec![TaskEvent::Parked(event)] } else { Vec::new() })
        }
        Phase::Queued => Err(stale_generation(task, event.generation)),
        Phase::Running(_) => Err(not_in(task, "not_dispatched", "dispatched")),
        Phase::Ended { .. } => Ok(Vec::new()),
    }
}

fn start(task: &Task, generation: u32) -> Decision {
    match &task.phase {
        Phase::Dispatched(claim) => {
            current(task, claim, generation)?;
            if !claim.received {
                return Err(not_received());
            }
            Ok(vec![TaskEvent::Started(Generation { generation })])
        }
        Phase::Running(claim) => {
            current(task, claim, generation)?;
            Ok(Vec::new())
        }
        Phase::Parked(claim) => {
            current(task, claim, generation)?;
            Err(not_granted())
        }
        Phase::Queued => Err(stale_generation(task, generation)),
        Phase::Ended { .. } => Ok(late(task, generation, "start", None, None)),
    }
}

fn cancel(task: &Task, reason: Option<String>) -> Vec<TaskEvent> {
    let claim = match &task.phase {
        Phase::Ended { .. } => return Vec::new(),
        Phase::Queued => None,
        Phase::Dispatched(claim) | Phase::Parked(claim) | Phase::Running(claim) => Some(claim),
    };
    let generation = claim.filter(|claim| claim.is_on_machine()).map(|claim| claim.generation);
    vec![
        TaskEvent::CancelRequested(CancelRequested { generation }),
        TaskEvent::Cancelled(Cancelled { reason }),
    ]
}

fn fail(task: &Task, event: Failed) -> Decision {
    match (&task.phase, event.generation) {
        (Phase::Ended { .. }, Some(generation)) => {
            let mut said = late(task, generation, "fail", Some(event.reason), event.detail);
            said.extend(nothing_left(task, generation));
            Ok(said)
        }
        (Phase::Ended { .. }, None) => Ok(Vec::new()),
        (Phase::Queued, Some(generation)) => Err(stale_generation(task, generation)),
        (Phase::Queued, None) => Ok(vec![TaskEvent::Failed(event)]),
        (Phase::Dispatched(claim) | Phase::Parked(claim), generation) => {
            if let Some(generation) = generation {
                current(task, claim, generation)?;
            }
            let failed = PrepareFailed { generation: claim.generation, reason: event.reason.clone() };
            let mut happens = stop_without_report(claim, generation);
            let event = Failed { generation: Some(claim.generation), ..event };
            happens.extend([TaskEvent::PrepareFailed(failed), TaskEvent::Failed(event)]);
            Ok(happens)
        }
        (Phase::Running(claim), generation) => {
            if let Some(generation) = generation {
                current(task, claim, generation)?;
            }
            let mut happens = stop_without_report(claim, generation);
            happens.push(TaskEvent::Failed(Failed { generation: Some(claim.generation), ..event }));
            Ok(happens)
        }
    }
}

/// Who ends a claim without its machine's word tells the machine to stop it: it may only have been out of reach,
/// and what runs there would work on in somebody's directory.
fn stop_without_report(claim: &Claim, reported_by: Option<u32>) -> Vec<TaskEvent> {
    if reported_by.is_some() || !claim.is_on_machine() {
        return Vec::new();
    }
    vec![TaskEvent::CancelRequested(CancelRequested { generation: Some(claim.generation) })]
}

/// A machine's last report answers the order to stop, even if the run had ended by itself before it came.
fn nothing_left(task: &Task, generation: u32) -> Option<TaskEvent> {
    (task.is_stopping() && task.told_to_stop == Some(generation))
        .then_some(TaskEvent::CancelAcknowledged(CancelAcknowledged { generation, reason: None }))
}

fn acknowledge(task: &Task, generation: u32, reason: Option<String>) -> Decision {
    match &task.phase {
        Phase::Ended { .. } => fact(task, generation, Fact::CancelAcknowledged, || {
            TaskEvent::CancelAcknowledged(CancelAcknowledged { generation, reason })
        }),
        Phase::Queued | Phase::Dispatched(_) | Phase::Parked(_) | Phase::Running(_) => {
            stale(task, generation)?;
            Err(Refusal::conflict("not_ended", "the task isn't over", "Report how it ends instead."))
        }
    }
}

/// A machine's fact, once for each claim; also of an ended task, since stopping takes time.
fn fact(task: &Task, generation: u32, fact: Fact, event: impl FnOnce() -> TaskEvent) -> Decision {
    if task.reported.contains(&(generation, fact)) {
        return Ok(Vec::new());
    }
    live_or_ended(task, generation, event)
}

/// While it runs, a claim may start its program once more, with a fresh session: the facts of the two take turns.
fn of_process(task: &Task, generation: u32, said: Fact, event: impl FnOnce() -> TaskEvent) -> Decision {
    let mut known = task.reported.iter().rev().filter(|(of, _)| *of == generation).map(|(_, known)| *known);
    let last = known.find(|known| matches!(known, Fact::ProcessStarted | Fact::ProcessExited));
    if matches!(task.phase, Phase::Running(_)) && last.is_some_and(|last| last != said) {
        return live_or_ended(task, generation, event);
    }
    fact(task, generation, said, event)
}

fn live_or_ended(task: &Task, generation: u32, event: impl FnOnce() -> TaskEvent) -> Decision {
    match task.claim() {
        Some(claim) if claim.generation == generation => Ok(vec![event()]),
        _ if matches!(task.phase, Phase::Ended { .. }) => Ok(Vec::new()),
        _ => Err(stale_generation(task, generation)),
    }
}

/// The live claim of that generation; none when the task is over.
fn live(task: &Task, generation: u32) -> Result<Option<&Claim>, Refusal> {
    match &task.phase {
        Phase::Ended { .. } => Ok(None),
        Phase::Queued => Err(stale_generation(task, generation)),
        Phase::Dispatched(claim) | Phase::Parked(claim) | Phase::Running(claim) => {
            current(task, claim, generation)?;
            Ok(Some(claim))
        }
    }
}

/// The received, dispatched claim of that generation; none when the task is over.
fn dispatched(task: &Task, generation: u32) -> Result<Option<&Claim>, Refusal> {
    let Some(claim) = live(task, generation)? else { return Ok(None) };
    if !matches!(task.phase, Phase::Dispatched(_)) {
        return Err(not_in(task, "not_dispatched", "dispatched"));
    }
    if !claim.received {
        return Err(not_received());
    }
    Ok(Some(claim))
}

/// A report for a task that is over: kept once for each claim and kind, when it says something new.
fn late(
    task: &Task,
    generation: u32,
    kind: &str,
    reason: Option<String>,
    detail: Option<ContentRef>,
) -> Vec<TaskEvent> {
    let said_before = task.late.iter().any(|(g, k)| *g == generation && k == kind);
    let is_the_outcome = task.claim().is_some_and(|c| c.generation == generation)
        && match &task.phase {
            Phase::Ended { outcome: Outcome::Completed { .. }, .. } => kind == "complete" || kind == "start",
            Phase::Ended { outcome: Outcome::Failed { .. }, .. } => kind == "fail" || kind == "start",
            Phase::Ended { outcome: Outcome::Cancelled { .. }, .. } => false,
            Phase::Queued | Phase::Dispatched(_) | Phase::Parked(_) | Phase::Running(_) => false,
        };
    if said_before || is_the_outcome {
        return Vec::new();
    }
    vec![TaskEvent::LateReportRecorded(LateReportRecorded {
        generation,
        kind: kind.to_owned(),
        reason,
        detail,
    })]
}

fn current(task: &Task, claim: &Claim, generation: u32) -> Result<(), Refusal> {
    if claim.generation == generation { Ok(()) } else { Err(stale_generation(task, generation)) }
}

fn stale(task: &Task, generation: u32) -> Result<(), Refusal> {
    if task.generation == generation { Ok(()) } else { Err(stale_generation(task, generation)) }
}

fn stale_generation(task: &Task, generation: u32) -> Refusal {
    Refusal::conflict(
        "stale_generation",
        format!("claim {generation} of {} isn't the live one", task.name()),
        "Stop this run; the task went on without it.",
    )
}

fn not_received() -> Refusal {
    Refusal::conflict(
        "not_received",
        "the claim's receipt hasn't been accepted",
        "Send the receipt first; do nothing before it is accepted.",
    )
}

fn not_granted() -> Refusal {
    Refusal::conflict("not_granted", "the task waits for its directory", "Wait for the order `promoted`.")
}

fn ended(task: &Task) -> Refusal {
    Refusal::conflict(
        "already_ended",
        format!("{} is {}", task.name(), task.status().name()),
        "Rerun the issue for another run.",
    )
}

fn not_in(task: &Task, code: &'static str, wanted: &str) -> Refusal {
    Refusal::conflict(
        code,
        format!("{} is {}, not {wanted}", task.name(), task.status().name()),
        "Look at `multica task explain` for what it waits for.",
    )
}
