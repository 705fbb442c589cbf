//! Read model `runtime_presence`: every daemon with its runtimes.
//!
//! Rows: `daemon/<stream id>`, a [`DaemonRow`]; `runtime/<id>`, a [`RuntimePointer`] to it. Heartbeats are
//! not events: how fresh a daemon is stands in the store's own rows.

use serde::{Deserialize, Serialize};

use super::{At, FoldError, Mode, ReadModel, Rows};
use crate::domain::daemon::{DaemonEvent, RuntimePresence as Presence, RuntimeRegistered};
use crate::domain::{Envelope, Event};
use crate::kernel::ids::{Incarnation, MachineId, RuntimeId, StreamId, UserId};

const NAME: &str = "runtime_presence";

/// See the module.
pub struct RuntimePresence;

/// A runtime inside its daemon's row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeRow {
    /// Its id.
    pub id: RuntimeId,
    /// claude, codex, opencode, command.
    pub provider: String,
    /// The provider's version.
    pub version: String,
    /// Display name.
    pub name: String,
    /// Whether it takes work.
    pub online: bool,
    /// Whether the daemon doesn't offer it any more.
    #[serde(default)]
    pub withdrawn: bool,
    /// Since when it is on- or offline.
    pub since: At,
}

/// A daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRow {
    /// Its stream.
    pub id: StreamId,
    /// Its own id.
    pub daemon: String,
    /// Its machine.
    pub machine: MachineId,
    /// The process that lives.
    pub incarnation: Incarnation,
    /// What the machine calls itself.
    pub device_name: String,
    /// The program's version.
    pub cli_version: String,
    /// linux, macos, windows.
    pub os: String,
    /// The member whose daemon it is.
    pub owner: UserId,
    /// What it can do, sorted.
    pub capabilities: Vec<String>,
    /// Its runtimes.
    pub runtimes: Vec<RuntimeRow>,
    /// Whether any runtime is online, and it is neither dead nor signed off.
    pub online: bool,
    /// Whether it takes no new claims.
    pub draining: bool,
    /// Whether it was given up and hasn't come back.
    pub dead: bool,
    /// Whether it signed off.
    pub signed_off: bool,
    /// When it registered first.
    pub created_at: At,
    /// When its live process registered.
    pub registered_at: At,
    /// When its presence changed last.
    pub presence_since: At,
}

impl DaemonRow {
    /// Whether it is there.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        self.online && !self.dead && !self.signed_off
    }
}

/// Which daemon a runtime belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimePointer {
    /// The runtime.
    pub id: RuntimeId,
    /// The daemon's stream.
    pub daemon_stream: StreamId,
    /// The daemon's own id.
    pub daemon: String,
    /// The provider.
    pub provider: String,
    /// The member whose daemon it is.
    pub owner: UserId,
}

/// The key of a daemon's row.
#[must_use]
pub fn key(daemon: StreamId) -> String {
    format!("daemon/{daemon}")
}

/// The key of a runtime's row.
#[must_use]
pub fn runtime_key(runtime: RuntimeId) -> String {
    format!("runtime/{runtime}")
}

impl ReadModel for RuntimePresence {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> u32 {
        2
    }

    fn mode(&self) -> Mode {
        Mode::Inline
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        let Event::Daemon(happened) = &event.event else { return Vec::new() };
        let own = key(StreamId(event.stream.id));
        match happened {
            DaemonEvent::DirectoryProbeRequested(_) | DaemonEvent::DirectoryProbed(_) => Vec::new(),
            DaemonEvent::RuntimeRegistered(e) => vec![own, runtime_key(e.runtime)],
            DaemonEvent::Registered(_)
            | DaemonEvent::CapabilitiesDeclared(_)
            | DaemonEvent::RuntimeWentOffline(_)
            | DaemonEvent::RuntimeCameBack(_)
            | DaemonEvent::DeclaredDead(_)
            | DaemonEvent::DrainStarted(_)
            | DaemonEvent::DrainEnded(_)
            | DaemonEvent::Deregistered(_) => vec![own],
        }
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let Event::Daemon(happened) = &event.event else { return Ok(()) };
        let id = StreamId(event.stream.id);
        let key = key(id);
        let at = At::now(rows);
        if matches!(happened, DaemonEvent::DirectoryProbeRequested(_) | DaemonEvent::DirectoryProbed(_)) {
            return Ok(());
        }
        let mut row = match (happened, rows.get(NAME, &key)?) {
            (DaemonEvent::Registered(e), before) => registered(id, e, before, &at),
            (_, Some(row)) => row,
            (_, None) => rows.need(NAME, &key)?,
        };
        change(&mut row, happened, &at);
        let online = !row.dead && !row.signed_off && row.runtimes.iter().any(|runtime| runtime.online);
        if online != row.online {
            row.presence_since = at;
            row.online = online;
        }
        if let DaemonEvent::RuntimeRegistered(e) = happened {
            let pointer = RuntimePointer {
                id: e.runtime,
                daemon_stream: id,
                daemon: row.daemon.clone(),
                provider: e.provider.clone(),
                owner: row.owner,
            };
            rows.put(&runtime_key(e.runtime), event.workspace, pointer);
        }
        rows.put(&key, event.workspace, row);
        Ok(())
    }
}

fn registered(
    id: StreamId,
    e: &crate::domain::daemon::Registered,
    before: Option<DaemonRow>,
    at: &At,
) -> DaemonRow {
    let same_process = before.as_ref().is_some_and(|row| row.incarnation == e.incarnation);
    DaemonRow {
        id,
        daemon: e.daemon.clone(),
        machine: e.machine,
        incarnation: e.incarnation,
        device_name: e.device_name.clone(),
        cli_version: e.cli_version.clone(),
        os: e.os.clone(),
        owner: e.owner,
        online: before.as_ref().is_some_and(|row| row.online),
        draining: same_process && before.as_ref().is_some_and(|row| row.draining),
        dead: false,
        signed_off: false,
        created_at: before.as_ref().map_or_else(|| at.clone(), |row| row.created_at.clone()),
        registered_at: at.clone(),
        presence_since: before.as_ref().map_or_else(|| at.clone(), |row| row.presence_since.clone()),
        capabilities: before.as_ref().map(|row| row.capabilities.clone()).unwrap_or_default(),
        runtimes: before.map(|row| row.runtimes).unwrap_or_default(),
    }
}

fn change(row: &mut DaemonRow, event: &DaemonEvent, at: &At) {
    match event {
        DaemonEvent::RuntimeRegistered(e) => runtime_registered(row, e, at),
        DaemonEvent::CapabilitiesDeclared(e) => row.capabilities.clone_from(&e.capabilities),
        DaemonEvent::RuntimeWentOffline(e) => presence(row, e, false, at),
        DaemonEvent::RuntimeCameBack(e) => {
            row.dead = false;
            presence(row, e, true, at);
        }
        DaemonEvent::DeclaredDead(_) => row.dead = true,
        DaemonEvent::DrainStarted(_) => row.draining = true,
        DaemonEvent::DrainEnded(_) => row.draining = false,
        DaemonEvent::Deregistered(_) => {
            row.signed_off = true;
            row.draining = false;
        }
        DaemonEvent::Registered(_)
        | DaemonEvent::DirectoryProbeRequested(_)
        | DaemonEvent::DirectoryProbed(_) => {}
    }
}

fn runtime_registered(row: &mut DaemonRow, e: &RuntimeRegistered, at: &At) {
    let since = match row.runtimes.iter().find(|runtime| runtime.id == e.runtime) {
        Some(known) if known.online => known.since.clone(),
        _ => at.clone(),
    };
    let runtime = RuntimeRow {
        id: e.runtime,
        provider: e.provider.clone(),
        version: e.version.clone(),
        name: e.name.clone(),
        online: true,
        withdrawn: false,
        since,
    };
    match row.runtimes.iter_mut().find(|known| known.id == e.runtime) {
        Some(known) => *known = runtime,
        None => row.runtimes.push(runtime),
    }
}

fn presence(row: &mut DaemonRow, e: &Presence, online: bool, at: &At) {
    if let Some(runtime) = row.runtimes.iter_mut().find(|runtime| runtime.id == e.runtime) {
        runtime.online = online;
        runtime.withdrawn = e.withdrawn;
        runtime.since = at.clone();
    }
}
