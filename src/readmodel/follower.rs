//! Followers: read models that come after the append.
//!
//! Invariants: one page of events, its rows and the checkpoint change in one transaction that is
//! refused when the checkpoint isn't where the page began, so a second follower loses cleanly; an event
//! that can't be folded stops the read model where everybody sees it, after all that came before it; it is
//! tried again, later and later, for the log or the build may have been mended.
//!
//! Not here: what an operator's skip means for the log (`operation.event_skipped`, `app`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::page::{self, Poison};
use super::sql;
use super::{ReadModelError, Registered, Registry, install};
use crate::kernel::error_chain::Chain;
use crate::kernel::limits::Limits;
use crate::store::{LOG, Store, lease};

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

/// When those that stand still are tried again.
#[derive(Debug, Default)]
struct Waits(BTreeMap<&'static str, (Instant, Duration)>);

impl Waits {
    fn lets(&self, name: &'static str, now: Instant) -> bool {
        self.0.get(name).is_none_or(|(until, _)| now >= *until)
    }

    fn note(&mut self, name: &'static str, stopped: bool, now: Instant, limits: &Limits) {
        if !stopped {
            self.0.remove(name);
            return;
        }
        let (first, most) = (limits.damaged_retry_first.duration(), limits.damaged_retry_max.duration());
        let wait = self.0.get(name).map_or(first, |(_, wait)| wait.saturating_mul(2)).min(most);
        self.0.insert(name, (now + wait, wait));
    }
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
    let mut waits = Waits::default();
    loop {
        match lease::acquire(store, LEASE, holder, limits.lease.duration()).await {
            Ok(true) => step_some(store, registry, which, &mut waits).await,
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
    for registered in registry.followers() {
        follow(store, registered).await;
    }
}

async fn step_some(store: &Store, registry: &Registry, which: Followers, waits: &mut Waits) {
    let histories = which != Followers::Others;
    for registered in registry.followers().filter(|one| one.is_history() == histories) {
        let (name, now) = (registered.model().name(), Instant::now());
        if waits.lets(name, now) {
            let stopped = follow(store, registered).await;
            waits.note(name, stopped, now, store.limits());
        }
    }
}

/// Brings a follower up to the head; says whether it stands still at an event.
async fn follow(store: &Store, registered: &Registered) -> bool {
    loop {
        match step(store, registered).await {
            Ok(Step::Advanced(_)) => {}
            Ok(Step::CaughtUp | Step::Lost) => return false,
            Ok(Step::Stopped { .. }) => return true,
            Err(error) => {
                tracing::warn!(
                    read_model = registered.model().name(),
                    error = %Chain(&error),
                    "follower cannot go on, trying again"
                );
                return false;
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
    let (name, version) = (registered.model().name(), install::version(registered));
    let row = tx
        .query_opt(sql::READ_PROJECTION, &[&LOG, &name, &version])
        .await?
        .ok_or_else(|| ReadModelError::NotInstalled { name: name.to_owned() })?;
    let table: String = row.try_get("table_name")?;
    let stood: Option<i64> = match row.try_get("state")? {
        "stopped" => row.try_get("stopped_at")?,
        _ => None,
    };
    let checkpoint: i64 = row.try_get("checkpoint")?;
    let limit = store.limits().follower_page;
    let page = page::fold(&*tx, registered, &table, checkpoint, limit, Poison::Stops).await?;
    let reached = page.reached.unwrap_or(checkpoint);
    let (stopped_at, reason) = page.poison.clone().unzip();
    if reached == checkpoint && stopped_at == stood {
        return Ok(match page.poison {
            Some((position, reason)) => Step::Stopped { position, reason },
            None => Step::CaughtUp,
        });
    }
    let moved = tx
        .execute(
            include_str!("sql/advance.sql"),
            &[&LOG, &name, &version, &table, &checkpoint, &reached, &stopped_at, &reason],
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

/// Passes over the event at which a follower stands still; it counts as degraded until it is rebuilt.
/// Says whether it stood there.
///
/// # Errors
/// [`ReadModelError::Store`].
pub async fn skip(store: &Store, registered: &Registered, position: i64) -> Result<bool, ReadModelError> {
    let (name, version) = (registered.model().name(), install::version(registered));
    let client = store.client().await?;
    let row = client.query_opt(include_str!("sql/skip.sql"), &[&LOG, &name, &version, &position]).await?;
    Ok(row.is_some())
}
