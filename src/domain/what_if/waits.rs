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

/// Whether what is recorded is this timer's own doing.
pub(super) fn is_firing(parameter: Parameter, happened: &TaskEvent) -> bool {
    match (parameter, happened) {
        (Parameter::QueuedTtl, TaskEvent::Failed(e)) => e.reason == "queued_expired",
        (Parameter::ReconnectGrace, TaskEvent::Failed(e)) => e.reason == "runtime_offline",
        (Parameter::ClaimReceipt, TaskEvent::ClaimReleased(e)) => e.reason == "no_receipt",
        (Parameter::ClaimReceipt, TaskEvent::Parked(e)) => e.because == ParkedBecause::PromotionUnanswered,
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
