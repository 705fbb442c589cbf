//! Folds a daemon's events.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{DaemonEvent, Registered};
use super::state::{Daemon, Probe, Runtime};
use crate::domain::folding::fold_stream;
use crate::domain::{Envelope, Event, Family, Impossible, StreamKey};
use crate::kernel::ids::StreamId;

/// The stream of a daemon; its id comes from [`StreamId::of_daemon`].
#[must_use]
pub fn stream(id: StreamId) -> StreamKey {
    StreamKey::new(Family::Daemon, id)
}

/// Folds a whole stream; none when it is empty.
///
/// # Errors
/// [`Impossible`] when an event can't follow what came before.
pub fn fold(events: &[Envelope]) -> Result<Option<Daemon>, Impossible> {
    fold_stream(
        events,
        |event| match event {
            Event::Daemon(event) => Some(event),
            _ => None,
        },
        |state, event, envelope| evolve(StreamId(envelope.stream.id), state, event),
    )
}

/// Applies one event; none when it can't follow.
#[must_use]
pub fn evolve(id: StreamId, daemon: Option<Daemon>, event: &DaemonEvent) -> Option<Daemon> {
    let Some(mut daemon) = daemon else {
        let DaemonEvent::Registered(facts) = event else { return None };
        return Some(fresh(id, facts));
    };
    match event {
        DaemonEvent::Registered(facts) => {
            if facts.incarnation != daemon.facts.incarnation {
                daemon.superseded.insert(daemon.facts.incarnation);
                daemon.draining = false;
            }
            daemon.facts = facts.clone();
            daemon.dead = false;
            daemon.signed_off = false;
        }
        DaemonEvent::RuntimeRegistered(e) => {
            let runtime = Runtime {
                provider: e.provider.clone(),
                version: e.version.clone(),
                name: e.name.clone(),
                online: true,
                withdrawn: false,
            };
            daemon.runtimes.insert(e.runtime, runtime);
        }
        DaemonEvent::CapabilitiesDeclared(e) => {
            daemon.capabilities = e.capabilities.iter().cloned().collect();
        }
        DaemonEvent::RuntimeWentOffline(e) => {
            let runtime = daemon.runtimes.get_mut(&e.runtime)?;
            (runtime.online, runtime.withdrawn) = (false, e.withdrawn);
        }
        DaemonEvent::RuntimeCameBack(e) => {
            let runtime = daemon.runtimes.get_mut(&e.runtime)?;
            (runtime.online, runtime.withdrawn) = (true, false);
            daemon.dead = false;
        }
        DaemonEvent::DeclaredDead(_) => daemon.dead = true,
        DaemonEvent::DrainStarted(_) => daemon.draining = true,
        DaemonEvent::DrainEnded(_) => daemon.draining = false,
        DaemonEvent::Deregistered(_) => {
            daemon.signed_off = true;
            daemon.draining = false;
        }
        DaemonEvent::DirectoryProbeRequested(e) => {
            daemon.probes.insert(e.order, Probe { path: e.path.clone(), result: None });
        }
        DaemonEvent::DirectoryProbed(e) => daemon.probes.get_mut(&e.order)?.result = Some(e.result.clone()),
    }
    Some(daemon)
}

fn fresh(id: StreamId, facts: &Registered) -> Daemon {
    Daemon {
        id,
        facts: facts.clone(),
        superseded: BTreeSet::new(),
        capabilities: BTreeSet::new(),
        runtimes: BTreeMap::new(),
        draining: false,
        dead: false,
        signed_off: false,
        probes: BTreeMap::new(),
    }
}
