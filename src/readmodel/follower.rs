//! Followers: read models that come after the append.
//!
//! Invariants: one page of events, its rows and the checkpoint change in one transaction that is
//! refused when the checkpoint isn't where the page began, so a second follower loses cleanly; an event
//! that can't be folded stops the read model where everybody sees it, after all that came before it.
//!
//! Not here: what an operator's skip means for the log (`operation.event_skipped`, `app`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::GenericClient;
use uuid::Uuid;

use super::folding::Folding;
use super::sql;
use super::{ReadModelError, Registered, Registry, rows};
use crate::kernel::error_chain::Chain;
use crate::store::raw::RawEvent;
use crate::store::{LOG, Store, lease, read};

/// The lease of the process that drives the followers.
pub const LEASE: &str = "followers";

/// What one step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do.
    CaughtUp,
    /// It stands at that position now; there may be more.
    Advanced(i64),
    /// It stands still at an event that can't be folded.
    Stopped {
        /// The event's position.
        position: i64,
        /// Why.
        reason: String,
    },
    /// Somebody else has moved it.
    Lost,
}

/// Drives all followers while this process has their lease. Runs until dropped. Row histories go at a pace of
/// their own, some events at a time: who looks at the past waits for them, and nobody else does.
pub async fn run(store: Store, registry: Arc<Registry>, holder: Uuid) {
    let pause = store.limits().history_pause.duration();
    let now = drive(&store, &registry, holder, Followers::Others);
    let past = drive(&store, &registry, holder, Followers::Histories { pause });
    tokio::join!(now, past);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Followers {
    Others,
    Histories { pause: Duration },
}

async fn drive(store: &Store, registry: &Registry, holder: Uuid, which: Followers) {
    let mut head = store.head();
    let limits = store.limits().clone();
    loop {
        match lease::acquire(store, LEASE, holder, limits.lease.duration()).await {
            Ok(true) => step_some(store, registry, which).await,
            Ok(false) => {}
            Err(error) => tracing::warn!(error = %Chain(&error), "followers cannot renew their lease"),
        }
        if let Followers::Histories { pause } = which {
            tokio::time::sleep(pause).await;
        }
        let wait = limits.head_poll.duration();
        if tokio::time::timeout(wait, head.changed()).await.is_ok_and(|changed| changed.is_err()) {
            return;
        }
    }
}

/// Brings every follower up to the head once, as far as it can be folded.
pub async fn step_all(store: &Store, registry: &Registry) {
    step_each(store, registry.followers()).await;
}

async fn step_some(store: &Store, registry: &Registry, which: Followers) {
    let histories = which != Followers::Others;
    step_each(store, registry.followers().filter(|one| one.is_history() == histories)).await;
}

async fn step_each<'a>(store: &Store, followers: impl Iterator<Item = &'a Registered>) {
    for registered in followers {
        loop {
            match step(store, registered).await {
                Ok(Step::Advanced(_)) => {}
                Ok(Step::CaughtUp | Step::Lost | Step::Stopped { .. }) => break,
                Err(error) => {
                    tracing::warn!(
                        read_model = registered.model().name(),
                        error = %Chain(&error),
                        "follower cannot go on, trying again"
                    );
                    break;
                }
            }
        }
    }
}

/// Folds one page into a follower's table.
///
/// # Errors
/// [`ReadModelError::Store`]; nothing has changed then.
pub async fn step(store: &Store, registered: &Registered) -> Result<Step, ReadModelError> {
    let mut client = store.client().await?;
    let tx = client.transaction().await?;
    // Rows and checkpoint are lost together, if at all, and folded again: nobody waits for the disk.
    tx.batch_execute(include_str!("sql/not_durable.sql")).await?;
    let name = registered.model().name();
    let version = i32::try_from(registered.model().version()).unwrap_or(i32::MAX);
    let row = tx
        .query_opt(sql::READ_PROJECTION, &[&LOG, &name, &version])
        .await?
        .ok_or_else(|| ReadModelError::NotInstalled { name: name.to_owned() })?;
    if row.try_get::<_, &str>("state")? == "stopped" {
        return Ok(Step::Stopped {
            position: row.try_get("stopped_at")?,
            reason: row.try_get("stop_reason")?,
        });
    }
    let checkpoint: i64 = row.try_get("checkpoint")?;
    let page = fold_page(&*tx, registered, checkpoint, store.limits().follower_page).await?;
    let reached = page.reached.unwrap_or(checkpoint);
    let (stopped_at, reason) = page.poison.clone().unzip();
    if reached == checkpoint && stopped_at.is_none() {
        return Ok(Step::CaughtUp);
    }
    let moved = tx
        .execute(
            include_str!("sql/advance.sql"),
            &[&LOG, &name, &version, &checkpoint, &reached, &stopped_at, &reason],
        )
        .await?;
    if moved == 0 {
        return Ok(Step::Lost);
    }
    tx.commit().await?;
    Ok(match page.poison {
        None => Step::Advanced(reached),
        Some((position, reason)) => {
            tracing::error!(read_model = name, position, reason, "read model has stopped at an event");
            Step::Stopped { position, reason }
        }
    })
}

/// Passes over the event at which a follower stopped; it counts as degraded until it is rebuilt.
/// Returns the position passed over, none when it wasn't stopped.
///
/// # Errors
/// [`ReadModelError::Store`].
pub async fn skip(store: &Store, registered: &Registered) -> Result<Option<i64>, ReadModelError> {
    let version = i32::try_from(registered.model().version()).unwrap_or(i32::MAX);
    let client = store.client().await?;
    let row =
        client.query_opt(include_str!("sql/skip.sql"), &[&LOG, &registered.model().name(), &version]).await?;
    row.map(|row| row.try_get(0).map_err(Into::into)).transpose()
}

/// What folding one page came to.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The last position folded; none when there was nothing.
    pub reached: Option<i64>,
    /// The position of an event that can't be folded, and why.
    pub poison: Option<(i64, String)>,
}

/// Folds up to `limit` events after a position into the table, in the caller's transaction.
pub(super) async fn fold_page(
    client: &impl GenericClient,
    registered: &Registered,
    after: i64,
    limit: i64,
) -> Result<Page, ReadModelError> {
    let events = read::range_in(client, after, limit).await?;
    let mut page = Page::default();
    let mut decoded = Vec::with_capacity(events.len());
    for event in &events {
        match RawEvent::decode(event) {
            Ok(envelope) => decoded.push(envelope),
            Err(error) => {
                page.poison = Some((event.seq, Chain(&error).to_string()));
                break;
            }
        }
    }
    let model = registered.model();
    let keys: BTreeSet<String> = decoded.iter().flat_map(|event| model.touches(event)).collect();
    let keys: Vec<String> = keys.into_iter().collect();
    let found = if keys.is_empty() { Vec::new() } else { rows::load(client, registered, &keys).await? };
    let mut folding = Folding::from_rows(model, keys, found);
    for event in &decoded {
        let position = event.position.unwrap_or_default();
        if let Err(error) = folding.feed(event) {
            page.poison = Some((position, Chain(&error).to_string()));
            break;
        }
        page.reached = Some(position);
    }
    rows::write(client, registered, &folding.take()).await?;
    Ok(page)
}
