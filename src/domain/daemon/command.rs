//! What can be asked of a daemon's stream.

use jiff::Timestamp;

use super::event::ProbeOutcome;
use crate::domain::workspace::Role;
use crate::kernel::ids::{Incarnation, MachineId, OrderId, RuntimeId, UserId, WorkspaceId};

/// A provider that a daemon found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRuntime {
    /// claude, codex, opencode, command.
    pub provider: String,
    /// The provider's version as it says it.
    pub version: String,
    /// Display name.
    pub name: String,
}

/// What a daemon says of itself when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The workspace it works for.
    pub workspace: WorkspaceId,
    /// Its own id.
    pub daemon: String,
    /// Its machine.
    pub machine: MachineId,
    /// Which start of the process.
    pub incarnation: Incarnation,
    /// What the machine calls itself.
    pub device_name: String,
    /// The program's version.
    pub cli_version: String,
    /// linux, macos, windows.
    pub os: String,
    /// The member who registers it: its owner from the first time on.
    pub member: UserId,
    /// What that member may do in the workspace.
    pub role: Role,
    /// What it can do, in any order.
    pub capabilities: Vec<String>,
    /// The providers found.
    pub runtimes: Vec<FoundRuntime>,
}

/// A command on one daemon's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonCommand {
    /// A process of it says what it is.
    Register(Registration),
    /// Its heartbeats stopped.
    GoOffline {
        /// These runtimes only; all when empty.
        runtimes: Vec<RuntimeId>,
        /// The database's clock at the last heartbeat.
        last_seen: Option<Timestamp>,
    },
    /// Its heartbeats are back.
    ComeBack {
        /// The process that beats; none from a public daemon.
        incarnation: Option<Incarnation>,
        /// These runtimes only; all when empty.
        runtimes: Vec<RuntimeId>,
        /// The database's clock at the last heartbeat before.
        last_seen: Option<Timestamp>,
    },
    /// Give it up.
    DeclareDead {
        /// `reconnect_grace_over`, `by_member`.
        reason: String,
        /// The database's clock at the last heartbeat.
        last_seen: Option<Timestamp>,
    },
    /// It takes no new claims and waits for what runs.
    StartDrain {
        /// The process.
        incarnation: Incarnation,
    },
    /// The drain is over.
    EndDrain {
        /// The process.
        incarnation: Incarnation,
    },
    /// It signs off.
    Deregister {
        /// The process; none from a public daemon.
        incarnation: Option<Incarnation>,
    },
    /// Somebody wants to know what a path is.
    RequestProbe {
        /// The order it becomes.
        order: OrderId,
        /// The path as typed.
        path: String,
    },
    /// The daemon looked.
    RecordProbe {
        /// The order it answers.
        order: OrderId,
        /// What was found.
        result: ProbeOutcome,
    },
}
