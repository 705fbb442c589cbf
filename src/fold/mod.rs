//! Read models' folds, pure: event → row changes.
//!
//! One file per read model. The same fold runs inline (in the writer, before the append), as a
//! follower (after it) and in a rebuild: three drivers, one fold, equal tables.
//!
//! Invariants: a fold reads nothing but the event and the rows it asked for by key; it is total over
//! all events, known or not meant for it; a row never holds the event's position or the database's
//! clock as numbers of its own making, but as [`Rows::recorded_at`], which inline appends fill in.
//!
//! Not here: SQL (`projections/<read model>/`), drivers (`app/writer`, `readmodel`).

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::domain::Envelope;
use crate::kernel::ids::WorkspaceId;

pub mod access;
pub mod activity_feed;
pub mod agent_roster;
pub mod at;
pub mod audit_trail;
pub mod counters;
pub mod daemon_orders;
pub mod directory_queue;
pub mod history;
pub mod issue_board;
pub mod of_stream;
pub mod project_resources;
pub mod registry;
pub mod reservations;
pub mod runtime_presence;
pub mod task_status;
pub mod timers;
pub mod webhooks;

#[cfg(test)]
mod tests;

pub use at::At;

/// When a read model is brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the append itself: a decision reads it.
    Inline,
    /// After the append, by a follower.
    Follower,
}

/// A row as the drivers see it: a key, whose it is, and an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Whose row it is.
    pub workspace: WorkspaceId,
    /// The row's object. Every table has it whole in column `row`; further columns are generated from it.
    pub object: Value,
}

/// The rows that one event may read and change.
///
/// A driver fills it with what [`ReadModel::touches`] named, and takes the changes out afterwards.
#[derive(Debug, Default)]
pub struct Rows {
    rows: BTreeMap<String, Option<Row>>,
    changed: BTreeMap<String, ()>,
    recorded_at: Value,
}

/// A fold met rows or an event that it can't make sense of. The event is poison for that read model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read model {read_model} can't fold row {key}: {reason}")]
pub struct FoldError {
    /// The read model.
    pub read_model: &'static str,
    /// The row's key.
    pub key: String,
    /// What is wrong.
    pub reason: String,
}

impl Rows {
    /// Makes a set whose [`Self::recorded_at`] is `recorded_at`: microseconds since 1970 as a number where
    /// the time is known, else the batch's marker, which the append replaces by that number.
    #[must_use]
    pub fn new(recorded_at: Value) -> Self {
        Self { rows: BTreeMap::new(), changed: BTreeMap::new(), recorded_at }
    }

    /// Sets the value for the next event.
    pub fn set_recorded_at(&mut self, recorded_at: Value) {
        self.recorded_at = recorded_at;
    }

    /// Tells whether the key was loaded (whether or not there is a row).
    #[must_use]
    pub fn holds(&self, key: &str) -> bool {
        self.rows.contains_key(key)
    }

    /// Loads a row, or the fact that there is none; not a change.
    pub fn load(&mut self, key: String, row: Option<Row>) {
        self.rows.insert(key, row);
    }

    /// The time at which the database recorded (or will record) the event, for a field of a row.
    #[must_use]
    pub fn recorded_at(&self) -> Value {
        self.recorded_at.clone()
    }

    /// The row under `key`, typed.
    ///
    /// # Errors
    /// [`FoldError`] when the row hasn't the type's shape.
    pub fn get<T: DeserializeOwned>(
        &self,
        read_model: &'static str,
        key: &str,
    ) -> Result<Option<T>, FoldError> {
        match self.rows.get(key).and_then(Option::as_ref) {
            None => Ok(None),
            Some(row) => serde_json::from_value(row.object.clone()).map(Some).map_err(|error| FoldError {
                read_model,
                key: key.to_owned(),
                reason: error.to_string(),
            }),
        }
    }

    /// Writes the row under `key`.
    ///
    /// # Errors
    /// [`FoldError`] when the value is no JSON object.
    pub fn put<T: Serialize>(
        &mut self,
        read_model: &'static str,
        key: &str,
        workspace: WorkspaceId,
        value: &T,
    ) -> Result<(), FoldError> {
        let object = serde_json::to_value(value).map_err(|error| FoldError {
            read_model,
            key: key.to_owned(),
            reason: error.to_string(),
        })?;
        self.rows.insert(key.to_owned(), Some(Row { workspace, object }));
        self.changed.insert(key.to_owned(), ());
        Ok(())
    }

    /// The row under `key`, typed; an event that needs one and finds none is poison.
    ///
    /// # Errors
    /// [`FoldError`] when there is no row, or it hasn't the type's shape.
    pub fn need<T: DeserializeOwned>(&self, read_model: &'static str, key: &str) -> Result<T, FoldError> {
        self.get(read_model, key)?.ok_or_else(|| FoldError {
            read_model,
            key: key.to_owned(),
            reason: "the event follows no row".to_owned(),
        })
    }

    /// Removes the row under `key`; removing none is no change.
    pub fn remove(&mut self, key: &str) {
        if let Some(slot) = self.rows.get_mut(key)
            && slot.take().is_some()
        {
            self.changed.insert(key.to_owned(), ());
        }
    }

    /// Takes the changes since the last call: key and new row, or none where it was removed.
    pub fn take_changes(&mut self) -> Vec<(String, Option<Row>)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_keys().map(|key| (key.clone(), self.rows.get(&key).cloned().flatten())).collect()
    }
}

/// One read model's fold.
pub trait ReadModel: Send + Sync {
    /// Its name: the folder under `projections/` and the table `rm.<name>__v<version>`.
    fn name(&self) -> &'static str;
    /// Its version: raised when rows would come out differently.
    fn version(&self) -> u32;
    /// When it is brought up to date.
    fn mode(&self) -> Mode;
    /// The read model whose row history this is; none for all others.
    fn history_of(&self) -> Option<&'static str> {
        None
    }
    /// The keys of the rows that this event may read or change; empty for an event it ignores.
    fn touches(&self, event: &Envelope) -> Vec<String>;
    /// Applies the event to the rows named by [`Self::touches`].
    ///
    /// # Errors
    /// [`FoldError`] when the event can't be folded.
    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError>;
}
