//! The end of the log as the readers of a workspace's feed see it: read and told once, however many follow.
//!
//! Invariants: what is kept is one unbroken stretch of the log; whoever asks for what lies before it reads
//! the log; readers of a workspace see the same entries, so that one's are another's; no entry outlives the
//! erasure of a text that it may quote.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::App;
use super::error::ApiError;
use super::feed::{PAGE, mine};
use crate::kernel::ids::WorkspaceId;
use crate::store::read;
use crate::wire::feed::Entry;

/// Entries kept for each workspace: a reader that is further behind reads the log.
const KEPT: usize = 1_000;

/// The event that takes texts away.
const ERASED: &str = "operation.erased";

/// The last entries of every workspace that somebody follows.
#[derive(Debug, Default)]
pub struct Tail {
    workspaces: Mutex<BTreeMap<WorkspaceId, Arc<tokio::sync::Mutex<Option<Recent>>>>>,
}

/// Every entry after `from`, up to `to`.
#[derive(Debug)]
struct Recent {
    from: i64,
    to: i64,
    entries: VecDeque<Arc<Entry>>,
}

/// What comes after a position.
#[derive(Debug)]
pub struct Part {
    /// The entries, oldest first.
    pub entries: Vec<Arc<Entry>>,
    /// Up to where was looked; the position asked for when there is nothing after it.
    pub at: i64,
}

impl Tail {
    /// The entries after a position, or a first part of them.
    ///
    /// # Errors
    /// What went wrong with the database.
    pub async fn after(&self, app: &App, workspace: WorkspaceId, after: i64) -> Result<Part, ApiError> {
        let recent = self.of(workspace);
        // Held while the log is read: the others wait for the same entries.
        let mut recent = recent.lock().await;
        let head = *app.store.head().borrow();
        if recent.is_none() && head - after <= PAGE {
            // Whoever asks for what isn't there yet doesn't move the beginning for the others.
            let start = after.min(head);
            *recent = Some(Recent { from: start, to: start, entries: VecDeque::new() });
        }
        if let Some(known) = recent.as_mut().filter(|known| after >= known.from) {
            if known.to < head {
                let (entries, at) = read(app, workspace, known.to).await?;
                known.add(entries, at);
            }
            // Unless what lay before had to be forgotten just now.
            if after >= known.from {
                let entries = known.entries.iter().filter(|entry| entry.position > after).cloned().collect();
                return Ok(Part { entries, at: known.to.max(after) });
            }
        }
        drop(recent);
        let (entries, at) = read(app, workspace, after).await?;
        Ok(Part { entries, at })
    }

    fn of(&self, workspace: WorkspaceId) -> Arc<tokio::sync::Mutex<Option<Recent>>> {
        let mut all = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(workspace).or_default())
    }
}

impl Recent {
    fn add(&mut self, entries: Vec<Arc<Entry>>, at: i64) {
        // What was told before an erasure may quote what it took.
        if entries.iter().any(|entry| entry.event_type == ERASED) {
            self.entries.clear();
            self.from = self.to;
        }
        self.entries.extend(entries);
        self.to = at;
        while self.entries.len() > KEPT {
            let gone = self.entries.pop_front();
            self.from = gone.map_or(self.from, |entry| entry.position);
        }
    }
}

async fn read(app: &App, workspace: WorkspaceId, after: i64) -> Result<(Vec<Arc<Entry>>, i64), ApiError> {
    let mut at = after;
    let events = read::readings(&app.store, after, PAGE).await?;
    let entries = mine(app, workspace, events, &mut at).await?;
    Ok((entries.into_iter().map(Arc::new).collect(), at))
}
