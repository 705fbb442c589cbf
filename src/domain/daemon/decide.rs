//! What a daemon's stream allows.

use jiff::Timestamp;

use super::command::{DaemonCommand, Registration};
use super::event::{
    CapabilitiesDeclared, DaemonEvent, DeclaredDead, DirectoryProbeRequested, DirectoryProbed, Drain,
    ProbeOutcome, Registered, RuntimePresence, RuntimeRegistered,
};
use super::state::{Daemon, may_speak, runtime_id};
use crate::domain::Refusal;
use crate::kernel::ids::{OrderId, RuntimeId};

/// What is refused, or what happens: no events when nothing does.
pub type Decision = Result<Vec<DaemonEvent>, Refusal>;

/// Decides one command on one daemon; `None` is one that never registered.
///
/// # Errors
/// `not_found`, `daemon_superseded`, `daemon_of_another_member`, `bad_daemon_id`, `daemon_offline`,
/// `order_id_taken`.
pub fn decide(daemon: Option<&Daemon>, command: DaemonCommand) -> Decision {
    let Some(daemon) = daemon else {
        return match command {
            DaemonCommand::Register(registration) => register(None, registration),
            DaemonCommand::GoOffline { .. }
            | DaemonCommand::ComeBack { .. }
            | DaemonCommand::DeclareDead { .. }
            | DaemonCommand::StartDrain { .. }
            | DaemonCommand::EndDrain { .. }
            | DaemonCommand::Deregister { .. }
            | DaemonCommand::RequestProbe { .. }
            | DaemonCommand::RecordProbe { .. } => Err(Refusal::not_found("daemon")),
        };
    };
    match command {
        DaemonCommand::Register(registration) => register(Some(daemon), registration),
        DaemonCommand::GoOffline { runtimes, last_seen } => Ok(went_offline(daemon, &runtimes, last_seen)),
        DaemonCommand::ComeBack { incarnation, runtimes, last_seen } => {
            if let Some(incarnation) = incarnation {
                daemon.must_be_live(incarnation)?;
            }
            Ok(came_back(daemon, &runtimes, last_seen))
        }
        DaemonCommand::DeclareDead { reason, last_seen } => Ok(declare_dead(daemon, reason, last_seen)),
        DaemonCommand::StartDrain { incarnation } => {
            daemon.must_be_live(incarnation)?;
            let event = DaemonEvent::DrainStarted(Drain { incarnation });
            Ok(if daemon.draining { Vec::new() } else { vec![event] })
        }
        DaemonCommand::EndDrain { incarnation } => {
            daemon.must_be_live(incarnation)?;
            let event = DaemonEvent::DrainEnded(Drain { incarnation });
            Ok(if daemon.draining { vec![event] } else { Vec::new() })
        }
        DaemonCommand::Deregister { incarnation } => {
            let incarnation = incarnation.unwrap_or(daemon.facts.incarnation);
            daemon.must_be_live(incarnation)?;
            if daemon.signed_off {
                return Ok(Vec::new());
            }
            let mut events = went_offline(daemon, &[], None);
            if daemon.draining {
                events.push(DaemonEvent::DrainEnded(Drain { incarnation }));
            }
            events.push(DaemonEvent::Deregistered(Drain { incarnation }));
            Ok(events)
        }
        DaemonCommand::RequestProbe { order, path } => request_probe(daemon, order, path),
        DaemonCommand::RecordProbe { order, result } => record_probe(daemon, order, result),
    }
}

fn register(daemon: Option<&Daemon>, said: Registration) -> Decision {
    if said.daemon.trim().is_empty() || said.daemon.len() > 256 || said.daemon.contains('\0') {
        return Err(Refusal::invalid(
            "bad_daemon_id",
            "a daemon's id is a text of 1 to 256 bytes",
            "Start the daemon with another `--daemon-id`.",
        ));
    }
    let owner = daemon.map(|known| known.facts.owner);
    may_speak(owner, said.member, said.role)?;
    let facts = Registered {
        daemon: said.daemon.clone(),
        machine: said.machine,
        incarnation: said.incarnation,
        device_name: said.device_name.clone(),
        cli_version: said.cli_version.clone(),
        os: said.os.clone(),
        owner: owner.unwrap_or(said.member),
    };
    let mut events = Vec::new();
    if let Some(known) = daemon.filter(|known| known.superseded.contains(&said.incarnation)) {
        known.must_be_live(said.incarnation)?;
    }
    if daemon.is_none_or(|known| known.facts != facts || known.signed_off) {
        events.push(DaemonEvent::Registered(facts));
    }
    events.extend(runtimes(daemon, &said));
    let mut capabilities = said.capabilities;
    capabilities.sort_unstable();
    capabilities.dedup();
    let as_before =
        daemon.map_or(capabilities.is_empty(), |known| known.capabilities.iter().eq(&capabilities));
    if !as_before {
        events.push(DaemonEvent::CapabilitiesDeclared(CapabilitiesDeclared { capabilities }));
    }
    Ok(events)
}

/// What changed among the runtimes: new or other ones, those that are back, those that are gone.
fn runtimes(daemon: Option<&Daemon>, said: &Registration) -> Vec<DaemonEvent> {
    let mut events = Vec::new();
    let mut found = Vec::new();
    for runtime in &said.runtimes {
        let id = runtime_id(said.workspace, &said.daemon, &runtime.provider);
        if found.contains(&id) {
            continue;
        }
        found.push(id);
        let known = daemon.and_then(|daemon| daemon.runtimes.get(&id));
        if known.is_none_or(|known| known.version != runtime.version || known.name != runtime.name) {
            events.push(DaemonEvent::RuntimeRegistered(RuntimeRegistered {
                runtime: id,
                provider: runtime.provider.clone(),
                version: runtime.version.clone(),
                name: runtime.name.clone(),
            }));
        } else if known.is_some_and(|known| !known.online) {
            events.push(DaemonEvent::RuntimeCameBack(RuntimePresence {
                runtime: id,
                last_seen: None,
                withdrawn: false,
            }));
        }
    }
    let known = daemon.map(|daemon| &daemon.runtimes).into_iter().flatten();
    for (id, _) in known.filter(|(id, runtime)| !runtime.withdrawn && !found.contains(id)) {
        let gone = RuntimePresence { runtime: *id, last_seen: None, withdrawn: true };
        events.push(DaemonEvent::RuntimeWentOffline(gone));
    }
    events
}

fn went_offline(daemon: &Daemon, only: &[RuntimeId], last_seen: Option<Timestamp>) -> Vec<DaemonEvent> {
    of_presence(daemon, only, true)
        .map(|runtime| {
            DaemonEvent::RuntimeWentOffline(RuntimePresence { runtime, last_seen, withdrawn: false })
        })
        .collect()
}

fn came_back(daemon: &Daemon, only: &[RuntimeId], last_seen: Option<Timestamp>) -> Vec<DaemonEvent> {
    of_presence(daemon, only, false)
        .map(|runtime| DaemonEvent::RuntimeCameBack(RuntimePresence { runtime, last_seen, withdrawn: false }))
        .collect()
}

fn of_presence<'a>(
    daemon: &'a Daemon,
    only: &'a [RuntimeId],
    online: bool,
) -> impl Iterator<Item = RuntimeId> + 'a {
    let wanted = move |id: &RuntimeId| only.is_empty() || only.contains(id);
    let there = daemon.runtimes.iter().filter(move |(id, r)| r.online == online && wanted(id));
    there.filter(|(_, runtime)| !runtime.withdrawn).map(|(id, _)| *id)
}

fn declare_dead(daemon: &Daemon, reason: String, last_seen: Option<Timestamp>) -> Vec<DaemonEvent> {
    if daemon.dead {
        return Vec::new();
    }
    let mut events = went_offline(daemon, &[], last_seen);
    events.push(DaemonEvent::DeclaredDead(DeclaredDead { reason, last_seen }));
    events
}

fn request_probe(daemon: &Daemon, order: OrderId, path: String) -> Decision {
    if let Some(probe) = daemon.probes.get(&order) {
        if probe.path == path {
            return Ok(Vec::new());
        }
        return Err(Refusal::conflict("order_id_taken", "another order has this id", "Ask again."));
    }
    if !daemon.online() {
        return Err(Refusal::conflict(
            "daemon_offline",
            format!("the daemon on {} isn't online", daemon.facts.device_name),
            "Start it (`multica daemon start`), or attach the directory unverified.",
        ));
    }
    Ok(vec![DaemonEvent::DirectoryProbeRequested(DirectoryProbeRequested { order, path })])
}

fn record_probe(daemon: &Daemon, order: OrderId, result: ProbeOutcome) -> Decision {
    match daemon.probes.get(&order) {
        None => Err(Refusal::not_found("order")),
        Some(probe) if probe.result.is_some() => Ok(Vec::new()),
        Some(_) => Ok(vec![DaemonEvent::DirectoryProbed(DirectoryProbed { order, result })]),
    }
}
