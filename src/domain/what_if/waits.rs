//! What a task waits for: the same beginnings and ends as the timers in force have.

use jiff::Timestamp;

use super::Parameter;
use crate::domain::task::wait::{self, Turn};
use crate::domain::task::{ParkedBecause, TaskEvent};

/// A wait that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    kind: wait::Kind,
    /// Since when, by the database.
    pub(super) since: Timestamp,
}

impl Wait {
    pub(super) const fn parameter(self) -> Parameter {
        match self.kind {
            wait::Kind::Claim => Parameter::QueuedTtl,
            wait::Kind::Receipt | wait::Kind::PromotionReceipt => Parameter::ClaimReceipt,
        }
    }
}

pub(super) fn note(wait: &mut Option<Wait>, happened: &TaskEvent, at: Timestamp) {
    match wait::turn(happened) {
        Turn::Begins(kind, _) => *wait = Some(Wait { kind, since: at }),
        Turn::Ends => *wait = None,
        Turn::GoesOn => {}
    }
}

/// Whose doing what is recorded is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// A rule's of the server's clock, for this task alone.
    Timer,
    /// The loss of its machine, which was silent for longer than the grace.
    GraceOver,
    /// Somebody's: no timer had a part in it.
    Somebody,
}

/// Whether what is recorded is this timer's own doing. Reasons alone don't tell: a person gives a machine up too,
/// and what a lost machine had claimed goes back without its time being over.
pub(super) fn is_firing(parameter: Parameter, happened: &TaskEvent, doing: Doing) -> bool {
    let unconfirmed = match happened {
        TaskEvent::ClaimReleased(e) => e.reason == "no_receipt",
        TaskEvent::Parked(e) => e.because == ParkedBecause::PromotionUnanswered,
        _ => false,
    };
    let failed = |code: &str| matches!(happened, TaskEvent::Failed(e) if e.reason == code);
    match (parameter, doing) {
        (Parameter::QueuedTtl, Doing::Timer) => failed("queued_expired"),
        (Parameter::ReconnectGrace, Doing::GraceOver) => failed("runtime_offline") || unconfirmed,
        (Parameter::ClaimReceipt, Doing::Timer) => unconfirmed,
        _ => false,
    }
}

/// Whether another event of the same append says what becomes of the task.
pub(super) const fn leads_to_an_end(happened: &TaskEvent) -> bool {
    matches!(happened, TaskEvent::CancelRequested(_) | TaskEvent::PrepareFailed(_))
}

pub(super) fn reason(happened: &TaskEvent) -> Option<String> {
    match happened {
        TaskEvent::Failed(e) => Some(e.reason.clone()),
        TaskEvent::ClaimReleased(e) => Some(e.reason.clone()),
        TaskEvent::Cancelled(e) => e.reason.clone(),
        _ => None,
    }
}
