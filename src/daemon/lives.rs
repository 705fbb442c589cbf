//! What this daemon has in hand: one life for each claim, from its receipt to its last delivered report.
//!
//! Lock of the table: protects the map and the choice of slots, across threads of this process, held for a
//! look or a change of the map only, never while waiting or writing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::state::RunId;

/// How far a life is, for `daemon status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Receipt and grant.
    Entering,
    /// A supervisor has it.
    Supervised,
    /// Its supervisor died: what it left is put in order.
    Recovering,
    /// It has the directory's grant; a foreign program has its lock.
    Waiting,
    /// Over; the server doesn't have all reports yet.
    Delivering,
}

impl Phase {
    /// As people read it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Entering => "entering",
            Self::Supervised => "running",
            Self::Recovering => "recovering",
            Self::Waiting => "waiting for a foreign lock",
            Self::Delivering => "delivering reports",
        }
    }
}

#[derive(Debug)]
struct Life {
    name: String,
    slot: Option<u32>,
    phase: Phase,
    cancel: watch::Sender<Option<String>>,
}

/// All lives.
#[derive(Debug, Default)]
pub struct Lives {
    map: Mutex<BTreeMap<RunId, Life>>,
    /// Somebody came, went, or changed.
    pub changed: Notify,
}

impl Lives {
    fn map(&self) -> MutexGuard<'_, BTreeMap<RunId, Life>> {
        // A panic while holding it leaves the map whole: every change is a single insert or remove.
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a life; none when there is one already.
    pub fn begin(&self, run: RunId, name: &str, phase: Phase) -> Option<watch::Receiver<Option<String>>> {
        let mut map = self.map();
        if map.contains_key(&run) {
            return None;
        }
        let slot = (0..).find(|slot| map.values().all(|life| life.slot != Some(*slot)));
        let (cancel, receiver) = watch::channel(None);
        map.insert(run, Life { name: name.to_owned(), slot, phase, cancel });
        drop(map);
        self.changed.notify_waiters();
        Some(receiver)
    }

    /// Ends it.
    pub fn end(&self, run: RunId) {
        self.map().remove(&run);
        self.changed.notify_waiters();
    }

    /// Says how far it is; a waiting life has no slot.
    pub fn phase(&self, run: RunId, phase: Phase) {
        if let Some(life) = self.map().get_mut(&run) {
            life.phase = phase;
            if matches!(phase, Phase::Waiting | Phase::Delivering) {
                life.slot = None;
            }
        }
        self.changed.notify_waiters();
    }

    /// Its slot.
    pub fn slot(&self, run: RunId) -> u32 {
        self.map().get(&run).and_then(|life| life.slot).unwrap_or_default()
    }

    /// How many slots are taken.
    pub fn running(&self) -> usize {
        self.map().values().filter(|life| life.slot.is_some()).count()
    }

    /// How far one is.
    pub fn phase_of(&self, run: RunId) -> Option<Phase> {
        self.map().get(&run).map(|life| life.phase)
    }

    /// Asks one to stop; false when there is none. The first reason stays.
    pub fn cancel(&self, run: RunId, reason: &str) -> bool {
        let map = self.map();
        let Some(life) = map.get(&run) else { return false };
        life.cancel.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert_with(|| reason.to_owned());
            first
        });
        true
    }

    /// Asks all that may still have processes to stop, and says how many.
    pub fn cancel_all(&self, reason: &str) -> usize {
        let runs: Vec<RunId> = self
            .map()
            .iter()
            .filter(|(_, life)| !matches!(life.phase, Phase::Delivering | Phase::Waiting))
            .map(|(run, _)| *run)
            .collect();
        runs.iter().filter(|run| self.cancel(**run, reason)).count()
    }

    /// All of them: id, name, phase.
    pub fn list(&self) -> Vec<(RunId, String, Phase)> {
        self.map().iter().map(|(run, life)| (*run, life.name.clone(), life.phase)).collect()
    }

    /// Waits until fewer than `slots` are taken.
    pub async fn wait_for_room(&self, slots: usize) {
        self.wait_until(|map| map.values().filter(|life| life.slot.is_some()).count() < slots).await;
    }

    /// Waits until one is over.
    pub async fn wait_for_end(&self, run: RunId) {
        self.wait_until(|map| !map.contains_key(&run)).await;
    }

    /// Waits until none is in a phase of which `of` says yes.
    pub async fn wait_without(&self, of: impl Fn(Phase) -> bool) {
        self.wait_until(|map| !map.values().any(|life| of(life.phase))).await;
    }

    async fn wait_until(&self, reached: impl Fn(&BTreeMap<RunId, Life>) -> bool) {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // Registered before the look, so that a change between look and wait isn't missed.
            changed.as_mut().enable();
            if reached(&self.map()) {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ids::TaskId;

    fn run() -> RunId {
        RunId { task: TaskId(uuid::Uuid::now_v7()), generation: 1 }
    }

    #[test]
    fn a_waiting_life_gives_its_slot_to_the_next() {
        let (lives, first, second) = (Lives::default(), run(), run());
        assert!(lives.begin(first, "a", Phase::Entering).is_some());
        assert!(lives.begin(first, "a", Phase::Entering).is_none());
        assert!(lives.begin(second, "b", Phase::Entering).is_some());
        assert_eq!((lives.slot(second), lives.running()), (1, 2));
        lives.phase(first, Phase::Waiting);
        assert_eq!(lives.running(), 1);
        let third = run();
        assert!(lives.begin(third, "c", Phase::Entering).is_some());
        assert_eq!(lives.slot(third), 0);
    }

    #[test]
    fn the_first_reason_to_stop_stays() {
        let (lives, run) = (Lives::default(), run());
        let receiver = lives.begin(run, "a", Phase::Supervised).expect("begun");
        assert!(lives.cancel(run, "cancelled") && lives.cancel(run, "interrupted"));
        assert_eq!(receiver.borrow().as_deref(), Some("cancelled"));
    }
}
