//! What a daemon is after its events.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{ProbeOutcome, Registered};
use crate::domain::workspace::Role;
use crate::domain::{Refusal, RefusalKind};
use crate::kernel::ids::{Incarnation, OrderId, RuntimeId, StreamId, UserId, WorkspaceId, digest_uuid};

/// A provider on the daemon's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// claude, codex, opencode, command.
    pub provider: String,
    /// The provider's version as it says it.
    pub version: String,
    /// Display name.
    pub name: String,
    /// Whether it takes work.
    pub online: bool,
    /// Whether the daemon doesn't offer it any more.
    pub withdrawn: bool,
}

/// A question about a path, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The path as typed.
    pub path: String,
    /// What was found; none while it is open.
    pub result: Option<ProbeOutcome>,
}

/// A daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    /// Its stream.
    pub id: StreamId,
    /// What its live process said of itself.
    pub facts: Registered,
    /// Processes that were superseded.
    pub superseded: BTreeSet<Incarnation>,
    /// What it can do.
    pub capabilities: BTreeSet<String>,
    /// Its runtimes.
    pub runtimes: BTreeMap<RuntimeId, Runtime>,
    /// Whether it takes no new claims.
    pub draining: bool,
    /// Whether it was given up and hasn't come back.
    pub dead: bool,
    /// Whether it signed off.
    pub signed_off: bool,
    /// Questions about paths.
    pub probes: BTreeMap<OrderId, Probe>,
}

impl Daemon {
    /// Whether it is there: a runtime of it is online. Draining daemons are.
    #[must_use]
    pub fn online(&self) -> bool {
        !self.dead && !self.signed_off && self.runtimes.values().any(|runtime| runtime.online)
    }

    /// Whether it may be given a task on that runtime.
    #[must_use]
    pub fn takes_claims(&self, runtime: RuntimeId) -> bool {
        self.online() && !self.draining && self.runtimes.get(&runtime).is_some_and(|r| r.online)
    }

    /// Whether this build of it can do that.
    #[must_use]
    pub fn can(&self, capability: &str) -> bool {
        self.capabilities.contains(capability)
    }

    /// The process that lives.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.facts.incarnation
    }

    /// Refuses a call of a process that isn't the live one.
    ///
    /// # Errors
    /// `daemon_superseded`.
    pub fn must_be_live(&self, incarnation: Incarnation) -> Result<(), Refusal> {
        if incarnation == self.facts.incarnation {
            return Ok(());
        }
        Err(Refusal::conflict(
            "daemon_superseded",
            "another process of this daemon has registered since",
            "Stop this process; the newer one goes on.",
        ))
    }
}

/// Lets a member speak for a daemon: the one who registered it first, whoever comes first while nobody has,
/// and those who manage the workspace.
///
/// # Errors
/// `daemon_of_another_member`.
pub fn may_speak(owner: Option<UserId>, member: UserId, role: Role) -> Result<(), Refusal> {
    if owner.is_none_or(|owner| owner == member) || role >= Role::Admin {
        return Ok(());
    }
    Err(Refusal::new(
        RefusalKind::Forbidden,
        "daemon_of_another_member",
        "a daemon with this id belongs to another member",
        "Use a token of the member who registered it, or start the daemon with another `--daemon-id`.",
    ))
}

/// The id of a daemon's runtime: stable for workspace, daemon and provider.
#[must_use]
pub fn runtime_id(workspace: WorkspaceId, daemon: &str, provider: &str) -> RuntimeId {
    RuntimeId(digest_uuid(&[
        b"multica-runtime",
        workspace.0.as_bytes(),
        daemon.as_bytes(),
        provider.as_bytes(),
    ]))
}
