//! Decides a batch: turns commands into the one append that writes them.
//!
//! Invariants: a command's effects enter the draft whole or not at all; the version checked for a
//! stream is the one that was loaded, before the batch; reservations are netted in batch order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::super::decision::{Decided, Halt, Need, Submission, View};
use super::AppError;
use super::check::{EventCheck, EventRefusal};
use crate::domain::codec::CodecError;
use crate::domain::{Envelope, Refusal, StreamKey, codec};
use crate::fold::reservations::{Change, changes};
use crate::kernel::ids::EventId;
use crate::store::append::{Batch, CommandRow, Take};
use crate::store::raw::RawEvent;
use crate::store::reservations::Held;

/// What a command came to in the draft.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// It wrote events, up to that ordinal.
    Wrote {
        /// Its answer.
        result: Value,
        /// The ordinal of its last event.
        last: i32,
        /// How many.
        events: u32,
    },
    /// It wrote nothing, for nothing had to happen.
    Nothing {
        /// Its answer.
        result: Value,
    },
    /// A rule refused it.
    Refused(Refusal),
}

/// Why a command isn't in the draft.
#[derive(Debug)]
pub enum Left {
    /// It needs facts that aren't loaded; then it may be tried again.
    Needs(Need),
    /// It wants a key that another one holds: it lost a race.
    Lost,
    /// It can't be carried out.
    Failed(AppError),
}

/// A batch that is being decided.
#[derive(Default)]
pub struct Draft {
    /// What decisions see.
    pub view: View,
    /// What will be written, but for the inline read models.
    pub batch: Batch,
    /// The batch's events, on their way.
    pub events: Vec<Envelope>,
    /// Every stream that the batch has seen.
    pub seen: BTreeMap<StreamKey, i32>,
    /// The committed version of each loaded stream.
    versions: BTreeMap<StreamKey, i32>,
    held: BTreeMap<String, Held>,
}

impl Draft {
    /// Puts a loaded stream in.
    pub fn put_stream(&mut self, key: StreamKey, events: Arc<Vec<Envelope>>) {
        self.versions.insert(key, events.last().map_or(0, |last| last.version));
        self.view.put_stream(key, events);
    }

    /// Puts loaded reservations in, with what the batch has decided about them so far.
    pub fn put_reservations(&mut self, prefix: String, held: BTreeMap<String, Held>) {
        let mut held = held;
        let frees = &self.batch.frees;
        held.retain(|_, held| {
            !frees.iter().any(|(class, holder)| *class == held.class && *holder == held.holder)
        });
        for take in self.batch.takes.iter().filter(|take| take.keep && take.key.starts_with(&prefix)) {
            let own = Held { class: take.class.to_owned(), holder: take.holder };
            held.insert(take.key.clone(), own);
        }
        let holders = held.iter().map(|(key, held)| (key.clone(), held.holder)).collect();
        self.view.put_reservations(prefix, holders);
        self.held.extend(held);
    }

    /// What a command needs before it can be decided, without deciding it.
    pub fn need(&self, submission: &Submission) -> Option<Need> {
        let outcome = submission.decision.decide(&self.view);
        drop(self.view.take_seen());
        match outcome {
            Err(Halt::Need(need)) => Some(need),
            Ok(decided) => self.unloaded(&decided),
            Err(_) => None,
        }
    }

    /// Decides a command and takes its effects in.
    ///
    /// # Errors
    /// [`Left`]; the draft is then as before.
    pub fn decide(
        &mut self,
        submission: &Submission,
        check: &dyn EventCheck,
        event_bytes: usize,
        meta: &str,
    ) -> Result<(Entry, BTreeSet<StreamKey>), Left> {
        let outcome = submission.decision.decide(&self.view);
        let mut seen = self.view.take_seen();
        let decided = match outcome {
            Ok(decided) => decided,
            Err(Halt::Need(need)) => return Err(Left::Needs(need)),
            Err(Halt::Corrupt(what)) => return Err(Left::Failed(AppError::Corrupt { what })),
            Err(Halt::Refused(refusal)) => {
                let result = refused(submission, &refusal, &seen);
                self.batch.commands.push(command(submission, true, 0, 0, result));
                self.note_seen(&seen);
                return Ok((Entry::Refused(refusal), seen));
            }
        };
        if let Some(need) = self.unloaded(&decided) {
            return Err(Left::Needs(need));
        }
        if decided.events.is_empty() {
            self.note_seen(&seen);
            return Ok((Entry::Nothing { result: decided.result }, seen));
        }
        let written = self.envelopes(submission, &decided)?;
        let rows = encode(&written, check, event_bytes, meta)?;
        let reserved = self.reserve(&written)?;
        seen.extend(written.iter().map(|event| event.stream));
        self.note_seen(&seen);
        let entry = self.take_in(submission, decided, written, rows, reserved);
        Ok((entry, seen))
    }

    fn unloaded(&self, decided: &Decided) -> Option<Need> {
        let missing = decided.events.iter().find(|event| !self.view.holds(event.stream))?;
        Some(Need::Stream(missing.stream))
    }

    fn envelopes(&self, submission: &Submission, decided: &Decided) -> Result<Vec<Envelope>, Left> {
        let mut next: BTreeMap<StreamKey, i32> = BTreeMap::new();
        let mut written = Vec::with_capacity(decided.events.len());
        for (ordinal, new) in (0_u64..).zip(&decided.events) {
            let version = match next.get(&new.stream) {
                Some(version) => version + 1,
                None => {
                    1 + self.view.version(new.stream).map_err(|halt| match halt {
                        Halt::Corrupt(what) => Left::Failed(AppError::Corrupt { what }),
                        Halt::Need(_) | Halt::Refused(_) => Left::Needs(Need::Stream(new.stream)),
                    })?
                }
            };
            next.insert(new.stream, version);
            written.push(Envelope {
                position: None,
                workspace: submission.workspace,
                stream: new.stream,
                version,
                event_id: event_id(submission.event_seed, ordinal),
                command_id: submission.command_id,
                correlation: submission.correlation,
                causation: submission.causation,
                actor: new
                    .doer
                    .map_or_else(|| submission.actor.clone(), |doer| doer.actor(&submission.actor)),
                occurred_at: whole_micros(submission.occurred_at),
                recorded_at: None,
                event: new.event.clone(),
            });
        }
        drop(self.view.take_seen());
        Ok(written)
    }

    /// The reservations as they would be, with the frees and takes to send; none where nothing changes.
    fn reserve(&self, written: &[Envelope]) -> Result<Option<Reserved>, Left> {
        let changes: Vec<Change> = written.iter().flat_map(changes).collect();
        if changes.is_empty() {
            return Ok(None);
        }
        let mut reserved = Reserved {
            held: self.held.clone(),
            frees: self.batch.frees.clone(),
            takes: self.batch.takes.clone(),
            moved: Vec::new(),
        };
        for change in changes {
            reserved.apply(change)?;
        }
        Ok(Some(reserved))
    }

    fn take_in(
        &mut self,
        submission: &Submission,
        decided: Decided,
        written: Vec<Envelope>,
        rows: Vec<RawEvent>,
        reserved: Option<Reserved>,
    ) -> Entry {
        let count = written.len();
        for event in &written {
            self.view.push_event(event.clone());
        }
        if let Some(reserved) = reserved {
            for (key, holder) in reserved.moved {
                self.view.set_reservation(&key, holder);
            }
            self.held = reserved.held;
            self.batch.frees = reserved.frees;
            self.batch.takes = reserved.takes;
        }
        self.events.extend(written);
        self.batch.events.extend(rows);
        let workspace = submission.workspace;
        self.batch.contents.extend(decided.contents.into_iter().map(|content| (workspace, content)));
        let last = i32::try_from(self.events.len()).unwrap_or(i32::MAX);
        let events = u32::try_from(count).unwrap_or(u32::MAX);
        let row = command(submission, false, last, events.cast_signed(), decided.result.clone());
        self.batch.commands.push(row);
        Entry::Wrote { result: decided.result, last, events }
    }

    fn note_seen(&mut self, seen: &BTreeSet<StreamKey>) {
        for key in seen {
            let version = self.versions.get(key).copied().unwrap_or(0);
            self.seen.insert(*key, version);
        }
    }
}

struct Reserved {
    held: BTreeMap<String, Held>,
    frees: Vec<(&'static str, Uuid)>,
    takes: Vec<Take>,
    moved: Vec<(String, Option<Uuid>)>,
}

impl Reserved {
    fn apply(&mut self, change: Change) -> Result<(), Left> {
        match change {
            Change::Take { key, class, holder } => {
                match self.held.get(&key) {
                    Some(held) if held.holder != holder => return Err(Left::Lost),
                    Some(_) => return Ok(()),
                    None => {}
                }
                self.held.insert(key.clone(), Held { class: class.name().to_owned(), holder });
                self.moved.push((key.clone(), Some(holder)));
                self.takes.push(Take {
                    key,
                    class: class.name(),
                    holder,
                    after_frees: i32::try_from(self.frees.len()).unwrap_or(i32::MAX),
                    keep: true,
                });
            }
            Change::Free { class, holder } => {
                let class = class.name();
                let freed: Vec<String> = self
                    .held
                    .iter()
                    .filter(|(_, held)| held.class == class && held.holder == holder)
                    .map(|(key, _)| key.clone())
                    .collect();
                for key in freed {
                    self.held.remove(&key);
                    self.moved.push((key, None));
                }
                for take in &mut self.takes {
                    if take.class == class && take.holder == holder {
                        take.keep = false;
                    }
                }
                self.frees.push((class, holder));
            }
        }
        Ok(())
    }
}

fn encode(
    written: &[Envelope],
    check: &dyn EventCheck,
    event_bytes: usize,
    meta: &str,
) -> Result<Vec<RawEvent>, Left> {
    let failed = |refusal: EventRefusal| Left::Failed(refusal.into());
    written
        .iter()
        .map(|envelope| {
            let family = envelope.event.family();
            let encoded = codec::encode(&envelope.event).map_err(|error| match error {
                CodecError::Unknown { event_type, schema_version: version } => {
                    failed(EventRefusal::NoSchema { event_type, version })
                }
                CodecError::Shape { event_type, .. } => failed(EventRefusal::Encoding { event_type }),
            })?;
            if family != envelope.stream.family {
                let (event_type, family) = (encoded.event_type, envelope.stream.family.name());
                return Err(failed(EventRefusal::Family { event_type, family }));
            }
            if encoded.data.len() > event_bytes {
                let (event_type, bytes) = (encoded.event_type, encoded.data.len());
                return Err(failed(EventRefusal::TooLarge { event_type, bytes, limit: event_bytes }));
            }
            check.check(&encoded).map_err(failed)?;
            Ok(RawEvent::new(envelope, encoded, meta))
        })
        .collect()
}

/// A refusal as it is stored: with the intent and the streams that were looked at, by which the audit trail
/// finds it.
fn refused(submission: &Submission, refusal: &Refusal, seen: &BTreeSet<StreamKey>) -> Value {
    let mut result = serde_json::to_value(refusal).unwrap_or_default();
    let about: Vec<String> = seen.iter().map(|key| format!("{}/{}", key.family.name(), key.id)).collect();
    if let Some(members) = result.as_object_mut() {
        members.insert("about".to_owned(), about.into());
        members.insert("correlation".to_owned(), submission.correlation.0.to_string().into());
    }
    result
}

fn command(submission: &Submission, refused: bool, last: i32, events: i32, result: Value) -> CommandRow {
    CommandRow {
        id: submission.command_id,
        workspace: submission.workspace,
        kind: submission.kind,
        fingerprint: submission.fingerprint,
        refused,
        last_ordinal: last,
        events,
        result,
        actor: submission.actor.clone(),
    }
}

/// The seed's time with its random tail counted on.
fn event_id(seed: EventId, ordinal: u64) -> EventId {
    const TAIL: u64 = (1 << 62) - 1;
    let (high, low) = seed.0.as_u64_pair();
    EventId(Uuid::from_u64_pair(high, (low & !TAIL) | (low.wrapping_add(ordinal) & TAIL)))
}

/// The database keeps microseconds: what is hashed must be what is read back.
fn whole_micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);

    fn held(holder: Uuid) -> Held {
        Held { class: "slot".to_owned(), holder }
    }

    fn take(key: &str, holder: Uuid) -> Change {
        Change::Take { key: key.to_owned(), class: crate::fold::reservations::Class::Slot, holder }
    }

    fn free(holder: Uuid) -> Change {
        Change::Free { class: crate::fold::reservations::Class::Slot, holder }
    }

    fn reserved(loaded: &[(&str, Uuid)]) -> Reserved {
        let held = loaded.iter().map(|(key, holder)| ((*key).to_owned(), held(*holder))).collect();
        Reserved { held, frees: Vec::new(), takes: Vec::new(), moved: Vec::new() }
    }

    #[test]
    fn reservations_loaded_late_show_what_the_batch_has_decided() {
        let mut draft = Draft::default();
        draft.batch.frees = vec![("slot", A)];
        draft.batch.takes =
            vec![Take { key: "k/2".to_owned(), class: "slot", holder: B, after_frees: 1, keep: true }];
        let loaded = BTreeMap::from([("k/1".to_owned(), held(A)), ("k/3".to_owned(), held(B))]);
        draft.put_reservations("k/".to_owned(), loaded);
        let seen = draft.view.reservations("k/").unwrap();
        let expected = BTreeMap::from([("k/2".to_owned(), B), ("k/3".to_owned(), B)]);
        assert_eq!(*seen, expected);
    }

    #[test]
    fn a_key_goes_to_the_next_only_after_its_holder_has_freed_it() {
        let mut early = reserved(&[("k/1", A)]);
        assert!(matches!(early.apply(take("k/1", B)), Err(Left::Lost)));
        let mut late = reserved(&[("k/1", A)]);
        late.apply(free(A)).unwrap();
        late.apply(take("k/1", B)).unwrap();
        assert_eq!(late.held["k/1"], held(B));
        assert_eq!((late.takes[0].after_frees, late.takes[0].keep), (1, true));
    }

    #[test]
    fn what_is_taken_and_freed_in_one_batch_is_checked_but_not_kept() {
        let mut both = reserved(&[]);
        both.apply(take("k/1", A)).unwrap();
        both.apply(free(A)).unwrap();
        both.apply(take("k/1", B)).unwrap();
        let kept: Vec<(Uuid, bool)> = both.takes.iter().map(|take| (take.holder, take.keep)).collect();
        assert_eq!(kept, [(A, false), (B, true)]);
    }

    #[test]
    fn event_ids_of_one_command_differ_and_keep_the_seeds_time() {
        let seed = EventId(Uuid::parse_str("018f0000-0000-7000-bfff-ffffffffffff").unwrap());
        let second = event_id(seed, 1);
        assert_eq!(event_id(seed, 0), seed);
        assert_eq!(second.0.to_string(), "018f0000-0000-7000-8000-000000000000");
    }
}
