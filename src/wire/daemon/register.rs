//! Who a daemon is, what it can do, what its machine knows of.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::kernel::ids::{Incarnation, MachineId, RuntimeId, TaskId, WorkspaceId};

/// `POST /api/daemon/register`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Register {
    /// The workspace it works for.
    pub workspace_id: WorkspaceId,
    /// The daemon's own id.
    pub daemon_id: String,
    /// Its machine; absent from public daemons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<MachineId>,
    /// Which start of the process; absent from public daemons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
    /// What the machine calls itself.
    #[serde(default)]
    pub device_name: String,
    /// The program's version.
    #[serde(default)]
    pub cli_version: String,
    /// linux, macos, windows.
    #[serde(default)]
    pub os: String,
    /// What it can do.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// The providers found.
    #[serde(default)]
    pub runtimes: Vec<RegisterRuntime>,
    /// Every claim of which the machine has a record; absent from public daemons, and where the records can't be
    /// listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Vec<KeptClaim>>,
}

/// A claim of which a machine has a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptClaim {
    /// The task.
    pub task: TaskId,
    /// Its claim.
    pub generation: u32,
}

/// One provider found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterRuntime {
    /// Display name.
    #[serde(default)]
    pub name: String,
    /// The provider.
    #[serde(rename = "type")]
    pub provider: String,
    /// The provider's version.
    #[serde(default)]
    pub version: String,
    /// online or offline.
    #[serde(default)]
    pub status: String,
}

/// The answer to [`Register`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registered {
    /// Its runtimes with their ids.
    pub runtimes: Vec<RegisteredRuntime>,
    /// The workspace's repositories.
    pub repos: Vec<Value>,
    /// Digest of their URLs.
    pub repos_version: String,
    /// Settings; empty here.
    pub settings: Map<String, Value>,
}

/// One runtime of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredRuntime {
    /// Its id.
    pub id: RuntimeId,
    /// Display name.
    pub name: String,
    /// The provider.
    pub provider: String,
    /// online or offline.
    pub status: String,
}
