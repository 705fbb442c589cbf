//! Compares a live table with a rebuild in memory, in one snapshot.

use std::collections::BTreeMap;

use super::folding::Folding;
use super::rebuild::fold_to_head;
use super::rows::{RowChange, StoredRow, from_row};
use super::sql;
use super::{ReadModelError, Registered, Registry, history};
use crate::fold::{Mode, Row};
use crate::kernel::ids::WorkspaceId;
use crate::store::{LOG, Store};

/// A row that differs between the live table and the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The read model.
    pub read_model: String,
    /// The row's key.
    pub key: String,
    /// The row in the table.
    pub live: Option<StoredRow>,
    /// The row that the log gives.
    pub rebuilt: Option<StoredRow>,
}

/// Rebuilds every read model in memory and names the rows that differ.
///
/// # Errors
/// [`ReadModelError`].
pub async fn all(store: &Store, registry: &Registry) -> Result<Vec<Difference>, ReadModelError> {
    let mut differences = Vec::new();
    for registered in registry.all() {
        differences.extend(one(store, registered).await?);
    }
    Ok(differences)
}

/// Rebuilds one read model in memory, up to where its table is, and names the rows that differ.
///
/// # Errors
/// [`ReadModelError`].
pub async fn one(store: &Store, registered: &Registered) -> Result<Vec<Difference>, ReadModelError> {
    let (mut client, _driver) = store.connect_alone().await?;
    client.batch_execute(sql::NO_TIMEOUT).await?;
    let tx = client
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let name = registered.model().name();
    let version = i32::try_from(registered.model().version()).unwrap_or(i32::MAX);
    let row = tx
        .query_opt(sql::READ_PROJECTION, &[&LOG, &name, &version])
        .await?
        .ok_or_else(|| ReadModelError::NotInstalled { name: name.to_owned() })?;
    let checkpoint: i64 = row.try_get("checkpoint")?;
    let mut folding = Folding::from_nothing(registered.model());
    match registered.model().mode() {
        Mode::Inline => {
            fold_to_head(&tx, &mut folding, 0, store.limits().follower_page).await?;
        }
        Mode::Follower => fold_up_to(&tx, &mut folding, checkpoint, store.limits().follower_page).await?,
    }
    let all = include_str!("sql/rows_all.sql");
    let sql = if registered.is_history() {
        all.replace("{table}", &history::spans(&registered.table()))
    } else {
        registered.fill(all)
    };
    let live: Vec<StoredRow> = tx.query(&sql, &[]).await?.iter().map(from_row).collect::<Result<_, _>>()?;
    tx.rollback().await?;
    let mut changes = folding.take();
    if registered.is_history() {
        name_spans(&mut changes);
    }
    Ok(compare(name, live, changes))
}

/// Gives each version of a row a key of its own, which says when it counted.
fn name_spans(changes: &mut [RowChange]) {
    let mut ended: BTreeMap<String, i64> = BTreeMap::new();
    for change in changes.iter_mut().rev() {
        let to = ended.insert(change.key.clone(), change.position);
        change.key = history::span(&change.key, change.position, to);
    }
}

async fn fold_up_to(
    tx: &tokio_postgres::Transaction<'_>,
    folding: &mut Folding<'_>,
    upto: i64,
    page: i64,
) -> Result<(), ReadModelError> {
    let mut position = 0;
    while position < upto {
        let events = crate::store::read::range_in(tx, position, page.min(upto - position)).await?;
        let Some(last) = events.last() else { break };
        position = last.seq;
        for event in &events {
            folding.feed(&event.decode()?)?;
        }
    }
    Ok(())
}

fn compare(name: &str, live: Vec<StoredRow>, changes: Vec<RowChange>) -> Vec<Difference> {
    let mut rebuilt: BTreeMap<String, StoredRow> = changes
        .into_iter()
        .filter_map(|change| {
            // What isn't JSON differs from whatever the table has.
            let object = serde_json::from_str(change.row?.get()).unwrap_or_default();
            let row = Row { workspace: WorkspaceId(change.workspace_id), object };
            let micros = change.recorded_at.as_i64().unwrap_or_default();
            let recorded_at = jiff::Timestamp::from_microsecond(micros).unwrap_or_default();
            let stored = StoredRow { key: change.key.clone(), row, position: change.position, recorded_at };
            Some((change.key, stored))
        })
        .collect();
    let mut differences = Vec::new();
    for row in live {
        let other = rebuilt.remove(&row.key);
        if other.as_ref() != Some(&row) {
            let (read_model, key) = (name.to_owned(), row.key.clone());
            differences.push(Difference { read_model, key, live: Some(row), rebuilt: other });
        }
    }
    differences.extend(rebuilt.into_iter().map(|(key, row)| Difference {
        read_model: name.to_owned(),
        key,
        live: None,
        rebuilt: Some(row),
    }));
    differences
}
