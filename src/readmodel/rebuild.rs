//! Rebuilds a read model from the log beside the table that answers, and lets the new table take its place.
//!
//! Invariants: readers see the old rows until they see all new ones; each step is one transaction that also
//! writes down how far it came, so that whoever goes on after an interruption does so from there; one
//! process rebuilds a read model at a time; an inline model's last few events are folded under the head lock,
//! so that no append falls between. What can't be folded is passed over and named. Memory holds one page, of a
//! row history too: its versions are written as they are folded.
//!
//! Not here: the event that tells of it (`http`).

use std::sync::Arc;

use tokio_postgres::{Client, Transaction};
use tokio_util::task::AbortOnDropHandle;

use super::page::{self, Page, Poison};
use super::sql;
use super::{ReadModelError, Registered, Registry, history, install};
use crate::fold::Mode;
use crate::kernel::error_chain::Chain;
use crate::store::{LOG, Store, read};

/// What a rebuild came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The last position folded.
    pub up_to: i64,
    /// Rows then.
    pub rows: u64,
    /// Events that could not be folded.
    pub passed_over: i64,
    /// The first of them, and why.
    pub first_passed: Option<(i64, String)>,
}

/// How far a rebuild is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Building,
    CatchingUp,
    Swapped,
}

impl At {
    const fn word(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::CatchingUp => "catching_up",
            Self::Swapped => "swapped",
        }
    }

    fn of(word: &str) -> Self {
        match word {
            "swapped" => Self::Swapped,
            "catching_up" => Self::CatchingUp,
            _ => Self::Building,
        }
    }
}

/// A rebuild under way. Dropped before its end it stops, and the next one goes on from there.
pub struct Rebuild {
    client: Client,
    /// Who stops waiting ends the connection with it, and with it the lock.
    _driver: AbortOnDropHandle<()>,
    store: Store,
    registry: Arc<Registry>,
    name: String,
    at: At,
    table: String,
    old_table: String,
    checkpoint: i64,
    passed_over: i64,
    first_passed: Option<(i64, String)>,
    resumed: bool,
}

/// Rebuilds a read model, or goes on with a rebuild that was interrupted; [`retire`] is the end of it.
///
/// # Errors
/// [`ReadModelError`]; what answers is as it was then.
pub async fn run(store: &Store, registry: &Arc<Registry>, name: &str) -> Result<Rebuilt, ReadModelError> {
    let mut rebuild = Rebuild::begin(store, registry, name).await?;
    loop {
        if let Some(rebuilt) = rebuild.step().await? {
            return Ok(rebuilt);
        }
    }
}

/// Drops the table of before the rebuild, once that is recorded; one that is still read goes later.
///
/// # Errors
/// [`ReadModelError`].
pub async fn retire(store: &Store, name: &str) -> Result<(), ReadModelError> {
    let (mut client, _driver) = store.connect_alone().await?;
    let row = client.query_opt(include_str!("sql/rebuild_retiring.sql"), &[&LOG, &name]).await?;
    if let Some(row) = row {
        drop_old(&mut client, name, row.try_get("old_table")?).await?;
    }
    Ok(())
}

/// Drops the old tables that were still read when their rebuilds ended.
pub(super) async fn retire_all(client: &mut Client) -> Result<(), ReadModelError> {
    for row in client.query(include_str!("sql/rebuilds_retiring.sql"), &[&LOG]).await? {
        drop_old(client, row.try_get("name")?, row.try_get("old_table")?).await?;
    }
    Ok(())
}

/// Says whether the old table is gone.
async fn drop_old(client: &mut Client, name: &str, table: &str) -> Result<bool, ReadModelError> {
    let tx = client.transaction().await?;
    if let Err(error) = tx.batch_execute(&sql::DROP_TABLE.replace("{table}", table)).await {
        tx.rollback().await?;
        tracing::info!(table, error = %Chain(&error), "a retired table is still in use");
        return Ok(false);
    }
    tx.execute(sql::REBUILD_END, &[&LOG, &name]).await?;
    tx.commit().await?;
    Ok(true)
}

impl Rebuild {
    /// Begins a rebuild, or takes one up that was interrupted.
    ///
    /// # Errors
    /// [`ReadModelError::Rebuilding`] while another process does, [`ReadModelError::TableInUse`],
    /// [`ReadModelError::NotInstalled`].
    pub async fn begin(store: &Store, registry: &Arc<Registry>, name: &str) -> Result<Self, ReadModelError> {
        let registered = registry.get(name)?;
        let (client, driver) = store.connect_alone().await?;
        client.batch_execute(sql::NO_TIMEOUT).await?;
        let locked = client.query_one(include_str!("sql/rebuild_lock.sql"), &[&LOG, &name]).await?;
        if !locked.try_get::<_, bool>(0)? {
            return Err(ReadModelError::Rebuilding { name: name.to_owned() });
        }
        let old_table = answering(&client, registered).await?;
        let mut rebuild = Self {
            client,
            _driver: driver,
            store: store.clone(),
            registry: Arc::clone(registry),
            name: name.to_owned(),
            at: At::Building,
            table: next_table(registered, &old_table),
            old_table,
            checkpoint: 0,
            passed_over: 0,
            first_passed: None,
            resumed: false,
        };
        if !rebuild.take_up().await? {
            rebuild.create().await?;
        }
        Ok(rebuild)
    }

    /// Whether it goes on with one that was interrupted.
    #[must_use]
    pub const fn resumed(&self) -> bool {
        self.resumed
    }

    fn registered(&self) -> Result<&Registered, ReadModelError> {
        self.registry.get(&self.name)
    }

    /// Takes up what was begun, if it still fits; clears away what doesn't.
    async fn take_up(&mut self) -> Result<bool, ReadModelError> {
        let found = self.client.query_opt(include_str!("sql/rebuild_read.sql"), &[&LOG, &self.name]).await?;
        let Some(row) = found else { return Ok(false) };
        let (state, table): (&str, String) = (row.try_get("state")?, row.try_get("table_name")?);
        let old_table: String = row.try_get("old_table")?;
        if state == "retiring" {
            if drop_old(&mut self.client, &self.name, &old_table).await? {
                return Ok(false);
            }
            return Err(ReadModelError::TableInUse { name: self.name.clone() });
        }
        let at = At::of(state);
        let answers = if at == At::Swapped { &table } else { &old_table };
        let same = row.try_get::<_, i32>("version")? == install::version(self.registered()?);
        if !same || *answers != self.old_table {
            // Of another version, or overtaken: nobody reads what it made.
            let left = if at == At::Swapped { &old_table } else { &table };
            if *left != self.old_table && !drop_old(&mut self.client, &self.name, left).await? {
                return Err(ReadModelError::TableInUse { name: self.name.clone() });
            }
            return Ok(false);
        }
        self.at = at;
        self.table = table;
        self.old_table = old_table;
        self.checkpoint = row.try_get("checkpoint")?;
        self.passed_over = row.try_get("passed_over")?;
        let first: Option<i64> = row.try_get("first_passed")?;
        self.first_passed = first.zip(row.try_get("reason")?);
        self.resumed = true;
        Ok(true)
    }

    async fn create(&mut self) -> Result<(), ReadModelError> {
        let registered = self.registry.get(&self.name)?;
        let tx = self.client.transaction().await?;
        tx.batch_execute(&sql::DROP_TABLE.replace("{table}", &self.table)).await?;
        tx.batch_execute(&registered.sql().schema.replace("{table}", &self.table)).await?;
        tx.execute(sql::REBUILD_END, &[&LOG, &self.name]).await?;
        let version = install::version(registered);
        tx.execute(
            include_str!("sql/rebuild_begin.sql"),
            &[&LOG, &self.name, &version, &self.table, &self.old_table],
        )
        .await?;
        tx.commit().await?;
        Ok(())
    }

    /// Does the next step: one transaction. Says what the rebuild came to once the new table answers.
    ///
    /// # Errors
    /// [`ReadModelError`]; the step has not been done then.
    pub async fn step(&mut self) -> Result<Option<Rebuilt>, ReadModelError> {
        match self.at {
            At::Building => self.page().await?,
            At::CatchingUp => {
                let head = read::head_in(&self.client).await?;
                if head - self.checkpoint > self.store.limits().rebuild_lag {
                    self.page().await?;
                } else {
                    self.swap().await?;
                }
            }
            At::Swapped => return self.rebuilt().await.map(Some),
        }
        Ok(None)
    }

    async fn page(&mut self) -> Result<(), ReadModelError> {
        let limit = self.store.limits().rebuild_page;
        let registered = self.registry.get(&self.name)?;
        let tx = self.client.transaction().await?;
        history::lock(&tx, registered, &self.table).await?;
        let page =
            page::fold(&tx, registered, &self.table, self.checkpoint, limit, Poison::IsPassedOver).await?;
        let reached = page.reached.unwrap_or(self.checkpoint);
        // The end was in sight: what has been appended meanwhile is caught up with.
        let at = if reached - self.checkpoint < limit { At::CatchingUp } else { self.at };
        let told = told(&tx, &self.name, at, reached, page).await?;
        tx.commit().await?;
        if at != self.at {
            self.client.batch_execute(&sql::ANALYZE.replace("{table}", &self.table)).await?;
        }
        self.checkpoint = reached;
        self.at = at;
        (self.passed_over, self.first_passed) = told;
        Ok(())
    }

    async fn swap(&mut self) -> Result<(), ReadModelError> {
        let limit = self.store.limits().rebuild_page;
        let registered = self.registry.get(&self.name)?;
        let version = install::version(registered);
        let inline = registered.model().mode() == Mode::Inline;
        let tx = self.client.transaction().await?;
        history::lock(&tx, registered, &self.table).await?;
        let upto = if inline {
            // Whether this build's read models are the installed ones can't change while the head is locked.
            tx.query_one(sql::LOCK_HEAD, &[&LOG]).await?;
            let head = read::head_in(&tx).await?;
            if !install::is_current(&tx, &self.registry).await? {
                return Err(ReadModelError::Replaced { name: self.name.clone() });
            }
            head
        } else {
            tx.query_opt(include_str!("sql/lock_projection.sql"), &[&LOG, &self.name, &version])
                .await?
                .ok_or_else(|| ReadModelError::NotInstalled { name: self.name.clone() })?
                .try_get("checkpoint")?
        };
        let mut reached = self.checkpoint;
        let (mut passed_over, mut first) = (self.passed_over, self.first_passed.clone());
        while reached < upto {
            let page = page::fold(&tx, registered, &self.table, reached, limit, Poison::IsPassedOver).await?;
            let Some(further) = page.reached else { break };
            reached = further;
            (passed_over, first) = told(&tx, &self.name, At::CatchingUp, reached, page).await?;
        }
        let (at, why) = first.clone().unzip();
        let moved = tx
            .execute(
                include_str!("sql/switch_table.sql"),
                &[&LOG, &self.name, &version, &self.old_table, &self.table, &reached, &at, &why],
            )
            .await?;
        if moved == 0 {
            return Err(ReadModelError::Replaced { name: self.name.clone() });
        }
        if inline {
            install::write_functions(&tx, &self.registry, reached).await?;
        }
        told(&tx, &self.name, At::Swapped, reached, Page::default()).await?;
        tx.commit().await?;
        (self.at, self.checkpoint, self.passed_over, self.first_passed) =
            (At::Swapped, reached, passed_over, first);
        Ok(())
    }

    async fn rebuilt(&self) -> Result<Rebuilt, ReadModelError> {
        let sql = include_str!("sql/count_rows.sql").replace("{table}", &self.table);
        let rows: i64 = self.client.query_one(&sql, &[]).await?.try_get(0)?;
        Ok(Rebuilt {
            up_to: self.checkpoint,
            rows: rows.unsigned_abs(),
            passed_over: self.passed_over,
            first_passed: self.first_passed.clone(),
        })
    }
}

/// Writes down how far a rebuild is; answers how many events it has passed over, with the first of them.
async fn told(
    tx: &Transaction<'_>,
    name: &str,
    at: At,
    checkpoint: i64,
    page: Page,
) -> Result<(i64, Option<(i64, String)>), ReadModelError> {
    let (first, reason) = page.poison.unzip();
    let row = tx
        .query_one(
            include_str!("sql/rebuild_on.sql"),
            &[&LOG, &name, &at.word(), &checkpoint, &page.poisoned, &first, &reason],
        )
        .await?;
    let first: Option<i64> = row.try_get("first_passed")?;
    Ok((row.try_get("passed_over")?, first.zip(row.try_get("reason")?)))
}

/// The table that answers for this build's version.
async fn answering(client: &Client, registered: &Registered) -> Result<String, ReadModelError> {
    let name = registered.model().name();
    let row = client.query_opt(sql::READ_PROJECTION, &[&LOG, &name, &install::version(registered)]).await?;
    match row {
        Some(row) if matches!(row.try_get("state")?, "active" | "stopped") => Ok(row.try_get("table_name")?),
        _ => Err(ReadModelError::NotInstalled { name: name.to_owned() }),
    }
}

/// `rm.<name>__v<version>_r<n>`, n one more than that of the table that answers.
fn next_table(registered: &Registered, old_table: &str) -> String {
    let before = old_table.strip_prefix(&registered.table()).and_then(|rest| rest.strip_prefix("_r"));
    let n = before.and_then(|n| n.parse::<u64>().ok()).map_or(1, |n| n + 1);
    format!("{}_r{n}", registered.table())
}
