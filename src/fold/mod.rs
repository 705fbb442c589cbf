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

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

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

/// A row on its way into a table: its object as text.
#[derive(Debug, Clone)]
pub struct RowText {
    /// Whose row it is.
    pub workspace: WorkspaceId,
    /// The row's object.
    pub object: Box<RawValue>,
}

/// The rows that one event may read and change.
///
/// A driver fills it with what [`ReadModel::touches`] named, and takes the changes out afterwards: after each event,
/// or after many, which spares a row that many of them change from being written down each time.
#[derive(Default)]
pub struct Rows {
    rows: BTreeMap<String, Option<Slot>>,
    changed: BTreeSet<String>,
    /// What stood there before each change since the last take.
    before: Vec<(String, Option<Slot>)>,
    recorded_at: Value,
}

/// A row in memory.
struct Slot {
    workspace: WorkspaceId,
    object: Object,
}

/// A row's object: as it was loaded, or as a fold has put it.
enum Object {
    Loaded(Value),
    Put(Box<dyn Put>),
}

/// What a fold puts, with its type.
trait Put: Any + Send + Sync {
    fn to_object(&self) -> Value;
    fn to_text(&self) -> Box<RawValue>;
}

impl<T: Serialize + Any + Send + Sync> Put for T {
    fn to_object(&self) -> Value {
        // A row that can't be JSON is none that its table takes.
        serde_json::to_value(self).unwrap_or_default()
    }

    fn to_text(&self) -> Box<RawValue> {
        to_raw_value(self).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

impl Object {
    fn to_value(&self) -> Value {
        match self {
            Self::Loaded(value) => value.clone(),
            Self::Put(put) => put.to_object(),
        }
    }
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
        Self { recorded_at, ..Self::default() }
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
        let slot = row.map(|row| Slot { workspace: row.workspace, object: Object::Loaded(row.object) });
        self.rows.insert(key, slot);
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
    pub fn get<T: DeserializeOwned + Clone + Any>(
        &self,
        read_model: &'static str,
        key: &str,
    ) -> Result<Option<T>, FoldError> {
        let Some(slot) = self.rows.get(key).and_then(Option::as_ref) else { return Ok(None) };
        let typed = match &slot.object {
            Object::Loaded(value) => T::deserialize(value),
            Object::Put(put) => {
                let any: &dyn Any = put.as_ref();
                match any.downcast_ref::<T>() {
                    Some(typed) => Ok(typed.clone()),
                    None => serde_json::from_value(put.to_object()),
                }
            }
        };
        typed.map(Some).map_err(|error| FoldError {
            read_model,
            key: key.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Writes the row under `key`.
    pub fn put<T: Serialize + Any + Send + Sync>(&mut self, key: &str, workspace: WorkspaceId, value: T) {
        let slot = Slot { workspace, object: Object::Put(Box::new(value)) };
        let before = self.rows.insert(key.to_owned(), Some(slot)).flatten();
        self.before.push((key.to_owned(), before));
        self.changed.insert(key.to_owned());
    }

    /// The row under `key`, typed; an event that needs one and finds none is poison.
    ///
    /// # Errors
    /// [`FoldError`] when there is no row, or it hasn't the type's shape.
    pub fn need<T: DeserializeOwned + Clone + Any>(
        &self,
        read_model: &'static str,
        key: &str,
    ) -> Result<T, FoldError> {
        self.get(read_model, key)?.ok_or_else(|| FoldError {
            read_model,
            key: key.to_owned(),
            reason: "the event follows no row".to_owned(),
        })
    }

    /// Removes the row under `key`; removing none is no change.
    pub fn remove(&mut self, key: &str) {
        if let Some(slot) = self.rows.get_mut(key)
            && let Some(before) = slot.take()
        {
            self.before.push((key.to_owned(), Some(before)));
            self.changed.insert(key.to_owned());
        }
    }

    /// Undoes every change since the last take: an event that can't be folded leaves nothing behind.
    pub fn take_back(&mut self) {
        self.changed.clear();
        while let Some((key, before)) = self.before.pop() {
            self.rows.insert(key, before);
        }
    }

    /// Takes the keys of rows that changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<String> {
        self.before.clear();
        std::mem::take(&mut self.changed)
    }

    /// The row under `key` as it is now; none where there is none.
    #[must_use]
    pub fn row(&self, key: &str) -> Option<Row> {
        let slot = self.rows.get(key)?.as_ref()?;
        Some(Row { workspace: slot.workspace, object: slot.object.to_value() })
    }

    /// [`Self::row`] as text: what a table is given.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<RowText> {
        let slot = self.rows.get(key)?.as_ref()?;
        let object = match &slot.object {
            Object::Loaded(value) => value.to_text(),
            Object::Put(put) => put.to_text(),
        };
        Some(RowText { workspace: slot.workspace, object })
    }

    /// Takes the changes since the last call: key and new row, or none where it was removed.
    pub fn take_changes(&mut self) -> Vec<(String, Option<Row>)> {
        let changed = self.take_changed();
        changed.into_iter().map(|key| (key.clone(), self.row(&key))).collect()
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
