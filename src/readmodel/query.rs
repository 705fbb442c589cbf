//! Generic reads of read models: by key, by workspace, at least as far as a position.
//!
//! Not here: typed queries of one read model, which lie in a file of its name beside this one.

use std::time::{Duration, Instant};

use tokio_postgres::IsolationLevel;

use super::rows::{StoredRow, from_row};
use super::sql;
use super::{ReadModelError, Registered, history};
use crate::fold::Mode;
use crate::kernel::ids::WorkspaceId;
use crate::store::{LOG, Store, read};

/// How far a read model has come, and what state it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// `inline` or `follower`.
    pub mode: String,
    /// `building`, `active`, `stopped` or `retired`.
    pub state: String,
    /// Its table.
    pub table: String,
    /// The last position that its rows show; for an inline one that answers, the head.
    pub checkpoint: i64,
    /// The event at which it stopped.
    pub stopped_at: Option<i64>,
    /// Why it stopped.
    pub stop_reason: Option<String>,
    /// Whether an event was passed over: the first is `stopped_at`, unless another one stopped it since.
    pub degraded: bool,
    /// The log's head.
    pub head: i64,
    /// A rebuild beside it.
    pub rebuild: Option<RebuildStanding>,
}

/// How far a rebuild is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildStanding {
    /// `building`, `catching_up` or `swapped`.
    pub state: String,
    /// The last position that its rows show.
    pub checkpoint: i64,
    /// The head when it began.
    pub target: i64,
}

impl Standing {
    /// What is wrong with one that answers: a sentence, none when nothing is.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let at = self.stopped_at.map(|at| format!(" at position {at}")).unwrap_or_default();
        let why = self.stop_reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        match (self.state.as_str(), self.degraded) {
            ("stopped", _) => Some(format!("read model {} stands still at an event{at}{why}", self.name)),
            ("active", true) => Some(format!("read model {} has passed over an event{at}{why}", self.name)),
            _ => None,
        }
    }
}

/// Rows by key; one that isn't there is missing in the answer.
///
/// # Errors
/// [`ReadModelError`].
pub async fn by_keys(
    store: &Store,
    registered: &Registered,
    keys: &[String],
) -> Result<Vec<StoredRow>, ReadModelError> {
    answer(store, registered, sql::ROWS_BY_KEY, &[&keys]).await
}

/// One row.
///
/// # Errors
/// [`ReadModelError`].
pub async fn by_key(
    store: &Store,
    registered: &Registered,
    key: &str,
) -> Result<Option<StoredRow>, ReadModelError> {
    Ok(by_keys(store, registered, &[key.to_owned()]).await?.pop())
}

/// Every row of a workspace, by key.
///
/// # Errors
/// [`ReadModelError`].
pub async fn of_workspace(
    store: &Store,
    registered: &Registered,
    workspace: WorkspaceId,
) -> Result<Vec<StoredRow>, ReadModelError> {
    answer(store, registered, include_str!("sql/rows_of_workspace.sql"), &[&workspace.0]).await
}

/// Runs a statement that selects the columns of `rows_by_key.sql` from `{table}`, on the table that
/// answers for the read model in the statement's own snapshot; where the store is that of an earlier moment,
/// on the versions that counted then.
///
/// # Errors
/// [`ReadModelError`].
pub async fn answer(
    store: &Store,
    registered: &Registered,
    sql: &str,
    parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
) -> Result<Vec<StoredRow>, ReadModelError> {
    let mut client = store.client().await?;
    let tx = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let name = registered.model().name();
    let table = match store.as_of() {
        Some(moment) => history::source(&tx, registered, moment.position).await?,
        None => {
            let row = tx.query_opt(sql::ANSWERING_TABLE, &[&LOG, &name]).await?;
            let row = row.ok_or_else(|| ReadModelError::NotInstalled { name: name.to_owned() })?;
            row.try_get("table_name")?
        }
    };
    let rows = tx.query(&sql.replace("{table}", &table), parameters).await?;
    tx.commit().await?;
    rows.iter().map(from_row).collect()
}

/// Waits until the read model shows a position.
///
/// # Errors
/// [`ReadModelError::Behind`] after the limit's wait.
pub async fn at_least(store: &Store, registered: &Registered, position: i64) -> Result<(), ReadModelError> {
    reach(store, registered, position, store.limits().at_least_wait.duration()).await
}

/// Gives a follower a moment to show what the log held when this was called: who has just written
/// something and looks for it finds it. One that stays behind is read as it is.
///
/// # Errors
/// [`ReadModelError`], except `Behind`.
pub async fn settle(store: &Store, registered: &Registered) -> Result<(), ReadModelError> {
    if store.as_of().is_some() {
        return Ok(());
    }
    let position = *store.head().borrow();
    match reach(store, registered, position, store.limits().settle.duration()).await {
        Ok(()) | Err(ReadModelError::Behind { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn reach(
    store: &Store,
    registered: &Registered,
    position: i64,
    patience: Duration,
) -> Result<(), ReadModelError> {
    let deadline = Instant::now() + patience;
    let mut head = store.head();
    loop {
        let checkpoint = shown(store, registered).await?;
        if checkpoint >= position {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let name = registered.model().name().to_owned();
            return Err(ReadModelError::Behind { name, checkpoint, wanted: position });
        }
        // A follower's checkpoint wakes nobody: look again soon.
        let pause = store.limits().notify_pause.duration();
        if tokio::time::timeout(pause, head.changed()).await.is_ok_and(|changed| changed.is_err()) {
            tokio::time::sleep(pause).await;
        }
    }
}

/// The last position that the read model shows; for an inline one, the head.
///
/// # Errors
/// [`ReadModelError`].
pub async fn shown(store: &Store, registered: &Registered) -> Result<i64, ReadModelError> {
    if registered.model().mode() == Mode::Inline {
        return Ok(read::head(store).await?);
    }
    let client = store.client().await?;
    let name = registered.model().name();
    let row = client
        .query_opt(sql::ANSWERING_TABLE, &[&LOG, &name])
        .await?
        .ok_or_else(|| ReadModelError::NotInstalled { name: name.to_owned() })?;
    Ok(row.try_get("checkpoint")?)
}

/// How every read model of the log stands.
///
/// # Errors
/// [`ReadModelError`].
pub async fn standings(store: &Store) -> Result<Vec<Standing>, ReadModelError> {
    let client = store.client().await?;
    let rows = client.query(include_str!("sql/standings.sql"), &[&LOG]).await?;
    rows.iter()
        .map(|row| {
            Ok(Standing {
                name: row.try_get("name")?,
                version: row.try_get::<_, i32>("version")?.cast_unsigned(),
                mode: row.try_get("mode")?,
                state: row.try_get("state")?,
                table: row.try_get("table_name")?,
                checkpoint: row.try_get("checkpoint")?,
                stopped_at: row.try_get("stopped_at")?,
                stop_reason: row.try_get("stop_reason")?,
                degraded: row.try_get("degraded")?,
                head: row.try_get("head")?,
                rebuild: match row.try_get::<_, Option<String>>("rebuild_state")? {
                    None => None,
                    Some(state) => Some(RebuildStanding {
                        state,
                        checkpoint: row.try_get("rebuild_checkpoint")?,
                        target: row.try_get("rebuild_target")?,
                    }),
                },
            })
        })
        .collect()
}
