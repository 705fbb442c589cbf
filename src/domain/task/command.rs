//! What can be asked of a task.

use super::event::{BuiltFrom, Claimed};
use super::event::{
    Ending, Finalized, ParkedBecause, Prepared, ProcessExited, ProcessStarted, Queued, Sidecars, Usage,
};
use crate::domain::ContentRef;
use crate::kernel::ids::{CommentId, DirectoryId, Incarnation, ResourceId, RuntimeId, TaskId};

/// A command on one task's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskCommand {
    /// Bring it into being.
    Queue(Queued),
    /// Give it to a daemon. The slots were found free; the append settles races.
    Claim(Claim),
    /// The daemon knows about its claim or promotion.
    Receive {
        /// The claim.
        generation: u32,
    },
    /// Take the claim back before anything was done with it.
    ReleaseClaim {
        /// The claim.
        generation: u32,
        /// See [`super::event::ClaimReleased::reason`].
        reason: String,
    },
    /// The directory is entered and free.
    Enter {
        /// The claim.
        generation: u32,
        /// The directory.
        directory: DirectoryId,
        /// What people call it.
        label: String,
    },
    /// The directory is taken.
    Park {
        /// The claim.
        generation: u32,
        /// The directory.
        directory: DirectoryId,
        /// What people call it.
        label: String,
        /// Its holder.
        holder: Option<TaskId>,
        /// The place in line.
        place: u32,
        /// Why.
        because: ParkedBecause,
    },
    /// The directory is its own now.
    Promote {
        /// The directory.
        directory: DirectoryId,
        /// A free slot of its agent.
        agent_slot: u32,
        /// A free slot of its daemon.
        daemon_slot: u32,
    },
    /// The place to work is ready.
    Prepared(Prepared),
    /// The agent is about to run.
    Start {
        /// The claim.
        generation: u32,
    },
    /// The agent's process exists.
    ProcessStarted(ProcessStarted),
    /// The provider's session is known.
    PinSession {
        /// The claim.
        generation: u32,
        /// The session.
        session_id: String,
    },
    /// What the run used.
    RecordUsage {
        /// The claim.
        generation: u32,
        /// One entry for each model.
        usage: Vec<Usage>,
    },
    /// End it.
    Cancel {
        /// The failure reason, when the server does it.
        reason: Option<String>,
    },
    /// The daemon has the cancel order.
    CancelReceived {
        /// The claim.
        generation: u32,
    },
    /// The process tree is empty.
    ProcessExited(ProcessExited),
    /// The place is in order.
    Finalized(Finalized),
    /// Context files could not be removed.
    SidecarsLeft(Sidecars),
    /// Context files of an earlier run were removed.
    SidecarsRemoved(Sidecars),
    /// The daemon is done with a task that was over.
    AcknowledgeCancel {
        /// The claim.
        generation: u32,
        /// What went wrong while stopping.
        reason: Option<String>,
    },
    /// It ended well.
    Complete {
        /// The claim.
        generation: u32,
        /// The agent's last word.
        output: Option<ContentRef>,
        /// What the machine knows.
        ending: Ending,
    },
    /// It ended badly.
    Fail {
        /// The claim; none when the server says it of a task nobody has.
        generation: Option<u32>,
        /// The failure reason.
        reason: String,
        /// What exactly.
        detail: Option<ContentRef>,
        /// What the machine knows.
        ending: Ending,
    },
    /// Another run was queued in its stead.
    MarkRetried {
        /// That run.
        by: TaskId,
    },
}

/// See [`TaskCommand::Claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The daemon.
    pub daemon: String,
    /// The runtime.
    pub runtime: RuntimeId,
    /// The daemon's process.
    pub incarnation: Incarnation,
    /// A free slot of the agent.
    pub agent_slot: u32,
    /// A free slot of the daemon.
    pub daemon_slot: u32,
    /// What the run is built from.
    pub built_from: Vec<BuiltFrom>,
    /// The project's resources.
    pub resources: Vec<ResourceId>,
    /// The comments shown.
    pub comments: Vec<CommentId>,
}

impl Claim {
    /// The event for the claim of that generation of a task with those facts.
    #[must_use]
    pub fn event(self, task: &Queued, generation: u32) -> Claimed {
        Claimed {
            generation,
            issue: task.issue,
            agent: task.agent,
            daemon: self.daemon,
            runtime: self.runtime,
            incarnation: self.incarnation,
            agent_slot: self.agent_slot,
            daemon_slot: self.daemon_slot,
            built_from: self.built_from,
            resources: self.resources,
            comments: self.comments,
        }
    }
}
