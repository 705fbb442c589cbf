//! What can happen to a daemon and its runtimes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kernel::ids::{Incarnation, MachineId, OrderId, RuntimeId, UserId};

/// What happened to a daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum DaemonEvent {
    /// A process of it registered; an older one is superseded.
    Registered(Registered),
    /// A provider was found on its machine.
    RuntimeRegistered(RuntimeRegistered),
    /// What this build of it can do.
    CapabilitiesDeclared(CapabilitiesDeclared),
    /// Its heartbeats stopped, or it signed off.
    RuntimeWentOffline(RuntimePresence),
    /// Its heartbeats are back.
    RuntimeCameBack(RuntimePresence),
    /// It is given up: its running tasks are lost.
    DeclaredDead(DeclaredDead),
    /// It takes no new claims and waits for what runs.
    DrainStarted(Drain),
    /// The drain is over.
    DrainEnded(Drain),
    /// It signed off.
    Deregistered(Drain),
    /// Somebody wants to know what a path is.
    DirectoryProbeRequested(DirectoryProbeRequested),
    /// The daemon looked.
    DirectoryProbed(DirectoryProbed),
}

/// See [`DaemonEvent::Registered`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Registered {
    /// The daemon's id: any text, its own choice, unique in the workspace.
    pub daemon: String,
    /// The machine it runs on.
    pub machine: MachineId,
    /// Which start of the process this is.
    pub incarnation: Incarnation,
    /// What the machine calls itself.
    pub device_name: String,
    /// The program's version.
    pub cli_version: String,
    /// linux, macos, windows.
    pub os: String,
    /// The member whose daemon it is: the one who registered it first.
    pub owner: UserId,
}

/// See [`DaemonEvent::RuntimeRegistered`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RuntimeRegistered {
    /// The runtime, stable for (workspace, daemon, provider).
    pub runtime: RuntimeId,
    /// claude, codex, opencode, command.
    pub provider: String,
    /// The provider's version as it says it.
    pub version: String,
    /// Display name.
    pub name: String,
}

/// See [`DaemonEvent::CapabilitiesDeclared`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CapabilitiesDeclared {
    /// Sorted, without repeats.
    pub capabilities: Vec<String>,
}

/// See [`DaemonEvent::RuntimeWentOffline`] and [`DaemonEvent::RuntimeCameBack`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RuntimePresence {
    /// The runtime.
    pub runtime: RuntimeId,
    /// The database's clock at the last heartbeat before the change.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub last_seen: Option<Timestamp>,
    /// Whether the daemon is there and doesn't offer it any more: then no heartbeat brings it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn: bool,
}

/// See [`DaemonEvent::DeclaredDead`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeclaredDead {
    /// `reconnect_grace_over` or `by_member`.
    pub reason: String,
    /// The database's clock at the last heartbeat.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub last_seen: Option<Timestamp>,
}

/// See [`DaemonEvent::DrainStarted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Drain {
    /// Which start of the process.
    pub incarnation: Incarnation,
}

/// See [`DaemonEvent::DirectoryProbeRequested`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DirectoryProbeRequested {
    /// The order the daemon gets.
    pub order: OrderId,
    /// The path as typed.
    #[cfg_attr(test, schemars(extend("x-private" = true)))]
    pub path: String,
}

/// What a daemon found at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ProbeOutcome {
    /// It can be attached.
    Usable {
        /// The real path.
        #[cfg_attr(test, schemars(extend("x-private" = true)))]
        real_path: String,
        /// Whether it is inside a Git work tree.
        git: bool,
        /// Whether runs in it can be isolated in worktrees.
        can_isolate: bool,
    },
    /// It can't.
    Refused {
        /// A stable code, see [`crate::domain::resource::local_directory::PathRefusal`].
        code: String,
        /// A sentence.
        sentence: String,
        /// What to do now.
        next_step: String,
    },
}

/// See [`DaemonEvent::DirectoryProbed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DirectoryProbed {
    /// The order it answers.
    pub order: OrderId,
    /// What was found.
    pub result: ProbeOutcome,
}
