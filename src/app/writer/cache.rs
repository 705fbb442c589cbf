//! What the writer remembers between batches: streams and recent results.
//!
//! Invariants: a cached stream holds committed events only; a stream that another server has written is
//! found out by the append's version check and evicted.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::domain::{Envelope, StreamKey};
use crate::kernel::ids::CommandId;
use crate::store::append::StoredResult;

/// Streams, the least recently used going first.
#[derive(Debug)]
pub struct Streams {
    limit: usize,
    tick: u64,
    held: HashMap<StreamKey, (u64, Arc<Vec<Envelope>>)>,
}

impl Streams {
    /// Remembers so many streams.
    pub fn new(limit: usize) -> Self {
        Self { limit, tick: 0, held: HashMap::new() }
    }

    /// Takes a stream out.
    pub fn take(&mut self, key: StreamKey) -> Option<Arc<Vec<Envelope>>> {
        self.held.remove(&key).map(|(_, events)| events)
    }

    /// Puts a stream in.
    pub fn put(&mut self, key: StreamKey, events: Arc<Vec<Envelope>>) {
        self.tick += 1;
        self.held.insert(key, (self.tick, events));
        if self.held.len() > self.limit {
            // A quarter at once, so that the sort is paid for by many puts.
            let mut ages: Vec<(u64, StreamKey)> =
                self.held.iter().map(|(key, (tick, _))| (*tick, *key)).collect();
            ages.sort_unstable();
            for (_, key) in ages.iter().take(self.limit / 4 + 1) {
                self.held.remove(key);
            }
        }
    }
}

/// Results of commands, the oldest going first.
#[derive(Debug)]
pub struct Results {
    limit: usize,
    order: VecDeque<CommandId>,
    held: HashMap<CommandId, StoredResult>,
}

impl Results {
    /// Remembers so many results.
    pub fn new(limit: usize) -> Self {
        Self { limit, order: VecDeque::new(), held: HashMap::new() }
    }

    /// The result of that command.
    pub fn get(&self, id: CommandId) -> Option<&StoredResult> {
        self.held.get(&id)
    }

    /// Remembers a result.
    pub fn put(&mut self, result: StoredResult) {
        let id = result.id;
        if self.held.insert(id, result).is_none() {
            self.order.push_back(id);
        }
        while self.held.len() > self.limit {
            let Some(oldest) = self.order.pop_front() else { break };
            self.held.remove(&oldest);
        }
    }
}
