//! How far the log was gone through for each webhook, and what became of each delivery.
//!
//! Invariants: a cursor and the deliveries of what it has passed change in one transaction, so nothing is passed
//! over and nothing made twice, whoever dies; an attempt's outcome is written once, whoever writes it.
//!
//! Not here: what is delivered to whom (`domain/webhook`), who does it (`app/webhooks`).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{LOG, Store, StoreError};
use crate::domain::webhook::{Outcome, Problem};
use crate::kernel::ids::{WebhookId, WorkspaceId};

/// The replay that is none: what happens.
pub const LIVE: i64 = 0;

/// How far the log was gone through for a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// For which.
    pub webhook: WebhookId,
    /// Whose.
    pub workspace: WorkspaceId,
    /// The position of the event that asked for the replay; [`LIVE`] for none.
    pub replay: i64,
    /// Nothing up to there is delivered by it.
    pub began: i64,
    /// Every event up to there has its delivery, or needs none.
    pub position: i64,
    /// Where it ends, if it does.
    pub up_to: Option<i64>,
    /// Deliveries of events up to there may have been forgotten.
    pub forgotten: i64,
    /// Whether there are events to go through.
    pub behind: bool,
    /// Whether a delivery is due.
    pub due: bool,
}

/// A webhook's cursors, or those of all.
///
/// # Errors
/// [`StoreError`].
pub async fn cursors(store: &Store, webhook: Option<WebhookId>) -> Result<Vec<Cursor>, StoreError> {
    let id = webhook.map(|webhook| webhook.0);
    let rows = store.client().await?.query(include_str!("sql/webhook_cursors.sql"), &[&LOG, &id]).await?;
    rows.iter()
        .map(|row| {
            Ok(Cursor {
                webhook: WebhookId(row.try_get("webhook_id")?),
                workspace: WorkspaceId(row.try_get("workspace_id")?),
                replay: row.try_get("replay")?,
                began: row.try_get("began")?,
                position: row.try_get("position")?,
                up_to: row.try_get("up_to")?,
                forgotten: row.try_get("forgotten")?,
                behind: row.try_get("behind")?,
                due: row.try_get("due")?,
            })
        })
        .collect()
}

/// Begins to go through the log for a webhook, from behind a position; nothing where that was begun.
///
/// # Errors
/// [`StoreError`].
pub async fn begin(
    store: &Store,
    webhook: WebhookId,
    workspace: WorkspaceId,
    after: i64,
) -> Result<(), StoreError> {
    let client = store.client().await?;
    let sql = BEGIN;
    client.execute(sql, &[&LOG, &webhook.0, &LIVE, &workspace.0, &after, &None::<i64>]).await?;
    Ok(())
}

const BEGIN: &str = include_str!("sql/webhook_begin.sql");

/// An event as far as is looked at before it is delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its position.
    pub position: i64,
    /// Its stream.
    pub stream: Uuid,
    /// Its type.
    pub event_type: String,
}

/// A workspace's events behind a cursor, and how far that goes.
///
/// # Errors
/// [`StoreError`].
pub async fn seen(store: &Store, cursor: &Cursor, limit: i64) -> Result<(i64, Vec<Seen>), StoreError> {
    let end = cursor.up_to.unwrap_or(i64::MAX);
    let client = store.client().await?;
    let sql = include_str!("sql/webhook_seen.sql");
    let rows = client.query(sql, &[&LOG, &cursor.workspace.0, &cursor.position, &limit, &end]).await?;
    let reached = rows.first().map_or(Ok(cursor.position), |row| row.try_get("upto"))?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let Some(position) = row.try_get("seq")? else { continue };
        found.push(Seen {
            position,
            stream: row.try_get("stream_id")?,
            event_type: row.try_get("event_type")?,
        });
    }
    Ok((reached, found))
}

/// What follows from a stretch of the log.
#[derive(Debug, Clone, Default)]
pub struct Stretch {
    /// How far it goes.
    pub reached: i64,
    /// What is to be delivered.
    pub wanted: Vec<Seen>,
    /// Deliveries to be tried again that were given up: the positions of their events.
    pub revived: Vec<i64>,
    /// Replays asked for: the position of the event that asks, after which one, up to which one.
    pub replays: Vec<(i64, i64, i64)>,
}

/// Moves a cursor behind a stretch and makes what follows from it due; false when somebody else has moved it.
///
/// # Errors
/// [`StoreError`]; nothing has changed then.
pub async fn pass(store: &Store, cursor: &Cursor, stretch: &Stretch) -> Result<bool, StoreError> {
    let mut client = store.client().await?;
    let tx = client.transaction().await?;
    let moved = tx
        .execute(
            include_str!("sql/webhook_advance.sql"),
            &[&LOG, &cursor.webhook.0, &cursor.replay, &cursor.position, &stretch.reached],
        )
        .await?;
    if moved == 0 {
        return Ok(false);
    }
    let positions: Vec<i64> = stretch.wanted.iter().map(|seen| seen.position).collect();
    let streams: Vec<Uuid> = stretch.wanted.iter().map(|seen| seen.stream).collect();
    let types: Vec<&str> = stretch.wanted.iter().map(|seen| seen.event_type.as_str()).collect();
    let sql = match cursor.replay {
        LIVE => include_str!("sql/webhook_schedule.sql"),
        _ => include_str!("sql/webhook_schedule_again.sql"),
    };
    if !positions.is_empty() {
        tx.execute(sql, &[&LOG, &cursor.webhook.0, &positions, &streams, &types]).await?;
    }
    // A replay sends again whatever was given up where it passes.
    let passed = if cursor.replay == LIVE { (0, 0) } else { (cursor.position, stretch.reached) };
    if !stretch.revived.is_empty() || passed != (0, 0) {
        let sql = include_str!("sql/webhook_revive.sql");
        tx.execute(sql, &[&LOG, &cursor.webhook.0, &stretch.revived, &passed.0, &passed.1]).await?;
    }
    for (replay, after, up_to) in &stretch.replays {
        tx.execute(BEGIN, &[&LOG, &cursor.webhook.0, replay, &cursor.workspace.0, after, &Some(*up_to)])
            .await?;
    }
    tx.commit().await?;
    Ok(true)
}

/// How many deliveries of a webhook wait.
///
/// # Errors
/// [`StoreError`].
pub async fn waiting(store: &Store, webhook: WebhookId) -> Result<i64, StoreError> {
    let client = store.client().await?;
    Ok(client.query_one(include_str!("sql/webhook_waiting.sql"), &[&LOG, &webhook.0]).await?.try_get(0)?)
}

/// A delivery that is to be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The event's position.
    pub position: i64,
    /// Its stream: what comes later of it waits.
    pub stream: Uuid,
    /// Its type.
    pub event_type: String,
    /// The how-many-eth time it was made due.
    pub round: i32,
    /// How often it was tried since.
    pub attempts: i32,
}

/// What is to be sent to a webhook now: of each stream the first that waits, but of those that are being sent;
/// of events up to a position.
///
/// # Errors
/// [`StoreError`].
pub async fn due(
    store: &Store,
    webhook: WebhookId,
    busy: &[Uuid],
    up_to: i64,
    limit: usize,
) -> Result<Vec<Due>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let client = store.client().await?;
    let rows =
        client.query(include_str!("sql/webhook_due.sql"), &[&LOG, &webhook.0, &busy, &limit, &up_to]).await?;
    rows.iter()
        .map(|row| {
            Ok(Due {
                position: row.try_get("position")?,
                stream: row.try_get("stream_id")?,
                event_type: row.try_get("event_type")?,
                round: row.try_get("round")?,
                attempts: row.try_get("attempts")?,
            })
        })
        .collect()
}

/// How a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is to be tried, or tried again.
    Waiting,
    /// The receiver has it.
    Delivered,
    /// It was given up.
    Dead,
}

impl State {
    /// Every state there is.
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Delivered, Self::Dead];

    /// The word in table and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }
}

/// Writes down what came of an attempt.
///
/// # Errors
/// [`StoreError`].
pub async fn settle(
    store: &Store,
    webhook: WebhookId,
    due: &Due,
    outcome: Outcome,
    took: Duration,
    next: (State, Duration),
) -> Result<(), StoreError> {
    let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let problem = outcome.problem.map(Problem::name);
    let status = outcome.status.map(i32::from);
    let (state, wait) = (next.0.name(), millis(next.1));
    let took = i32::try_from(took.as_millis()).unwrap_or(i32::MAX);
    let client = store.client().await?;
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 10] =
        [&LOG, &webhook.0, &due.position, &due.round, &due.attempts, &state, &wait, &problem, &status, &took];
    client.execute(include_str!("sql/webhook_settle.sql"), &parameters).await?;
    Ok(())
}

/// A delivery as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The event's position.
    pub position: i64,
    /// Its stream.
    pub stream: Uuid,
    /// Its type.
    pub event_type: String,
    /// waiting, delivered, dead.
    pub state: String,
    /// The how-many-eth time it was made due.
    pub round: i32,
    /// How often it was tried since.
    pub attempts: i32,
    /// When it is due.
    pub due_at: Timestamp,
    /// When it was tried last.
    pub tried_at: Option<Timestamp>,
    /// Why that failed.
    pub problem: Option<String>,
    /// What the receiver answered.
    pub status: Option<i32>,
    /// How long that took.
    pub millis: Option<i32>,
}

/// A webhook's deliveries before a position, those of the newest events first.
///
/// # Errors
/// [`StoreError`].
pub async fn list(
    store: &Store,
    webhook: WebhookId,
    state: Option<State>,
    before: i64,
    limit: i64,
) -> Result<Vec<Delivery>, StoreError> {
    let state = state.map(State::name);
    let client = store.client().await?;
    let sql = include_str!("sql/webhook_list.sql");
    let rows = client.query(sql, &[&LOG, &webhook.0, &state, &before, &limit]).await?;
    rows.iter().map(delivery).collect()
}

fn delivery(row: &Row) -> Result<Delivery, StoreError> {
    Ok(Delivery {
        position: row.try_get("position")?,
        stream: row.try_get("stream_id")?,
        event_type: row.try_get("event_type")?,
        state: row.try_get("state")?,
        round: row.try_get("round")?,
        attempts: row.try_get("attempts")?,
        due_at: row.try_get("due_at")?,
        tried_at: row.try_get("tried_at")?,
        problem: row.try_get("problem")?,
        status: row.try_get("status")?,
        millis: row.try_get("millis")?,
    })
}

/// How a webhook's deliveries stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the columns of webhook_counts.sql")]
pub struct Counts {
    pub waiting: i64,
    pub first_waiting: Option<i64>,
    pub delivered_at: Option<Timestamp>,
    pub failed_at: Option<Timestamp>,
}

/// The counts of webhooks.
///
/// # Errors
/// [`StoreError`].
pub async fn counts(
    store: &Store,
    webhooks: impl IntoIterator<Item = WebhookId>,
) -> Result<BTreeMap<WebhookId, Counts>, StoreError> {
    let ids: Vec<Uuid> = webhooks.into_iter().map(|id| id.0).collect();
    let rows = store.client().await?.query(include_str!("sql/webhook_counts.sql"), &[&LOG, &ids]).await?;
    rows.iter()
        .map(|row| {
            let counts = Counts {
                waiting: row.try_get("waiting")?,
                first_waiting: row.try_get("first_waiting")?,
                delivered_at: row.try_get("delivered_at")?,
                failed_at: row.try_get("failed_at")?,
            };
            Ok((WebhookId(row.try_get("webhook_id")?), counts))
        })
        .collect()
}

/// Forgets what was delivered longer ago than `span`.
///
/// # Errors
/// [`StoreError`].
pub async fn forget(store: &Store, webhook: WebhookId, span: Duration) -> Result<(), StoreError> {
    let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let sql = include_str!("sql/webhook_forget.sql");
    store.client().await?.execute(sql, &[&LOG, &webhook.0, &millis]).await?;
    Ok(())
}

/// Forgets a webhook that is gone.
///
/// # Errors
/// [`StoreError`].
pub async fn clear(store: &Store, webhook: WebhookId) -> Result<(), StoreError> {
    store.client().await?.execute(include_str!("sql/webhook_clear.sql"), &[&LOG, &webhook.0]).await?;
    Ok(())
}

/// What became of the deliveries of events after a position and up to another.
///
/// # Errors
/// [`StoreError`].
pub async fn states(
    store: &Store,
    webhook: WebhookId,
    after: i64,
    up_to: i64,
) -> Result<BTreeMap<i64, String>, StoreError> {
    let client = store.client().await?;
    let rows =
        client.query(include_str!("sql/webhook_states.sql"), &[&LOG, &webhook.0, &after, &up_to]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
