//! Rebuilds a read model from the log.
//!
//! Invariants: readers see the old rows until they see all new ones; an inline model's last part is
//! folded under the head lock, so that no append falls between.

use tokio_postgres::GenericClient;

use super::folding::Folding;
use super::rows::{self, RowChange};
use super::sql;
use super::{ReadModelError, Registered, Registry};
use crate::fold::Mode;
use crate::store::raw::RawEvent;
use crate::store::{LOG, Store, read};

/// What a rebuild came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebuilt {
    /// The last position folded.
    pub up_to: i64,
    /// Rows then.
    pub rows: u64,
}

/// Rebuilds the live table of a read model, in one transaction: what was there is there until it ends.
///
/// # Errors
/// [`ReadModelError`]; nothing has changed then.
pub async fn live(store: &Store, registry: &Registry, name: &str) -> Result<Rebuilt, ReadModelError> {
    let registered = registry.get(name)?;
    let (mut client, connection) = store.config().connect(tokio_postgres::NoTls).await?;
    let driver = tokio::spawn(connection);
    client.batch_execute(sql::NO_TIMEOUT).await?;
    // All but the last part is folded before anything is locked.
    let mut folding = Folding::from_nothing(registered.model());
    let page = store.limits().follower_page;
    let before = fold_to_head(&client, &mut folding, 0, page).await?;
    let tx = client.transaction().await?;
    if registered.model().mode() == Mode::Inline {
        tx.query_one(sql::LOCK_HEAD, &[&LOG]).await?;
    }
    let up_to = fold_to_head(&tx, &mut folding, before, page).await?;
    let mut changes: Vec<RowChange> = folding.take();
    if registered.is_history() {
        tx.batch_execute(&registered.fill(include_str!("sql/history_lock.sql"))).await?;
    } else {
        changes.retain(|change| change.row.is_some());
    }
    tx.batch_execute(&registered.fill(&registered.sql().reset)).await?;
    rows::write(&tx, registered, &changes).await?;
    let version = i32::try_from(registered.model().version()).unwrap_or(i32::MAX);
    let marked = tx.execute(include_str!("sql/mark_rebuilt.sql"), &[&LOG, &name, &version, &up_to]).await?;
    if marked == 0 {
        return Err(ReadModelError::NotInstalled { name: name.to_owned() });
    }
    tx.commit().await?;
    drop(client);
    driver.abort();
    Ok(Rebuilt { up_to, rows: changes.len() as u64 })
}

/// Folds from after a position to the head of each page's snapshot, and says where that was.
pub(super) async fn fold_to_head(
    client: &impl GenericClient,
    folding: &mut Folding<'_>,
    after: i64,
    page: i64,
) -> Result<i64, ReadModelError> {
    read::each_page_in(client, after, page, |events| {
        events.iter().try_for_each(|event| folding.feed(&RawEvent::decode(event)?))
    })
    .await
}

/// [`fold_to_head`] for a row history, which grows with the log: writes page by page, so that memory holds no more
/// than the rows of now. What came before an event that can't be folded is written.
pub(super) async fn fold_into(
    client: &impl GenericClient,
    registered: &Registered,
    folding: &mut Folding<'_>,
    page: i64,
) -> Result<i64, ReadModelError> {
    let mut position = 0;
    loop {
        let events = read::range_in(client, position, page).await?;
        let Some(last) = events.last() else { return Ok(position) };
        position = last.seq;
        let folded = events.iter().try_for_each(|event| folding.feed(&RawEvent::decode(event)?));
        write_all(client, registered, folding).await?;
        folded?;
    }
}

/// Writes what a folding has, for a table that is being built.
pub(super) async fn write_all(
    client: &impl GenericClient,
    registered: &Registered,
    folding: &mut Folding<'_>,
) -> Result<(), ReadModelError> {
    rows::write(client, registered, &folding.take()).await
}
