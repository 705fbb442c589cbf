//! What a task is after its events.

use serde::{Deserialize, Serialize};

use super::event::{Ending, ParkedBecause, Queued, Usage, WorkPlace};
use crate::kernel::ids::{DirectoryId, Incarnation, RuntimeId, TaskId};

/// The status as people and the wire name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Waits for a time.
    Deferred,
    /// Waits to be claimed.
    Queued,
    /// A daemon has it and gets ready.
    Dispatched,
    /// Parked: waits for a directory.
    WaitingLocalDirectory,
    /// The agent runs.
    Running,
    /// Ended well.
    Completed,
    /// Ended badly.
    Failed,
    /// Was cancelled.
    Cancelled,
}

impl Status {
    /// All of them, in the order of a task's life.
    pub const ALL: [Self; 8] = [
        Self::Deferred,
        Self::Queued,
        Self::Dispatched,
        Self::WaitingLocalDirectory,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The status as it stands on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deferred => "deferred",
            Self::Queued => "queued",
            Self::Dispatched => "dispatched",
            Self::WaitingLocalDirectory => "waiting_local_directory",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The same in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Dispatched => "getting ready",
            Self::WaitingLocalDirectory => "waiting for a directory",
            other => other.name(),
        }
    }

    /// Whether it is over.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A daemon's hold on a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The how-many-eth claim.
    pub generation: u32,
    /// The daemon.
    pub daemon: String,
    /// The runtime.
    pub runtime: RuntimeId,
    /// The daemon's process that claimed.
    pub incarnation: Incarnation,
    /// Whether the daemon has confirmed; it does nothing before.
    pub received: bool,
    /// The directory that was entered or is waited for.
    pub directory: Option<DirectoryId>,
    /// Whether the directory was granted to it by a promotion.
    pub promoted: bool,
    /// Where it works, once prepared.
    pub place: Option<WorkPlace>,
    /// The provider's session.
    pub session_id: Option<String>,
    /// Why it waits, while it is parked.
    pub parked: Option<ParkedBecause>,
    /// What it used so far.
    pub usage: Vec<Usage>,
}

impl Claim {
    /// Whether a process of the machine may be at work for it: one that has to be told to stop.
    ///
    /// A task that waits in a directory's queue has left its machine; one that waits for a foreign lock has
    /// a waiter there.
    #[must_use]
    pub const fn is_on_machine(&self) -> bool {
        match self.parked {
            None | Some(ParkedBecause::ForeignLock) => true,
            Some(ParkedBecause::Held | ParkedBecause::PromotionUnanswered) => false,
        }
    }
}

/// Where a task stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Waits to be claimed.
    Queued,
    /// Claimed; getting ready.
    Dispatched(Claim),
    /// Waits for a directory.
    Parked(Claim),
    /// The agent runs.
    Running(Claim),
    /// Over.
    Ended {
        /// How.
        outcome: Outcome,
        /// The claim that had it last, whose machine may still be stopping.
        claim: Option<Claim>,
    },
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Completed {
        /// What the machine knew.
        ending: Ending,
    },
    /// Badly.
    Failed {
        /// The failure reason.
        reason: String,
        /// What the machine knew.
        ending: Ending,
    },
    /// By a person's or the server's word.
    Cancelled {
        /// The failure reason, when the server did it.
        reason: Option<String>,
    },
}

/// A fact that a machine reports after or beside the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fact {
    /// `cancel_received`.
    CancelReceived,
    /// `process_started`.
    ProcessStarted,
    /// `process_exited`.
    ProcessExited,
    /// `finalized`.
    Finalized,
    /// `sidecars_left`.
    SidecarsLeft,
    /// `sidecars_removed`.
    SidecarsRemoved,
    /// `cancel_acknowledged`.
    CancelAcknowledged,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// What it was queued with.
    pub facts: Queued,
    /// How often it was claimed.
    pub generation: u32,
    /// Where it stands.
    pub phase: Phase,
    /// Facts reported, with the claim that reported them.
    pub reported: Vec<(u32, Fact)>,
    /// Late reports kept, by claim and kind.
    pub late: Vec<(u32, String)>,
    /// The run queued in its stead.
    pub retried_by: Option<TaskId>,
    /// The claim whose machine was told to stop.
    pub told_to_stop: Option<u32>,
}

impl Task {
    /// Its status.
    #[must_use]
    pub const fn status(&self) -> Status {
        match &self.phase {
            Phase::Queued => Status::Queued,
            Phase::Dispatched(_) => Status::Dispatched,
            Phase::Parked(_) => Status::WaitingLocalDirectory,
            Phase::Running(_) => Status::Running,
            Phase::Ended { outcome, .. } => match outcome {
                Outcome::Completed { .. } => Status::Completed,
                Outcome::Failed { .. } => Status::Failed,
                Outcome::Cancelled { .. } => Status::Cancelled,
            },
        }
    }

    /// The claim that has it, or had it last.
    #[must_use]
    pub const fn claim(&self) -> Option<&Claim> {
        match &self.phase {
            Phase::Queued => None,
            Phase::Dispatched(claim) | Phase::Parked(claim) | Phase::Running(claim) => Some(claim),
            Phase::Ended { claim, .. } => claim.as_ref(),
        }
    }

    /// Whether it is over and its machine was told to stop what runs for it, and hasn't answered: something of
    /// it may be at work there still.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Ended { .. })
            && self
                .told_to_stop
                .is_some_and(|claim| !self.reported.contains(&(claim, Fact::CancelAcknowledged)))
    }

    /// People's name for it: `GAME-12#3`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}#{}", self.facts.issue_key, self.facts.run)
    }
}
