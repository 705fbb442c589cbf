//! Brings the tables of this build's read models into being at the start of a server.
//!
//! Invariants: a new version is built beside the old one, which answers until the swap; the swap, under
//! the head lock, replaces `rm.apply_inline` and rows of `es.projections` and nothing else; a build
//! that was interrupted starts again.

use tokio_postgres::{Client, NoTls};

use super::folding::Folding;
use super::rebuild::{fold_into, fold_to_head, write_all};
use super::sql;
use super::{ReadModelError, Registered, Registry};
use crate::fold::{FoldError, Mode};
use crate::kernel::error_chain::Chain;
use crate::store::{LOG, Store};

/// Installs what is missing; returns the names of the read models that were built.
///
/// # Errors
/// [`ReadModelError`].
pub async fn run(store: &Store, registry: &Registry) -> Result<Vec<String>, ReadModelError> {
    let (mut client, connection) = store.config().connect(NoTls).await?;
    let driver = tokio::spawn(connection);
    client.batch_execute(sql::NO_TIMEOUT).await?;
    client.batch_execute(include_str!("sql/lock_install.sql")).await?;
    drop_retired(&mut client).await?;
    let mut built = Vec::new();
    for registered in registry.all() {
        if !is_installed(&client, registered).await? {
            build(&mut client, registered, store.limits().follower_page).await?;
            built.push(registered.model().name().to_owned());
        }
    }
    swap(&mut client, registry, store.limits().follower_page).await?;
    drop(client);
    driver.abort();
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

/// Makes the table and folds the log into it; it doesn't answer yet.
async fn build(client: &mut Client, registered: &Registered, page: i64) -> Result<(), ReadModelError> {
    let mut folding = Folding::from_nothing(registered.model());
    let inline = registered.model().mode() == Mode::Inline;
    let mut folded = Ok(0);
    if !registered.is_history() {
        folded = fold_to_head(client, &mut folding, 0, page).await;
    }
    let tx = client.transaction().await?;
    tx.batch_execute(&registered.fill(sql::DROP_TABLE)).await?;
    tx.batch_execute(&registered.fill(&registered.sql().schema)).await?;
    if registered.is_history() {
        folded = fold_into(&tx, registered, &mut folding, page).await;
    }
    let (checkpoint, poison) = match folded {
        Ok(checkpoint) => (checkpoint, None),
        // A follower stops there, visibly; an inline model that can't be folded stops the start.
        Err(error) => match error.poison() {
            Some(position) if !inline => (position - 1, Some((position, Chain(&error).to_string()))),
            _ => return Err(error),
        },
    };
    write_all(&tx, registered, &mut folding).await?;
    let mode = if inline { "inline" } else { "follower" };
    let (name, table, (stopped_at, reason)) = (registered.model().name(), registered.table(), poison.unzip());
    tx.execute(
        include_str!("sql/mark_building.sql"),
        &[&LOG, &name, &version(registered), &mode, &table, &checkpoint, &stopped_at, &reason],
    )
    .await?;
    tx.commit().await?;
    client.batch_execute(&registered.fill(include_str!("sql/analyze.sql"))).await?;
    Ok(())
}

/// Lets this build's tables answer, and the append keep its inline ones.
async fn swap(client: &mut Client, registry: &Registry, page: i64) -> Result<(), ReadModelError> {
    let function = apply_inline(registry);
    let present: Option<String> =
        client.query_one(include_str!("sql/read_apply_inline.sql"), &[]).await?.try_get(0)?;
    let current = present.is_some_and(|body| function.contains(&body));
    let waiting = client.query_one(include_str!("sql/count_building.sql"), &[&LOG]).await?;
    if current && waiting.try_get::<_, i64>(0)? == 0 {
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
            checkpoint = catch_up(&tx, registered, checkpoint, page).await?;
        }
        tx.execute(include_str!("sql/retire_others.sql"), &[&LOG, &name, &version(registered)]).await?;
        tx.execute(include_str!("sql/activate.sql"), &[&LOG, &name, &version(registered), &checkpoint])
            .await?;
    }
    let kept: Vec<String> = registry.inline().map(Registered::table).collect();
    tx.execute(include_str!("sql/retire_inline.sql"), &[&LOG, &kept]).await?;
    tx.batch_execute(&function).await?;
    tx.commit().await?;
    Ok(())
}

/// Folds what was appended since the build, from the rows that it touches.
async fn catch_up(
    tx: &tokio_postgres::Transaction<'_>,
    registered: &Registered,
    checkpoint: i64,
    page: i64,
) -> Result<i64, ReadModelError> {
    let mut position = checkpoint;
    loop {
        let folded = super::follower::fold_page(tx, registered, position, page).await?;
        if let Some((position, reason)) = folded.poison {
            let read_model = registered.model().name();
            let source = FoldError { read_model, key: String::new(), reason };
            return Err(ReadModelError::Fold { position, source });
        }
        match folded.reached {
            Some(reached) => position = reached,
            None => return Ok(position),
        }
    }
}

fn version(registered: &Registered) -> i32 {
    i32::try_from(registered.model().version()).unwrap_or(i32::MAX)
}

/// The function that the append calls, made from the inline models' upserts.
fn apply_inline(registry: &Registry) -> String {
    let parts: String = registry
        .inline()
        .map(|registered| {
            let upsert = sql::bare(&registered.fill(&registered.sql().upsert))
                .replace(
                    "{changes}",
                    sql::bare(sql::CHANGES_JSON).replace("{rows}", "part -> 'rows'").trim_end(),
                )
                .replace("{base}", "p_base");
            sql::bare(&registered.fill(include_str!("sql/apply_inline_part.sql")))
                .replace("{key}", registered.key())
                .replace("{upsert}", upsert.trim().trim_end_matches(';'))
        })
        .collect();
    sql::bare(include_str!("sql/apply_inline.sql"))
        .replace("{models}", &registry.inline_set())
        .replace("{parts}", parts.trim_end())
}
