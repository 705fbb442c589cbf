//! Which machines are silent, and since when.

use std::collections::HashMap;

use jiff::Timestamp;
use uuid::Uuid;

use crate::domain::daemon::DaemonEvent;

#[derive(Default)]
pub(super) struct Silences {
    /// By stream: events after the first don't repeat the name.
    names: HashMap<Uuid, String>,
    since: HashMap<String, Timestamp>,
}

impl Silences {
    /// Takes an event of a daemon's stream; its name when it is back from a silence.
    pub(super) fn take(&mut self, stream: Uuid, happened: &DaemonEvent, at: Timestamp) -> Option<String> {
        match happened {
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

    /// The last heartbeat of a daemon that is silent.
    pub(super) fn since(&self, daemon: &str) -> Option<Timestamp> {
        self.since.get(daemon).copied()
    }

    /// It is heard again.
    pub(super) fn over(&mut self, daemon: &str) {
        self.since.remove(daemon);
    }
}
