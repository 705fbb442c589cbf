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
        self.reserve(written.iter().flat_map(changes))?;
        seen.extend(written.iter().map(|event| event.stream));
        self.note_seen(&seen);
        let entry = self.take_in(submission, decided, written, rows);
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

    /// Takes the changes to reservations in; none of them where one can't be.
    fn reserve(&mut self, changes: impl Iterator<Item = Change>) -> Result<(), Left> {
        let mut reserving = Reserving {
            held: &mut self.held,
            frees: &mut self.batch.frees,
            takes: &mut self.batch.takes,
            done: Vec::new(),
        };
        for change in changes {
            if let Err(left) = reserving.apply(change) {
                reserving.take_back();
                return Err(left);
            }
        }
        for done in reserving.done {
            if let Done::Held { key, .. } = done {
                self.view.set_reservation(&key, self.held.get(&key).map(|held| held.holder));
            }
        }
        Ok(())
    }

    fn take_in(
        &mut self,
        submission: &Submission,
        decided: Decided,
        written: Vec<Envelope>,
        rows: Vec<RawEvent>,
    ) -> Entry {
        let count = written.len();
        for event in &written {
            self.view.push_event(event.clone());
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

/// Reservations while a command's changes are put in.
struct Reserving<'a> {
    held: &'a mut BTreeMap<String, Held>,
    frees: &'a mut Vec<(&'static str, Uuid)>,
    takes: &'a mut Vec<Take>,
    done: Vec<Done>,
}

/// A step that can be taken back.
enum Done {
    /// The key had another holder, or none.
    Held {
        key: String,
        before: Option<Held>,
    },
    /// Another free, and another take, at the end.
    Freed,
    Took,
    /// That take isn't kept any more.
    LetGo {
        take: usize,
    },
}

impl Reserving<'_> {
    fn apply(&mut self, change: Change) -> Result<(), Left> {
        match change {
            Change::Take { key, class, holder } => {
                match self.held.get(&key) {
                    Some(held) if held.holder != holder => return Err(Left::Lost),
                    Some(_) => return Ok(()),
                    None => {}
                }
                self.held.insert(key.clone(), Held { class: class.name().to_owned(), holder });
                self.done.push(Done::Held { key: key.clone(), before: None });
                self.takes.push(Take {
                    key,
                    class: class.name(),
                    holder,
                    after_frees: i32::try_from(self.frees.len()).unwrap_or(i32::MAX),
                    keep: true,
                });
                self.done.push(Done::Took);
            }
            Change::Free { class, holder } => {
                let class = class.name();
                let own = |held: &Held| held.class == class && held.holder == holder;
                let freed: Vec<String> =
                    self.held.iter().filter(|(_, held)| own(held)).map(|(key, _)| key.clone()).collect();
                for key in freed {
                    let before = self.held.remove(&key);
                    self.done.push(Done::Held { key, before });
                }
                for (take, one) in self.takes.iter_mut().enumerate() {
                    if one.keep && one.class == class && one.holder == holder {
                        one.keep = false;
                        self.done.push(Done::LetGo { take });
                    }
                }
                self.frees.push((class, holder));
                self.done.push(Done::Freed);
            }
        }
        Ok(())
    }

    fn take_back(&mut self) {
        while let Some(done) = self.done.pop() {
            match done {
                Done::Held { key, before: Some(held) } => drop(self.held.insert(key, held)),
                Done::Held { key, before: None } => drop(self.held.remove(&key)),
                Done::Freed => drop(self.frees.pop()),
                Done::Took => drop(self.takes.pop()),
                Done::LetGo { take } => {
                    if let Some(take) = self.takes.get_mut(take) {
                        take.keep = true;
                    }
                }
            }
        }
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

    fn draft(loaded: &[(&str, Uuid)]) -> Draft {
        let held = loaded.iter().map(|(key, holder)| ((*key).to_owned(), held(*holder))).collect();
        Draft { held, ..Draft::default() }
    }

    fn reserve<const N: usize>(draft: &mut Draft, changes: [Change; N]) -> Result<(), Left> {
        draft.reserve(changes.into_iter())
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
        let mut early = draft(&[("k/1", A)]);
        assert!(matches!(reserve(&mut early, [take("k/1", B)]), Err(Left::Lost)));
        let mut late = draft(&[("k/1", A)]);
        reserve(&mut late, [free(A), take("k/1", B)]).unwrap();
        assert_eq!(late.held["k/1"], held(B));
        assert_eq!((late.batch.takes[0].after_frees, late.batch.takes[0].keep), (1, true));
    }

    #[test]
    fn what_is_taken_and_freed_in_one_batch_is_checked_but_not_kept() {
        let mut both = draft(&[]);
        for change in [take("k/1", A), free(A), take("k/1", B)] {
            reserve(&mut both, [change]).unwrap();
        }
        let kept: Vec<(Uuid, bool)> = both.batch.takes.iter().map(|take| (take.holder, take.keep)).collect();
        assert_eq!(kept, [(A, false), (B, true)]);
    }

    #[test]
    fn a_command_that_loses_one_key_leaves_all_reservations_as_they_were() {
        let mut lost = draft(&[("k/1", A), ("k/9", Uuid::max())]);
        reserve(&mut lost, [take("k/2", B)]).unwrap();
        let before = (lost.held.clone(), lost.batch.frees.clone(), lost.batch.takes.clone());
        let changes = [free(A), take("k/1", B), free(B), take("k/3", A), take("k/2", A), take("k/9", A)];
        assert!(matches!(reserve(&mut lost, changes), Err(Left::Lost)));
        assert_eq!((lost.held, lost.batch.frees, lost.batch.takes), before);
    }

    #[test]
    fn event_ids_of_one_command_differ_and_keep_the_seeds_time() {
        let seed = EventId(Uuid::parse_str("018f0000-0000-7000-bfff-ffffffffffff").unwrap());
        let second = event_id(seed, 1);
        assert_eq!(event_id(seed, 0), seed);
        assert_eq!(second.0.to_string(), "018f0000-0000-7000-8000-000000000000");
    }
}
