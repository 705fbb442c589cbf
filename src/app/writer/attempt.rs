//! One try at a batch: load, decide, fold, append, answer.
//!
//! Invariants: an outage is waited out for a bounded time with the same batch; a command that lost a
//! race is decided again from fresh facts, a bounded number of times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::decision::{Committed, Need};
use super::draft::{Draft, Entry, Left};
use super::{AppError, Desk, Job, inline, job};
use crate::domain::{Envelope, StreamKey};
use crate::kernel::digest::hex;
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::CommandId;
use crate::readmodel::ReadModelError;
use crate::store::append::{Appended, Batch, StoredResult};
use crate::store::{StoreError, read, reservations};

/// What is left to do about a batch.
pub enum Outcome {
    /// What is still in it must go again.
    Done,
    /// Something in it can't be written: try its halves.
    Halve,
}

/// A command that is in the draft.
struct Decided {
    job: Job,
    entry: Entry,
    seen: BTreeSet<StreamKey>,
    keys: BTreeSet<String>,
}

impl Desk {
    /// Tries a batch; answered commands leave it.
    pub async fn attempt(&mut self, jobs: &mut Vec<Job>) -> Outcome {
        let mut draft = Draft::default();
        if let Err(error) = self.load(&mut draft, jobs).await {
            self.put_back(&mut draft, None);
            return fail_all(jobs, &error);
        }
        let (mut decided, mut again) = match self.decide_all(&mut draft, std::mem::take(jobs)).await {
            Ok(both) => both,
            Err((error, mut all)) => {
                self.put_back(&mut draft, None);
                return fail_all(&mut all, &error);
            }
        };
        if let Err(error) = self.answer_repeats(&mut decided).await {
            self.put_back(&mut draft, None);
            jobs.append(&mut again);
            return self.refused(jobs, decided, error.into());
        }
        if let Err(error) = self.fold(&mut draft).await {
            self.put_back(&mut draft, None);
            jobs.append(&mut again);
            return self.refused(jobs, decided, error);
        }
        let answer = self.send(&draft.batch).await;
        let outcome = match answer {
            Ok(appended) => {
                self.settle(&mut draft, appended, &mut decided, &mut again);
                Outcome::Done
            }
            Err(error) => {
                self.put_back(&mut draft, None);
                let outcome = self.refused(jobs, decided, error.into());
                jobs.append(&mut again);
                return outcome;
            }
        };
        jobs.append(&mut again);
        outcome
    }

    /// Loads what the batch's decisions ask for, all of them at once, until none asks.
    async fn load(&mut self, draft: &mut Draft, jobs: &[Job]) -> Result<(), AppError> {
        loop {
            let needs: BTreeSet<Need> =
                jobs.iter().filter_map(|job| draft.need(&job.waiting.submission)).collect();
            if needs.is_empty() {
                return Ok(());
            }
            self.fetch(draft, needs).await?;
        }
    }

    async fn fetch(&mut self, draft: &mut Draft, needs: BTreeSet<Need>) -> Result<(), AppError> {
        let mut keys = Vec::new();
        let mut prefixes = Vec::new();
        let mut exact = BTreeSet::new();
        for need in needs {
            match need {
                Need::Stream(key) => match self.streams.take(key) {
                    Some(events) => draft.put_stream(key, events),
                    None => keys.push(key),
                },
                Need::Reservations(prefix) => prefixes.push(prefix),
                Need::Keys(keys) => exact.extend(keys),
            }
        }
        let deadline = self.deadline();
        if !keys.is_empty() {
            let loaded = loop {
                match read::each(&self.parts.store, &keys).await {
                    Ok(loaded) => break loaded,
                    Err(error) => self.wait_out(error, deadline).await?,
                }
            };
            for (key, events) in loaded {
                match events {
                    Ok(events) => draft.put_stream(key, Arc::new(events)),
                    Err(error) => {
                        let why = format!("{} {}: {}", key.family.name(), key.id, Chain(&error));
                        draft.view.put_unreadable(key, why);
                    }
                }
            }
        }
        if !exact.is_empty() {
            let exact: Vec<String> = exact.into_iter().collect();
            let mut held = loop {
                match reservations::of_keys(&self.parts.store, &exact).await {
                    Ok(held) => break held,
                    Err(error) => self.wait_out(error, deadline).await?,
                }
            };
            for key in exact {
                let own = held.remove_entry(&key).into_iter().collect();
                draft.put_reservations(key, own);
            }
        }
        for prefix in prefixes {
            let held = loop {
                match reservations::with_prefix(&self.parts.store, &prefix).await {
                    Ok(held) => break held,
                    Err(error) => self.wait_out(error, deadline).await?,
                }
            };
            draft.put_reservations(prefix, held);
        }
        Ok(())
    }

    /// Decides in order; what failed is answered, what lost a race goes again.
    async fn decide_all(
        &mut self,
        draft: &mut Draft,
        jobs: Vec<Job>,
    ) -> Result<(Vec<Decided>, Vec<Job>), (AppError, Vec<Job>)> {
        let check = Arc::clone(&self.parts.check);
        let event_bytes = self.parts.store.limits().event_bytes;
        let meta = self.meta.clone();
        let (mut decided, mut again) = (Vec::new(), Vec::new());
        let mut rest = jobs.into_iter();
        while let Some(next) = rest.next() {
            let takes = draft.batch.takes.len();
            let result = loop {
                match draft.decide(&next.waiting.submission, check.as_ref(), event_bytes, &meta) {
                    Err(Left::Needs(need)) => {
                        if let Err(error) = self.fetch(draft, BTreeSet::from([need])).await {
                            let mut all: Vec<Job> = decided.into_iter().map(|d: Decided| d.job).collect();
                            all.push(next);
                            all.extend(rest);
                            all.extend(again);
                            return Err((error, all));
                        }
                    }
                    other => break other,
                }
            };
            match result {
                Ok((entry, seen)) => {
                    let keys = draft.batch.takes.iter().skip(takes).map(|take| take.key.clone()).collect();
                    decided.push(Decided { job: next, entry, seen, keys });
                }
                Err(Left::Failed(error)) => fail(next, &error, &mut again),
                Err(Left::Lost | Left::Needs(_)) => self.lost(next, &mut again),
            }
        }
        draft.batch.seen = draft.seen.iter().map(|(key, version)| (key.id, *version)).collect();
        Ok((decided, again))
    }

    /// Answers what would write nothing now and was carried out before, by another server or before this one
    /// started: the append looks up only what it is to write.
    async fn answer_repeats(&mut self, decided: &mut Vec<Decided>) -> Result<(), StoreError> {
        let is_nothing = |one: &Decided| matches!(one.entry, Entry::Nothing { .. });
        let id = |one: &Decided| one.job.waiting.submission.command_id;
        let ids: Vec<CommandId> = decided.iter().filter(|one| is_nothing(one)).map(id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let deadline = self.deadline();
        let stored = loop {
            match read::results(&self.parts.store, &ids).await {
                Err(error) if error.passes() && Instant::now() < deadline => {
                    tokio::time::sleep(RECONNECT).await;
                }
                answer => break answer?,
            }
        };
        let stored: BTreeMap<CommandId, StoredResult> =
            stored.into_iter().map(|result| (result.id, result)).collect();
        for one in std::mem::take(decided) {
            match stored.get(&id(&one)) {
                Some(result) => super::answer_stored(one.job, result),
                None => decided.push(one),
            }
        }
        for result in stored.into_values() {
            self.results.put(result);
        }
        Ok(())
    }

    /// Folds the draft's events into the inline read models' rows.
    async fn fold(&mut self, draft: &mut Draft) -> Result<(), ReadModelError> {
        let marker = hex(&self.parts.world.random());
        let deadline = self.deadline();
        loop {
            let (store, registry) = (&self.parts.store, &self.parts.registry);
            match inline::changes(store, registry, &draft.events, self.head, marker.clone()).await {
                Ok(changes) => {
                    draft.batch.inline = changes;
                    return Ok(());
                }
                Err(ReadModelError::Store(error)) if error.passes() && Instant::now() < deadline => {
                    tokio::time::sleep(RECONNECT).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the batch, and again the same one where the answer was lost.
    async fn send(&mut self, batch: &Batch) -> Result<Appended, StoreError> {
        if batch.commands.is_empty() && batch.seen.is_empty() {
            let recorded_at = jiff::Timestamp::UNIX_EPOCH;
            return Ok(Appended::Committed { head: *self.parts.store.head().borrow(), recorded_at });
        }
        let deadline = self.deadline();
        loop {
            match self.appender.commit(batch).await {
                Err(error) if error.passes() && Instant::now() < deadline => {
                    tokio::time::sleep(RECONNECT).await;
                }
                answer => return answer,
            }
        }
    }

    fn settle(
        &mut self,
        draft: &mut Draft,
        appended: Appended,
        decided: &mut Vec<Decided>,
        again: &mut Vec<Job>,
    ) {
        let decided = std::mem::take(decided);
        match appended {
            Appended::Committed { head, recorded_at } => {
                let base = head - i64::try_from(draft.events.len()).unwrap_or_default();
                self.put_back(draft, Some((base, recorded_at)));
                self.head = head;
                self.parts.store.advance(head);
                for one in decided {
                    self.answer(one, base, head, again);
                }
            }
            Appended::Known(stored) => {
                self.put_back(draft, None);
                let stored: BTreeMap<_, _> = stored.into_iter().map(|result| (result.id, result)).collect();
                for one in decided {
                    match stored.get(&one.job.waiting.submission.command_id) {
                        Some(result) => super::answer_stored(one.job, result),
                        None => again.push(one.job),
                    }
                }
                for result in stored.into_values() {
                    self.parts.store.advance(result.position);
                    self.results.put(result);
                }
            }
            Appended::Moved(streams) => {
                self.put_back(draft, None);
                let moved: BTreeSet<_> = streams.into_iter().collect();
                for key in draft.seen.keys().filter(|key| moved.contains(&key.id)) {
                    drop(self.streams.take(*key));
                }
                self.race(decided, again, |one| one.seen.iter().any(|key| moved.contains(&key.id)));
            }
            Appended::Taken(keys) => {
                self.put_back(draft, None);
                let taken: BTreeSet<_> = keys.into_iter().collect();
                self.race(decided, again, |one| !one.keys.is_disjoint(&taken));
            }
            // Another server has written: it got on, so we will.
            Appended::RowsMoved => {
                self.put_back(draft, None);
                again.extend(decided.into_iter().map(|one| one.job));
            }
        }
    }

    fn race(&self, decided: Vec<Decided>, again: &mut Vec<Job>, lost: impl Fn(&Decided) -> bool) {
        for one in decided {
            if lost(&one) { self.lost(one.job, again) } else { again.push(one.job) }
        }
    }

    fn answer(&mut self, one: Decided, base: i64, head: i64, again: &mut Vec<Job>) {
        let Decided { job: done, entry, .. } = one;
        let Job { waiting, twins, .. } = done;
        let (position, events, result, refusal) = match entry {
            Entry::Wrote { result, last, events } => (base + i64::from(last), events, result, None),
            Entry::Refused(refusal) => {
                (head, 0, serde_json::to_value(&refusal).unwrap_or_default(), Some(refusal))
            }
            Entry::Nothing { result } => {
                // Not stored, so a twin is a command of its own.
                again.extend(twins.into_iter().map(job));
                let answer = Committed { result, position: head, events: 0, repeated: false };
                drop(waiting.reply.send(Ok(answer)));
                return;
            }
        };
        let stored = StoredResult {
            id: waiting.submission.command_id,
            fingerprint: waiting.submission.fingerprint,
            refused: refusal.is_some(),
            position,
            events,
            result: result.clone(),
        };
        let answer = match refusal {
            Some(refusal) => Err(AppError::Refused(refusal)),
            None => Ok(Committed { result, position, events, repeated: false }),
        };
        drop(waiting.reply.send(answer));
        for twin in twins {
            let answer = super::answer_of(&stored, &twin.submission);
            drop(twin.reply.send(answer));
        }
        self.results.put(stored);
    }

    /// Gives the draft's streams back to the cache: with its events when they were written, else without.
    fn put_back(&mut self, draft: &mut Draft, written: Option<(i64, jiff::Timestamp)>) {
        let mut positions: BTreeMap<(StreamKey, i32), i64> = BTreeMap::new();
        if let Some((base, _)) = written {
            positions.extend((base + 1..).zip(&draft.events).map(|(p, e)| ((e.stream, e.version), p)));
        }
        for (key, mut events) in draft.view.take_streams() {
            if events.last().is_some_and(|last| last.position.is_none()) {
                let events: &mut Vec<Envelope> = Arc::make_mut(&mut events);
                match written {
                    None => events.retain(|event| event.position.is_some()),
                    Some((_, recorded_at)) => {
                        for event in events.iter_mut().filter(|event| event.position.is_none()) {
                            event.position = positions.get(&(key, event.version)).copied();
                            event.recorded_at = Some(recorded_at);
                        }
                    }
                }
            }
            self.streams.put(key, events);
        }
    }

    /// A batch that could not be written: an outage fails all, else its halves are tried.
    fn refused(&self, jobs: &mut Vec<Job>, decided: Vec<Decided>, error: ReadModelError) -> Outcome {
        jobs.extend(decided.into_iter().map(|one| one.job));
        let error = AppError::from(error);
        if jobs.len() > 1 && !matches!(error, AppError::Unavailable { .. }) {
            return Outcome::Halve;
        }
        fail_all(jobs, &error)
    }

    fn lost(&self, job: Job, again: &mut Vec<Job>) {
        let mut job = job;
        job.losses += 1;
        if job.losses > self.parts.store.limits().conflict_retries {
            fail(job, &AppError::Conflict, again);
        } else {
            again.push(job);
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.parts.store.limits().database_wait.duration()
    }

    async fn wait_out(&self, error: StoreError, deadline: Instant) -> Result<(), AppError> {
        if !error.passes() || Instant::now() >= deadline {
            return Err(error.into());
        }
        tokio::time::sleep(RECONNECT).await;
        Ok(())
    }
}

/// Between two tries to reach the database.
const RECONNECT: Duration = Duration::from_millis(50);

/// Answers a job with a failure; its twins are commands of their own then.
fn fail(failed: Job, error: &AppError, again: &mut Vec<Job>) {
    let mut failed = failed;
    again.extend(std::mem::take(&mut failed.twins).into_iter().map(job));
    failed.answer(Err(error.clone()));
}

fn fail_all(jobs: &mut Vec<Job>, error: &AppError) -> Outcome {
    let mut again = Vec::new();
    for failed in jobs.drain(..) {
        fail(failed, error, &mut again);
    }
    jobs.append(&mut again);
    Outcome::Done
}
