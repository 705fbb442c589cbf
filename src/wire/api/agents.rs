//! Agents, and where they run.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::agent::CommandLine;
use crate::kernel::ids::{AgentId, MachineId, RuntimeId, UserId, WorkspaceId};

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// Where its tasks run.
    pub runtime_id: RuntimeId,
    /// Its name.
    pub name: String,
    /// claude, codex, opencode, command.
    pub provider: String,
    /// Standing instructions; empty for none.
    pub instructions: String,
    /// The model; none for the provider's own choice.
    pub model: Option<String>,
    /// What provider command starts.
    pub command: Option<CommandLine>,
    /// Further arguments for the provider's program.
    pub custom_args: Vec<String>,
    /// working, idle.
    pub status: String,
    /// Tasks it runs at once.
    pub max_concurrent_tasks: u32,
    /// The member it belongs to.
    pub owner_id: UserId,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// When it changed last.
    pub updated_at: Option<Timestamp>,
    /// Since when it takes no more tasks.
    pub archived_at: Option<Timestamp>,
    /// For public clients.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A runtime with its machine, as the list of all runtimes has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacedRuntime {
    /// Its id.
    pub id: RuntimeId,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// Its daemon.
    pub daemon_id: String,
    /// What people call it.
    pub name: String,
    /// claude, codex, opencode, command.
    pub provider: String,
    /// online, offline.
    pub status: String,
    /// The member whose daemon it is.
    pub owner_id: UserId,
    /// The daemon's last heartbeat.
    pub last_seen_at: Option<Timestamp>,
    /// When the daemon registered first.
    pub created_at: Option<Timestamp>,
    /// When it went or came last.
    pub updated_at: Option<Timestamp>,
    /// For public clients.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A daemon with its runtimes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Daemon {
    /// Its own id.
    pub daemon_id: String,
    /// Its machine.
    pub machine_id: MachineId,
    /// What the machine is called.
    pub device_name: String,
    /// The program's version.
    pub cli_version: String,
    /// linux, macos, windows.
    pub os: String,
    /// online, unreachable, offline.
    pub status: String,
    /// Whether it takes no new tasks.
    pub draining: bool,
    /// Its last heartbeat.
    pub last_seen_at: Option<Timestamp>,
    /// What it found on its machine.
    pub runtimes: Vec<Runtime>,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// The member whose daemon it is.
    pub owner_id: UserId,
    /// Tasks that it is at.
    pub running: usize,
    /// Tasks of it that wait for a directory.
    pub parked: usize,
    /// Tasks that it takes at once.
    pub slots: u32,
}

/// A provider on a daemon's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// Its id.
    pub id: RuntimeId,
    /// claude, codex, opencode, command.
    pub provider: String,
    /// The provider's version.
    pub version: String,
    /// What people call it.
    pub name: String,
    /// online, offline.
    pub status: String,
}
