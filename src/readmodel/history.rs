//! Row history: what a read model showed as of a position.
//!
//! A history's table is made from its base's `schema.sql`: the same columns, and `to_position`, the position that
//! ended the version. A version counts from `position` on, and no more from `to_position` on; a removed row is one
//! whose last version has ended.
//!
//! Invariants: of one key at most one version counts at any position; the columns stand in one place, the base's.

use super::{ReadModelError, Registered, Sql, sql};
use crate::store::{LOG, Store};

/// What of a base's `schema.sql` says that there is one row for each key.
const ONE_FOR_EACH_KEY: &str = " primary key,";
/// What says that there is one for each version of it.
const ONE_FOR_EACH_VERSION: &str = " not null,
    -- The position that ended this version; none while it counts.
    to_position bigint,
    primary key (key, \"position\"),
    check (to_position > \"position\"),";

/// The SQL of a history, made from its base's.
///
/// # Errors
/// [`ReadModelError::Folder`] for a schema that isn't written as the others are.
pub fn made_from(base: &str, of_base: &Sql) -> Result<Sql, ReadModelError> {
    // The base's indexes serve the base's questions; a history's only question is: what counted then?
    let table = of_base.schema.split_once(");\n").map(|(table, _)| table);
    let table = table.filter(|table| table.contains(ONE_FOR_EACH_KEY)).ok_or_else(|| {
        let problem = "has no table with a `key` that is its primary key: no history can be made of it";
        ReadModelError::Folder { name: base.to_owned(), file: "schema.sql", problem }
    })?;
    let table = table.replacen(ONE_FOR_EACH_KEY, ONE_FOR_EACH_VERSION, 1);
    let indexes = include_str!("sql/history_indexes.sql");
    Ok(Sql {
        schema: format!("{table});\n{indexes}"),
        upsert: include_str!("sql/history_upsert.sql").to_owned(),
    })
}

/// The versions that count now, as what stands after `from`.
#[must_use]
pub fn current(table: &str) -> String {
    format!("(select * from {table} where to_position is null)")
}

/// The versions that counted at a position, as what stands after `from`.
fn at(table: &str, position: i64) -> String {
    format!("(select * from {table} where int8range(\"position\", to_position) @> {position}::bigint)")
}

/// Lets nobody else write versions into a table that is being built until the transaction ends: taken before
/// anything is read of it. A table that keeps one row for each key needs no such lock. Followers take none: it
/// would keep vacuum away from the live table.
///
/// # Errors
/// [`ReadModelError::Store`].
pub(super) async fn lock(
    tx: &tokio_postgres::Transaction<'_>,
    registered: &Registered,
    table: &str,
) -> Result<(), ReadModelError> {
    if registered.is_history() {
        tx.batch_execute(&include_str!("sql/history_lock.sql").replace("{table}", table)).await?;
    }
    Ok(())
}

/// What a read model answers from, as of a position, in the snapshot of a transaction.
pub(super) async fn source(
    tx: &tokio_postgres::Transaction<'_>,
    registered: &Registered,
    position: i64,
) -> Result<String, ReadModelError> {
    let base = registered.model().name();
    let name = format!("{base}{}", crate::fold::history::ENDING);
    let row = tx
        .query_opt(sql::ANSWERING_TABLE, &[&LOG, &name])
        .await?
        .ok_or_else(|| ReadModelError::NoHistory { name: base.to_owned() })?;
    let checkpoint: i64 = row.try_get("checkpoint")?;
    if checkpoint < position {
        return Err(ReadModelError::Behind { name, checkpoint, wanted: position });
    }
    Ok(at(row.try_get("table_name")?, position))
}

/// How far every row history has come: the position as of which all of them can answer.
///
/// # Errors
/// [`ReadModelError`].
pub async fn reached(store: &Store) -> Result<i64, ReadModelError> {
    let client = store.client().await?;
    let ending = format!("%{}", crate::fold::history::ENDING.replace('_', "\\_"));
    Ok(client.query_one(include_str!("sql/history_reached.sql"), &[&LOG, &ending]).await?.try_get(0)?)
}
