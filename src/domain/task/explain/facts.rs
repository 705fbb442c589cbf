//! What an explanation is made from.

use jiff::{SignedDuration, Timestamp};

use crate::domain::directory::Directory;
use crate::domain::sentence::Names;
use crate::domain::task::Status;
use crate::kernel::ids::TaskId;

/// What is known of the task's daemon.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DaemonFacts {
    /// Whether it ever registered.
    pub known: bool,
    /// Whether it is there.
    pub online: bool,
    /// Whether the task's runtime is among what it offers now.
    pub runtime_online: bool,
    /// Whether it takes no new claims.
    pub draining: bool,
    /// When it was last seen.
    pub last_seen: Option<Timestamp>,
    /// Slots taken.
    pub slots_taken: u32,
    /// Slots there are.
    pub slots: u32,
}

/// What is known of the task's agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentFacts {
    /// Whether it takes no more tasks.
    pub archived: bool,
    /// Slots taken.
    pub slots_taken: u32,
    /// Slots there are.
    pub slots: u32,
}

/// Since when things are as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Since {
    /// The task's status.
    pub status: Option<Timestamp>,
    /// The directory's holder.
    pub holder: Option<Timestamp>,
    /// The order to stop, where one was given.
    pub told_to_stop: Option<Timestamp>,
}

/// Everything an explanation is made from, the task aside.
pub struct Facts<'a> {
    /// The directory that the task holds or waits for.
    pub directory: Option<&'a Directory>,
    /// The daemon.
    pub daemon: DaemonFacts,
    /// The agent.
    pub agent: AgentFacts,
    /// The other task of this issue and agent that is claimed, if any.
    pub conversation: Option<TaskId>,
    /// Queued tasks of the same runtime that are more urgent or older.
    pub ahead: u32,
    /// Since when.
    pub since: Since,
    /// What of it can't be read in the log, as the end of a sentence; none when all can.
    pub damage: Option<&'a str>,
    /// Whether it has stood so for longer than getting ready usually takes.
    pub stalled: bool,
    /// What the holder of the directory is at, when that is another task.
    pub holder: Option<HolderFacts>,
    /// When the task's agent last said something, while it runs.
    pub last_output: Option<Timestamp>,
    /// Claims of it that were taken back because nobody confirmed them.
    pub undelivered: u32,
    /// Where the run in its stead stands, if there is one.
    pub retry: Option<Status>,
    /// The time limits in force.
    pub terms: Terms,
    /// What people call things.
    pub names: &'a dyn Names,
}

/// What is known of the task that holds the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderFacts {
    /// Where it stands.
    pub status: Status,
    /// When its agent last said something.
    pub last_output: Option<Timestamp>,
    /// Its daemon's id.
    pub daemon: String,
    /// Its daemon.
    pub machine: DaemonFacts,
}

/// Time limits that end a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terms {
    /// For a claim.
    pub queued: SignedDuration,
    /// For a receipt.
    pub receipt: SignedDuration,
    /// For a silent machine.
    pub grace: SignedDuration,
    /// For an agent that says nothing.
    pub idle: SignedDuration,
}
