//! What can't be done because the log is damaged there: tried again later and later, and in nobody's way.
//!
//! Invariants: the wait doubles from try to try up to its bound; what can be done again is forgotten here.
//!
//! Not here: what counts as damaged (`store`, `domain`); what is said of it (`domain::task::explain`).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::kernel::limits::Limits;

/// Whether something is to be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// As anything else.
    Free,
    /// Not yet again.
    Waits,
    /// It failed before, and its time is over.
    Due,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    until: Instant,
    wait: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct SetAside<K> {
    first: Duration,
    most: Duration,
    entries: Mutex<BTreeMap<K, Entry>>,
}

impl<K: Ord> SetAside<K> {
    /// An empty one with the limits' waits.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let (first, most) = (limits.damaged_retry_first.duration(), limits.damaged_retry_max.duration());
        Self { first, most, entries: Mutex::default() }
    }

    /// Sets something aside, for longer than the last time, and says for how long.
    pub fn note(&self, key: K, now: Instant) -> Duration {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = entries.get(&key).map_or(self.first, |entry| entry.wait.saturating_mul(2)).min(self.most);
        entries.insert(key, Entry { until: now + wait, wait });
        wait
    }

    /// Where something stands.
    pub fn standing(&self, key: &K, now: Instant) -> Standing {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        match entries.get(key) {
            None => Standing::Free,
            Some(entry) if now < entry.until => Standing::Waits,
            Some(_) => Standing::Due,
        }
    }

    /// It can be done again.
    pub fn clear(&self, key: &K) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// How many are set aside.
    pub fn count(&self) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::limits::Millis;

    #[test]
    fn what_fails_again_waits_twice_as_long_up_to_the_bound_and_others_wait_not_at_all() {
        let limits =
            Limits { damaged_retry_first: Millis(10), damaged_retry_max: Millis(35), ..Limits::default() };
        let aside = SetAside::new(&limits);
        let start = Instant::now();
        let waits: Vec<u128> = (0..4).map(|_| aside.note("a", start).as_millis()).collect();
        assert_eq!(waits, [10, 20, 35, 35]);
        assert_eq!(aside.standing(&"b", start), Standing::Free);
        assert_eq!(aside.standing(&"a", start + Duration::from_millis(34)), Standing::Waits);
        assert_eq!(aside.standing(&"a", start + Duration::from_millis(35)), Standing::Due);
        aside.clear(&"a");
        assert_eq!((aside.standing(&"a", start), aside.count()), (Standing::Free, 0));
        assert_eq!(aside.note("a", start).as_millis(), 10, "a new fault begins anew");
    }
}
