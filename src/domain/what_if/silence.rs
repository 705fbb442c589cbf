//! Which machines are silent, and since when; which one was given up last, and by whom.

use std::collections::HashMap;

use jiff::Timestamp;
use uuid::Uuid;

use super::waits::Doing;
use crate::domain::daemon::DaemonEvent;
use crate::domain::{Envelope, Via};
use crate::kernel::ids::CommandId;

/// Why a machine is given up when nobody but the clock did it.
const BY_THE_GRACE: &str = "reconnect_grace_over";

#[derive(Default)]
pub(super) struct Silences {
    /// By stream: events after the first don't repeat the name.
    names: HashMap<Uuid, String>,
    since: HashMap<String, Timestamp>,
    /// The command that gave a machine up last: what its tasks go through follows in the same one.
    given_up: Option<(CommandId, Doing)>,
}

impl Silences {
    /// Takes an event of a daemon's stream; its name when it is back from a silence.
    pub(super) fn take(&mut self, event: &Envelope, happened: &DaemonEvent, at: Timestamp) -> Option<String> {
        let stream: Uuid = event.stream.id;
        match happened {
            DaemonEvent::DeclaredDead(e) => {
                let by_the_grace = e.reason == BY_THE_GRACE;
                let doing = if by_the_grace { Doing::GraceOver } else { Doing::Somebody };
                self.given_up = Some((event.command_id, doing));
                None
            }
            DaemonEvent::Registered(e) => {
                self.names.insert(stream, e.daemon.clone());
                self.since.contains_key(&e.daemon).then(|| e.daemon.clone())
            }
            DaemonEvent::RuntimeWentOffline(e) if !e.withdrawn => {
                let name = self.names.get(&stream)?.clone();
                self.since.entry(name).or_insert(e.last_seen.unwrap_or(at));
                None
            }
            DaemonEvent::RuntimeCameBack(_) => {
                let name = self.names.get(&stream)?;
                self.since.contains_key(name).then(|| name.clone())
            }
            _ => None,
        }
    }

    /// Whose doing an event of a task is.
    pub(super) fn doing(&self, event: &Envelope) -> Doing {
        match self.given_up {
            Some((command, doing)) if command == event.command_id => doing,
            _ if event.actor.via == Via::Policy => Doing::Timer,
            _ => Doing::Somebody,
        }
    }

    /// The last heartbeat of a daemon that is silent.
    pub(super) fn since(&self, daemon: &str) -> Option<Timestamp> {
        self.since.get(daemon).copied()
    }

    /// It is heard again.
    pub(super) fn over(&mut self, daemon: &str) {
        self.since.remove(daemon);
    }
}
