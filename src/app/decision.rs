//! How a use case decides: a pure function over streams that it asks for by name.
//!
//! A [`Decision`] is run by the writer with a [`View`]. It asks the view for states; what isn't loaded
//! yet comes back as [`Halt::Need`], which `?` passes up; the writer loads it and runs the decision
//! again from its start. So a decision may discover streams as it goes, and must be repeatable: pure,
//! no clock, no randomness (ids and times were put in when it was built).
//!
//! Invariants: every stream a decision has seen is version-checked by the append, also when the
//! decision refused; every reservation it saw free is taken by key, so a lost race is a conflict and
//! the decision runs again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::domain::{Actor, ActorKind, Envelope, Event, NewContent, Refusal, StreamKey};
use crate::kernel::ids::{AgentId, CommandId, CorrelationId, EventId, WorkspaceId};
use jiff::Timestamp;

/// Numbers loaded at once: more than most batches draw.
const NUMBERS_AHEAD: u32 = 64;

/// Why a decision stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// It needs facts that aren't loaded.
    Need(Need),
    /// A rule says no.
    Refused(Refusal),
    /// A stream can't be folded: the log is corrupt there, or a newer build wrote it.
    Corrupt(String),
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A fact to load.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Need {
    /// A stream, whole.
    Stream(StreamKey),
    /// Every reservation whose key begins so.
    Reservations(String),
    /// The reservations of exactly these keys: several that may be asked for one by one.
    Keys(Vec<String>),
}

/// What the writer has loaded for a decision: streams as their envelopes, reservations by prefix.
#[derive(Debug, Default)]
pub struct View {
    streams: BTreeMap<StreamKey, Arc<Vec<Envelope>>>,
    unreadable: BTreeMap<StreamKey, String>,
    reservations: BTreeMap<String, BTreeMap<String, Uuid>>,
    seen: std::cell::RefCell<BTreeSet<StreamKey>>,
}

impl View {
    /// Puts a loaded stream in, replacing what was there.
    pub fn put_stream(&mut self, key: StreamKey, events: impl Into<Arc<Vec<Envelope>>>) {
        self.streams.insert(key, events.into());
    }

    /// Notes that a stream can't be read, and why: who needs it fails, and nobody else.
    pub fn put_unreadable(&mut self, key: StreamKey, why: String) {
        self.unreadable.insert(key, why);
    }

    /// Tells whether a stream is loaded, or can't be; asking doesn't count as looking at it.
    #[must_use]
    pub fn holds(&self, key: StreamKey) -> bool {
        self.streams.contains_key(&key) || self.unreadable.contains_key(&key)
    }

    /// Takes every loaded stream out, with what the batch has decided.
    #[must_use]
    pub fn take_streams(&mut self) -> BTreeMap<StreamKey, Arc<Vec<Envelope>>> {
        std::mem::take(&mut self.streams)
    }

    /// Appends an event that the same batch has decided before.
    pub fn push_event(&mut self, envelope: Envelope) {
        if let Some(events) = self.streams.get_mut(&envelope.stream) {
            Arc::make_mut(events).push(envelope);
        }
    }

    /// Puts loaded reservations in: every key with that prefix, and its holder.
    pub fn put_reservations(&mut self, prefix: String, held: BTreeMap<String, Uuid>) {
        self.reservations.insert(prefix, held);
    }

    /// Takes or frees a key in every prefix that covers it (what the same batch has decided before).
    pub fn set_reservation(&mut self, key: &str, holder: Option<Uuid>) {
        for (prefix, held) in &mut self.reservations {
            if key.starts_with(prefix.as_str()) {
                match holder {
                    Some(holder) => held.insert(key.to_owned(), holder),
                    None => held.remove(key),
                };
            }
        }
    }

    /// The stream's events so far; none when it doesn't exist.
    ///
    /// # Errors
    /// [`Halt::Need`] when it isn't loaded, [`Halt::Corrupt`] when it can't be.
    pub fn stream(&self, key: StreamKey) -> Result<&[Envelope], Halt> {
        // Not counted as seen: what can't be read has no version that the append could check.
        if let Some(why) = self.unreadable.get(&key) {
            return Err(Halt::Corrupt(why.clone()));
        }
        self.seen.borrow_mut().insert(key);
        self.streams.get(&key).map(|events| events.as_slice()).ok_or(Halt::Need(Need::Stream(key)))
    }

    /// The stream's version: the number of its events.
    ///
    /// # Errors
    /// [`Halt::Need`] when it isn't loaded.
    pub fn version(&self, key: StreamKey) -> Result<i32, Halt> {
        Ok(self.stream(key)?.last().map_or(0, |last| last.version))
    }

    /// Who holds which key, of all keys that begin with `prefix`.
    ///
    /// # Errors
    /// [`Halt::Need`] when it isn't loaded.
    pub fn reservations(&self, prefix: &str) -> Result<&BTreeMap<String, Uuid>, Halt> {
        self.reservations.get(prefix).ok_or_else(|| Halt::Need(Need::Reservations(prefix.to_owned())))
    }

    /// The first number from `from` on for which `<prefix><number>` is free. Numbers are loaded some at a time: each
    /// command of a batch takes another one.
    ///
    /// # Errors
    /// [`Halt::Need`] when they aren't loaded.
    pub fn next_number(&self, prefix: &str, from: u32) -> Result<u32, Halt> {
        let key = |number: u32| format!("{prefix}{number}");
        let mut number = from;
        loop {
            match self.reservations.get(&key(number)) {
                Some(held) if !held.contains_key(&key(number)) => return Ok(number),
                Some(_) => number = number.saturating_add(1),
                None => {
                    let ahead = number..number.saturating_add(NUMBERS_AHEAD).max(number + 1);
                    return Err(Halt::Need(Need::Keys(ahead.map(key).collect())));
                }
            }
        }
    }

    /// The lowest number below `max` for which `<prefix><number>` is free.
    ///
    /// # Errors
    /// [`Halt::Need`] when the prefix isn't loaded.
    pub fn free_number(&self, prefix: &str, max: u32) -> Result<Option<u32>, Halt> {
        let held = self.reservations(prefix)?;
        Ok((0..max).find(|k| !held.contains_key(&format!("{prefix}{k}"))))
    }

    /// The streams that were looked at since the last call.
    pub fn take_seen(&self) -> BTreeSet<StreamKey> {
        std::mem::take(&mut self.seen.borrow_mut())
    }
}

/// One event that a decision wants written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// Its stream; the version is the next one.
    pub stream: StreamKey,
    /// What happened.
    pub event: Event,
    /// Who did it, where that isn't who sent the command.
    pub doer: Option<Doer>,
}

impl NewEvent {
    /// An event for that stream, by who sent the command.
    pub fn new(stream: StreamKey, event: impl Into<Event>) -> Self {
        Self { stream, event: event.into(), doer: None }
    }
}

/// Somebody other than who sent the command, whose doing an event of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doer {
    /// An agent: its daemon only passes on what it said.
    Agent(AgentId),
    /// The server, by a rule of its own: what follows from what was reported or asked.
    Rule(&'static str),
}

impl Doer {
    /// The actor of the event; it came by the command's way.
    #[must_use]
    pub fn actor(self, sent: &Actor) -> Actor {
        let (kind, id) = match self {
            Self::Agent(agent) => (ActorKind::Agent, agent.to_string()),
            Self::Rule(name) => (ActorKind::System, name.to_owned()),
        };
        Actor { kind, id, via: sent.via }
    }
}

/// What a decision comes to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decided {
    /// The events, in order; none when nothing happened (a repeat).
    pub events: Vec<NewEvent>,
    /// Texts that the events refer to.
    pub contents: Vec<NewContent>,
    /// The answer's facts: ids only, never secrets. The same for every repeat of the command.
    pub result: Value,
}

/// A use case's rule.
pub trait Decision: Send + Sync + 'static {
    /// Decides.
    ///
    /// # Errors
    /// [`Halt`]: facts are missing, or a rule says no.
    fn decide(&self, view: &View) -> Result<Decided, Halt>;
}

/// A command on its way to the writer.
pub struct Submission {
    /// Makes a repeat the same command.
    pub command_id: CommandId,
    /// Fresh ids for the events it may write are derived from this one.
    pub event_seed: EventId,
    /// The use case, `task.cancel`.
    pub kind: &'static str,
    /// Whose.
    pub workspace: WorkspaceId,
    /// First half of SHA-256 over kind, target and canonical body: the same id with another one is refused.
    pub fingerprint: [u8; 16],
    /// Who wants it.
    pub actor: Actor,
    /// The user's intent.
    pub correlation: CorrelationId,
    /// The position of the event that it follows from.
    pub causation: Option<i64>,
    /// The actor's clock.
    pub occurred_at: Timestamp,
    /// The rule.
    pub decision: Box<dyn Decision>,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Committed {
    /// The decision's result, or the stored one of a repeat.
    pub result: Value,
    /// The position of its last event; the head then, when it wrote none.
    pub position: i64,
    /// How many events it wrote.
    pub events: u32,
    /// Whether this answer was given before.
    pub repeated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_number_is_the_first_free_one_and_many_are_asked_for_at_once() {
        let mut view = View::default();
        let asked = view.next_number("number/w/", 7);
        let Err(Halt::Need(Need::Keys(keys))) = asked else { panic!("{asked:?}") };
        assert_eq!((keys.len(), keys[0].as_str()), (64, "number/w/7"));
        for key in keys {
            let taken = key == "number/w/7" || key == "number/w/8";
            let held = taken.then(|| (key.clone(), Uuid::nil()));
            view.put_reservations(key, held.into_iter().collect());
        }
        assert_eq!(view.next_number("number/w/", 7), Ok(9));
        view.set_reservation("number/w/9", Some(Uuid::max()));
        assert_eq!(view.next_number("number/w/", 7), Ok(10));
        for number in 10..71 {
            view.set_reservation(&format!("number/w/{number}"), Some(Uuid::max()));
        }
        let further = view.next_number("number/w/", 7);
        assert!(matches!(further, Err(Halt::Need(Need::Keys(keys))) if keys[0] == "number/w/71"));
    }
}
