//! Compares a live table with its rebuild, in one snapshot.
//!
//! The rebuild is folded page by page into a table that nobody else sees and that ends with the transaction: a
//! comparison in memory would need the whole log there, for a feed's rows or a row history's versions.
//!
//! Invariants: memory holds one page and the rows named; every column is compared; nothing changes.

use super::page::{self, Poison};
use super::rows::StoredRow;
use super::sql;
use super::{ReadModelError, Registered, Registry};
use crate::fold::{FoldError, Mode, Row};
use crate::kernel::ids::WorkspaceId;
use crate::store::{LOG, Store, read};

/// The rebuild's table, one in a connection.
const REBUILT: &str = "pg_temp.rebuilt";

/// A row that differs between the live table and the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The read model.
    pub read_model: String,
    /// The row's key; of a row history, with the position from which the version counts.
    pub key: String,
    /// The row in the table.
    pub live: Option<StoredRow>,
    /// The row that the log gives.
    pub rebuilt: Option<StoredRow>,
}

/// What the comparison of one read model with the log came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Compared {
    /// Rows that differ, by key: so many as the limits name.
    pub differences: Vec<Difference>,
    /// Whether there are more.
    pub more: bool,
    /// The first event that can't be folded, and why: the rebuild has passed over it.
    pub passed: Option<(i64, String)>,
}

/// Compares every read model with the log and names the rows that differ.
///
/// # Errors
/// [`ReadModelError`]; [`ReadModelError::Fold`] for an event that can't be folded.
pub async fn all(store: &Store, registry: &Registry) -> Result<Vec<Difference>, ReadModelError> {
    let mut differences = Vec::new();
    for registered in registry.all() {
        let compared = one(store, registered).await?;
        if let Some((position, reason)) = compared.passed {
            let read_model = registered.model().name();
            let source = FoldError { read_model, key: String::new(), reason };
            return Err(ReadModelError::Fold { position, source });
        }
        differences.extend(compared.differences);
    }
    Ok(differences)
}

/// Compares one read model, up to where its table is, with the log.
///
/// # Errors
/// [`ReadModelError`].
pub async fn one(store: &Store, registered: &Registered) -> Result<Compared, ReadModelError> {
    let (mut client, _driver) = store.connect_alone().await?;
    client.batch_execute(sql::NO_TIMEOUT).await?;
    let isolation = tokio_postgres::IsolationLevel::RepeatableRead;
    let tx = client.build_transaction().isolation_level(isolation).start().await?;
    let name = registered.model().name();
    let version = super::install::version(registered);
    let row = tx
        .query_opt(sql::READ_PROJECTION, &[&LOG, &name, &version])
        .await?
        .ok_or_else(|| ReadModelError::NotInstalled { name: name.to_owned() })?;
    let table: String = row.try_get("table_name")?;
    let upto = match registered.model().mode() {
        Mode::Inline => read::head_in(&tx).await?,
        Mode::Follower => row.try_get("checkpoint")?,
    };
    let counts = if registered.is_history() { "where to_position is null" } else { "" };
    let made = include_str!("sql/compare_table.sql").replace("{live}", &table).replace("{counts}", counts);
    tx.batch_execute(&made.replace("{table}", REBUILT)).await?;
    let passed = fold_up_to(&tx, registered, upto, store.limits().rebuild_page).await?;
    tx.batch_execute(&sql::ANALYZE.replace("{table}", REBUILT)).await?;
    let most = store.limits().compared_rows;
    let mut differences = compare(&tx, registered, &table, most.saturating_add(1)).await?;
    tx.rollback().await?;
    let more = differences.len() > most;
    differences.truncate(most);
    Ok(Compared { differences, more, passed })
}

/// Folds the log into the rebuild's table; answers the first event that can't be folded.
async fn fold_up_to(
    tx: &tokio_postgres::Transaction<'_>,
    registered: &Registered,
    upto: i64,
    limit: i64,
) -> Result<Option<(i64, String)>, ReadModelError> {
    let (mut position, mut first) = (0, None);
    while position < upto {
        let limit = limit.min(upto - position);
        let page = page::fold(tx, registered, REBUILT, position, limit, Poison::IsPassedOver).await?;
        first = first.or(page.poison);
        let Some(reached) = page.reached else { break };
        position = reached;
    }
    Ok(first)
}

async fn compare(
    tx: &tokio_postgres::Transaction<'_>,
    registered: &Registered,
    table: &str,
    most: usize,
) -> Result<Vec<Difference>, ReadModelError> {
    // A row history has many rows of one key: a version is that of the position from which it counts.
    let and = if registered.is_history() { "and l.\"position\" = r.\"position\"" } else { "" };
    let sql = include_str!("sql/compare.sql").replace("{live}", table).replace("{rebuilt}", REBUILT);
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = tx.query(&sql.replace("{and}", and), &[&most]).await?;
    rows.iter().map(|row| difference(registered, row)).collect()
}

fn difference(registered: &Registered, row: &tokio_postgres::Row) -> Result<Difference, ReadModelError> {
    let mut key: String = row.try_get("key")?;
    let (live, rebuilt) = (side(row, &key, LIVE)?, side(row, &key, FROM_LOG)?);
    if registered.is_history() {
        let position = live.as_ref().or(rebuilt.as_ref()).map_or(0, |row| row.position);
        key = format!("{key}@{position}");
    }
    Ok(Difference { read_model: registered.model().name().to_owned(), key, live, rebuilt })
}

/// The columns of one side of the comparison.
type Side = [&'static str; 4];
const LIVE: Side = ["l_workspace_id", "l_position", "l_recorded_at", "l_row"];
const FROM_LOG: Side = ["r_workspace_id", "r_position", "r_recorded_at", "r_row"];

fn side(row: &tokio_postgres::Row, key: &str, names: Side) -> Result<Option<StoredRow>, ReadModelError> {
    let [workspace, position, recorded_at, object] = names;
    let Some(position) = row.try_get::<_, Option<i64>>(position)? else { return Ok(None) };
    Ok(Some(StoredRow {
        key: key.to_owned(),
        row: Row { workspace: WorkspaceId(row.try_get(workspace)?), object: row.try_get(object)? },
        position,
        recorded_at: row.try_get(recorded_at)?,
    }))
}
