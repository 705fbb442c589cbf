//! Brings the tables of this build's read models into being at the start of a server.
//!
//! Invariants: a new version is built beside the old one, which answers until the swap; the swap, under
//! the head lock, replaces functions and rows of `es.projections` and nothing else; a build that was
//! interrupted starts again; an event that can't be folded never keeps a server from starting.

use std::collections::BTreeMap;

use tokio_postgres::{Client, GenericClient, Transaction};

use super::page::{self, Poison};
use super::sql;
use super::{ReadModelError, Registered, Registry, history, rebuild};
use crate::fold::Mode;
use crate::kernel::error_chain::Chain;
use crate::store::{LOG, Store, read};

/// Installs what is missing; returns the names of the read models that were built.
///
/// # Errors
/// [`ReadModelError`].
pub async fn run(store: &Store, registry: &Registry) -> Result<Vec<String>, ReadModelError> {
    let (mut client, _driver) = store.connect_alone().await?;
    client.batch_execute(sql::NO_TIMEOUT).await?;
    client.batch_execute(include_str!("sql/lock_install.sql")).await?;
    drop_retired(&mut client).await?;
    rebuild::retire_all(&mut client).await?;
    let mut built = Vec::new();
    for registered in registry.all() {
        if !is_installed(&client, registered).await? {
            build(&mut client, registered, store.limits().rebuild_page).await?;
            built.push(registered.model().name().to_owned());
        }
    }
    swap(&mut client, registry, store.limits().rebuild_page).await?;
    drop(client);
    Ok(built)
}

/// Drops tables that were retired at an earlier start; one that is still read stays until the next.
async fn drop_retired(client: &mut Client) -> Result<(), ReadModelError> {
    for row in client.query(include_str!("sql/retired.sql"), &[&LOG]).await? {
        let (name, version): (&str, i32) = (row.try_get("name")?, row.try_get("version")?);
        let table: &str = row.try_get("table_name")?;
        let tx = client.transaction().await?;
        let drop = sql::DROP_TABLE.replace("{table}", table);
        if let Err(error) = tx.batch_execute(&drop).await {
            tx.rollback().await?;
            tracing::info!(table, error = %Chain(&error), "a retired table is still in use");
            continue;
        }
        tx.execute(include_str!("sql/forget.sql"), &[&LOG, &name, &version]).await?;
        tx.commit().await?;
    }
    Ok(())
}

async fn is_installed(client: &Client, registered: &Registered) -> Result<bool, ReadModelError> {
    let row = client
        .query_one(
            include_str!("sql/is_installed.sql"),
            &[&LOG, &registered.model().name(), &version(registered)],
        )
        .await?;
    Ok(row.try_get(0)?)
}

/// Makes the table and folds the log into it, a page a transaction; it doesn't answer yet.
async fn build(client: &mut Client, registered: &Registered, limit: i64) -> Result<(), ReadModelError> {
    let (name, table, version) = (registered.model().name(), registered.table(), version(registered));
    let inline = registered.model().mode() == Mode::Inline;
    let before = client.query_opt(sql::READ_PROJECTION, &[&LOG, &name, &version]).await?;
    let tx = client.transaction().await?;
    if let Some(before) = before {
        // One that was rebuilt before another version took its place.
        tx.batch_execute(&sql::DROP_TABLE.replace("{table}", before.try_get("table_name")?)).await?;
    }
    tx.batch_execute(&sql::DROP_TABLE.replace("{table}", &table)).await?;
    tx.batch_execute(&registered.sql().schema.replace("{table}", &table)).await?;
    let mode = if inline { "inline" } else { "follower" };
    tx.execute(include_str!("sql/mark_building.sql"), &[&LOG, &name, &version, &mode, &table]).await?;
    tx.commit().await?;
    let mut position = 0;
    while let Some(further) = build_on(client, registered, position, limit).await? {
        position = further;
    }
    client.batch_execute(&sql::ANALYZE.replace("{table}", &table)).await?;
    Ok(())
}

/// Folds one page; the position reached, none at the end or where a follower has to stop.
async fn build_on(
    client: &mut Client,
    registered: &Registered,
    after: i64,
    limit: i64,
) -> Result<Option<i64>, ReadModelError> {
    let tx = client.transaction().await?;
    let reached = fold_on(&tx, registered, after, limit).await?;
    tx.commit().await?;
    Ok(reached)
}

/// One page in the caller's transaction. A follower stops at what can't be folded, visibly, and tries again by
/// itself. An inline model passes over it and counts as degraded: nothing could be written, by no server, until
/// somebody has mended the log.
async fn fold_on(
    tx: &Transaction<'_>,
    registered: &Registered,
    after: i64,
    limit: i64,
) -> Result<Option<i64>, ReadModelError> {
    let inline = registered.model().mode() == Mode::Inline;
    let poison = if inline { Poison::IsPassedOver } else { Poison::Stops };
    history::lock(tx, registered, &registered.table()).await?;
    let page = page::fold(tx, registered, &registered.table(), after, limit, poison).await?;
    let stopped = page.poison.is_some() && !inline;
    let reached = page.reached.unwrap_or(after);
    let passed = page.poison.is_some() && inline;
    let (at, why) = page.poison.unzip();
    if let (true, Some(at)) = (passed, at) {
        tracing::error!(
            read_model = registered.model().name(),
            position = at,
            why = why.as_deref().unwrap_or_default(),
            "an event can't be folded and was passed over"
        );
    }
    let (name, version) = (registered.model().name(), version(registered));
    tx.execute(include_str!("sql/build_on.sql"), &[&LOG, &name, &version, &reached, &at, &why, &passed])
        .await?;
    Ok(if stopped { None } else { page.reached })
}

/// Lets this build's tables answer, and the append keep its inline ones.
async fn swap(client: &mut Client, registry: &Registry, page: i64) -> Result<(), ReadModelError> {
    let waiting = client.query_one(include_str!("sql/count_building.sql"), &[&LOG]).await?;
    if is_current(client, registry).await? && waiting.try_get::<_, i64>(0)? == 0 {
        return Ok(());
    }
    let tx = client.transaction().await?;
    tx.query_one(sql::LOCK_HEAD, &[&LOG]).await?;
    for registered in registry.all() {
        let name = registered.model().name();
        let row = tx.query_one(sql::READ_PROJECTION, &[&LOG, &name, &version(registered)]).await?;
        if row.try_get::<_, &str>("state")? != "building" {
            continue;
        }
        let mut checkpoint: i64 = row.try_get("checkpoint")?;
        if registered.model().mode() == Mode::Inline {
            while let Some(further) = fold_on(&tx, registered, checkpoint, page).await? {
                checkpoint = further;
            }
        }
        tx.execute(include_str!("sql/retire_others.sql"), &[&LOG, &name, &version(registered)]).await?;
        tx.execute(include_str!("sql/activate.sql"), &[&LOG, &name, &version(registered), &checkpoint])
            .await?;
    }
    let kept: Vec<String> = tables(&tx, registry).await?.into_values().collect();
    tx.execute(include_str!("sql/retire_inline.sql"), &[&LOG, &kept]).await?;
    let head = read::head_in(&tx).await?;
    write_functions(&tx, registry, head).await?;
    tx.commit().await?;
    Ok(())
}

/// Whether the function that the append calls is the one that this build would write.
pub(super) async fn is_current(
    client: &impl GenericClient,
    registry: &Registry,
) -> Result<bool, ReadModelError> {
    let function = apply_inline(registry, &tables(client, registry).await?);
    let present: Option<String> =
        client.query_one(include_str!("sql/read_apply_inline.sql"), &[]).await?.try_get(0)?;
    Ok(present.is_some_and(|body| function.contains(&body)))
}

/// Writes the functions that read and write the inline models' rows for the append. Under the head lock.
pub(super) async fn write_functions(
    tx: &Transaction<'_>,
    registry: &Registry,
    head: i64,
) -> Result<(), ReadModelError> {
    let tables = tables(tx, registry).await?;
    tx.batch_execute(&include_str!("sql/swapped_at.sql").replace("{head}", &head.to_string())).await?;
    for registered in registry.inline() {
        let table = table_of(&tables, registered);
        let function = include_str!("sql/rows_function.sql").replace("{key}", registered.key());
        tx.batch_execute(&sql::bare(&function).replace("{table}", &table)).await?;
    }
    tx.batch_execute(&apply_inline(registry, &tables)).await?;
    Ok(())
}

/// Each inline model's table, by its key.
async fn tables(
    client: &impl GenericClient,
    registry: &Registry,
) -> Result<BTreeMap<String, String>, ReadModelError> {
    let mut tables = BTreeMap::new();
    for row in client.query(include_str!("sql/tables.sql"), &[&LOG]).await? {
        let (name, version): (&str, i32) = (row.try_get("name")?, row.try_get("version")?);
        let key = format!("{name}__v{version}");
        if registry.inline().any(|registered| registered.key() == key) {
            tables.insert(key, row.try_get("table_name")?);
        }
    }
    Ok(tables)
}

fn table_of(tables: &BTreeMap<String, String>, registered: &Registered) -> String {
    tables.get(registered.key()).cloned().unwrap_or_else(|| registered.table())
}

pub(super) fn version(registered: &Registered) -> i32 {
    i32::try_from(registered.model().version()).unwrap_or(i32::MAX)
}

/// The function that the append calls, made from the inline models' upserts.
fn apply_inline(registry: &Registry, tables: &BTreeMap<String, String>) -> String {
    let parts: String = registry
        .inline()
        .map(|registered| {
            let table = table_of(tables, registered);
            let changes = sql::bare(sql::CHANGES_JSON).replace("{rows}", "part -> 'rows'");
            let upsert = sql::bare(&registered.sql().upsert)
                .replace("{table}", &table)
                .replace("{changes}", changes.trim_end())
                .replace("{base}", "p_base");
            sql::bare(include_str!("sql/apply_inline_part.sql"))
                .replace("{table}", &table)
                .replace("{key}", registered.key())
                .replace("{upsert}", upsert.trim().trim_end_matches(';'))
        })
        .collect();
    sql::bare(include_str!("sql/apply_inline.sql"))
        .replace("{models}", &registry.inline_set())
        .replace("{parts}", parts.trim_end())
}
