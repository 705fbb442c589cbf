//! Folds a page's events into the rows that they touch, held in memory.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ReadModelError;
use super::rows::{RowChange, StoredRow};
use crate::domain::Envelope;
use crate::fold::{ReadModel, Rows};

/// What changed since the last take.
enum Changes {
    /// Which rows, and where and when each changed last; the state is taken when it is asked for.
    Last(BTreeMap<String, (i64, Value)>),
    /// Every state, in order: what a row history keeps.
    Each(Vec<RowChange>),
}

impl Changes {
    fn of(model: &dyn ReadModel) -> Self {
        if model.history_of().is_some() { Self::Each(Vec::new()) } else { Self::Last(BTreeMap::new()) }
    }
}

/// Rows of a read model in memory, with what changed since the last take.
pub struct Folding<'a> {
    model: &'a dyn ReadModel,
    rows: Rows,
    changed: Changes,
}

impl<'a> Folding<'a> {
    /// Starts from rows of the table: for the keys asked for and these rows found.
    pub fn from_rows(model: &'a dyn ReadModel, keys: Vec<String>, found: Vec<StoredRow>) -> Self {
        let mut rows = Rows::new(Value::Null);
        for key in keys {
            rows.load(key, None);
        }
        for stored in found {
            rows.load(stored.key, Some(stored.row));
        }
        Self { model, rows, changed: Changes::of(model) }
    }

    /// Folds one event of the log.
    pub fn feed(&mut self, event: &Envelope) -> Result<(), ReadModelError> {
        if self.model.touches(event).is_empty() {
            return Ok(());
        }
        let position = event.position.unwrap_or_default();
        let recorded_at = Value::from(event.recorded_at.map_or(0, jiff::Timestamp::as_microsecond));
        self.rows.set_recorded_at(recorded_at.clone());
        if let Err(source) = self.model.apply(&mut self.rows, event) {
            self.rows.take_back();
            return Err(ReadModelError::Fold { position, source });
        }
        match &mut self.changed {
            Changes::Last(rows) => {
                let keys = self.rows.take_changed().into_iter();
                rows.extend(keys.map(|key| (key, (position, recorded_at.clone()))));
            }
            Changes::Each(all) => {
                for key in self.rows.take_changed() {
                    let row = self.rows.text(&key);
                    all.push(RowChange::new(key, row, position, recorded_at.clone()));
                }
            }
        }
        Ok(())
    }

    /// What changed since the last call: the last state of each row, or every one where it is a row history.
    pub fn take(&mut self) -> Vec<RowChange> {
        match &mut self.changed {
            Changes::Last(changed) => std::mem::take(changed)
                .into_iter()
                .map(|(key, (position, recorded_at))| {
                    let row = self.rows.text(&key);
                    RowChange::new(key, row, position, recorded_at)
                })
                .collect(),
            Changes::Each(all) => std::mem::take(all),
        }
    }
}
