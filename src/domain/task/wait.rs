//! What a task waits for that doesn't come by itself: a claim, a receipt.
//!
//! Invariants: at most one such wait at a time; an event begins one, ends the one there is, or says nothing of it.
//!
//! Not here: how long is too long (`app/policy`).

use super::TaskEvent;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A claim.
    Claim,
    /// The receipt of a claim.
    Receipt,
    /// The receipt of a promotion.
    PromotionReceipt,
}

/// What an event does to the wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// This wait begins in its stead, of that claim (0: none yet).
    Begins(Kind, u32),
    /// Nothing is waited for any more.
    Ends,
    /// It goes on, or there is still none.
    GoesOn,
}

/// What an event does to the wait.
#[must_use]
pub const fn turn(event: &TaskEvent) -> Turn {
    match event {
        TaskEvent::Queued(_) => Turn::Begins(Kind::Claim, 0),
        TaskEvent::ClaimReleased(e) => Turn::Begins(Kind::Claim, e.generation),
        TaskEvent::Claimed(e) => Turn::Begins(Kind::Receipt, e.generation),
        TaskEvent::Promoted(e) => Turn::Begins(Kind::PromotionReceipt, e.generation),
        TaskEvent::ClaimReceived(_)
        | TaskEvent::Parked(_)
        | TaskEvent::Cancelled(_)
        | TaskEvent::Completed(_)
        | TaskEvent::Failed(_) => Turn::Ends,
        TaskEvent::DirectoryEntered(_)
        | TaskEvent::PrepareFailed(_)
        | TaskEvent::Prepared(_)
        | TaskEvent::Started(_)
        | TaskEvent::ProcessStarted(_)
        | TaskEvent::SessionPinned(_)
        | TaskEvent::UsageRecorded(_)
        | TaskEvent::CancelRequested(_)
        | TaskEvent::CancelReceived(_)
        | TaskEvent::ProcessExited(_)
        | TaskEvent::Finalized(_)
        | TaskEvent::SidecarsLeft(_)
        | TaskEvent::SidecarsRemoved(_)
        | TaskEvent::CancelAcknowledged(_)
        | TaskEvent::Retried(_)
        | TaskEvent::LateReportRecorded(_) => Turn::GoesOn,
    }
}
