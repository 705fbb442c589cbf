//! Folds a batch's events into the inline read models' rows, before the append writes both.
//!
//! Invariants: rows are read after the head that is named as theirs; the append checks them again when
//! the head has moved since; times of recording are the batch's marker until the append knows them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use serde::Serialize;
use serde_json::Value;

use crate::domain::Envelope;
use crate::fold::Rows;
use crate::readmodel::rows::{self, RowChange, StoredRow};
use crate::readmodel::{ReadModelError, Registered, Registry};
use crate::store::Store;
use crate::store::append::InlineChanges;

#[derive(Serialize)]
struct Seen {
    key: String,
    position: i64,
}

#[derive(Serialize)]
struct Part {
    seen: Vec<Seen>,
    rows: Vec<RowChange>,
}

/// The changes that follow from a batch's events; `head` is one that was read before now.
pub async fn changes(
    store: &Store,
    registry: &Registry,
    events: &[Envelope],
    head: i64,
    marker: String,
) -> Result<InlineChanges, ReadModelError> {
    let touched: Vec<(&Registered, Vec<String>)> = registry
        .inline()
        .map(|registered| {
            let keys: BTreeSet<String> =
                events.iter().flat_map(|event| registered.model().touches(event)).collect();
            (registered, keys.into_iter().collect::<Vec<_>>())
        })
        .filter(|(_, keys)| !keys.is_empty())
        .collect();
    let mut parts = BTreeMap::new();
    if !touched.is_empty() {
        let client = store.client().await?;
        let loads = touched.iter().map(|(registered, keys)| rows::load_cached(&client, registered, keys));
        let found = try_join_all(loads).await?;
        for ((registered, keys), found) in touched.into_iter().zip(found) {
            parts.insert(registered.key(), fold(registered, keys, found, events, &marker)?);
        }
    }
    let changes = serde_json::to_string(&parts).unwrap_or_else(|_| "{}".to_owned());
    Ok(InlineChanges { models: registry.inline_set(), head, marker, changes })
}

fn fold(
    registered: &Registered,
    keys: Vec<String>,
    found: Vec<StoredRow>,
    events: &[Envelope],
    marker: &str,
) -> Result<Part, ReadModelError> {
    let marker = Value::from(marker);
    let mut rows = Rows::new(marker.clone());
    let mut seen: BTreeMap<String, i64> = keys.into_iter().map(|key| (key, 0)).collect();
    for key in seen.keys() {
        rows.load(key.clone(), None);
    }
    for stored in found {
        seen.insert(stored.key.clone(), stored.position);
        rows.load(stored.key, Some(stored.row));
    }
    let mut changed = BTreeMap::new();
    for (ordinal, event) in (1_i64..).zip(events) {
        if registered.model().touches(event).is_empty() {
            continue;
        }
        registered
            .model()
            .apply(&mut rows, event)
            .map_err(|source| ReadModelError::Fold { position: ordinal, source })?;
        changed.extend(rows.take_changed().into_iter().map(|key| (key, ordinal)));
    }
    Ok(Part {
        seen: seen.into_iter().map(|(key, position)| Seen { key, position }).collect(),
        rows: changed
            .into_iter()
            .map(|(key, ordinal)| {
                let row = rows.text(&key);
                RowChange::new(key, row, ordinal, marker.clone())
            })
            .collect(),
    })
}
