//! Commands that a rule refused: no events, but a part of what happened.
//!
//! Invariants: they are ordered by place; a place is the head of the log when the command was refused, then
//! the database's clock, then the command, so that a page ends where the next one begins.
//!
//! Not here: how long they are kept (`upkeep`).

use jiff::Timestamp;
use uuid::Uuid;

use super::raw::actor_of;
use super::{LOG, Store, StoreError};
use crate::domain::{Actor, Family, Refusal, StreamKey};
use crate::kernel::ids::{CommandId, CorrelationId, WorkspaceId};

/// A refused command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The command.
    pub command: CommandId,
    /// The intent that it followed from.
    pub correlation: CorrelationId,
    /// `<family>.<verb>`: what was asked for.
    pub kind: String,
    /// The head of the log then.
    pub position: i64,
    /// Why.
    pub refusal: Refusal,
    /// The streams that the rule looked at.
    pub about: Vec<StreamKey>,
    /// Who asked.
    pub actor: Actor,
    /// The database's clock then.
    pub recorded_at: Timestamp,
}

/// Where a refused command stands: position, database's clock, command.
pub type Place = (i64, Timestamp, Uuid);

/// Which refused commands are wanted; none is any.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The actor's kind.
    pub actor_kind: Option<String>,
    /// The actor's id.
    pub actor: Option<String>,
    /// What was asked for.
    pub kind: Option<String>,
    /// How that begins.
    pub kind_head: Option<String>,
    /// The intent.
    pub correlation: Option<Uuid>,
    /// A stream that was looked at.
    pub about: Option<StreamKey>,
    /// Recorded then or later.
    pub since: Option<Timestamp>,
    /// Recorded before.
    pub until: Option<Timestamp>,
}

/// Refused commands between two places, without these: the newest first, or the oldest.
///
/// # Errors
/// [`StoreError`].
pub async fn between(
    store: &Store,
    workspace: WorkspaceId,
    wanted: &Wanted,
    after: Place,
    before: Place,
    newest_first: bool,
    limit: i64,
) -> Result<Vec<Refused>, StoreError> {
    let order = if newest_first { "desc" } else { "asc" };
    let sql = include_str!("sql/read_refused.sql").replace("{order}", order);
    let about = wanted.about.map(|key| format!("{}/{}", key.family.name(), key.id));
    let correlation = wanted.correlation.map(|id| id.to_string());
    let client = store.client().await?;
    let rows = client
        .query(
            &sql,
            &[
                &LOG,
                &workspace.0,
                &after.0,
                &after.1,
                &after.2,
                &before.0,
                &before.1,
                &before.2,
                &limit,
                &wanted.actor_kind,
                &wanted.actor,
                &wanted.kind,
                &wanted.kind_head,
                &correlation,
                &about,
                &wanted.since,
                &wanted.until,
            ],
        )
        .await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &tokio_postgres::Row) -> Result<Refused, StoreError> {
    let position: i64 = row.try_get("position")?;
    let result: &str = row.try_get("result")?;
    let value: serde_json::Value = serde_json::from_str(result).unwrap_or_default();
    let about = value["about"].as_array().into_iter().flatten().filter_map(stream).collect();
    let command: Uuid = row.try_get("command_id")?;
    let correlation = value["correlation"].as_str().and_then(|id| id.parse().ok());
    Ok(Refused {
        command: CommandId(command),
        correlation: CorrelationId(correlation.unwrap_or(command)),
        kind: row.try_get("kind")?,
        position,
        refusal: serde_json::from_value(value).unwrap_or_else(|_| unreadable()),
        about,
        actor: actor_of(row, position)?,
        recorded_at: row.try_get("recorded_at")?,
    })
}

/// What stands for a refusal that can't be read any more: one damaged row takes no page with it.
fn unreadable() -> Refusal {
    Refusal::conflict(
        "unreadable",
        "why can't be read any more: the row is damaged",
        "Run `multica verify`: it says what else is.",
    )
}

fn stream(value: &serde_json::Value) -> Option<StreamKey> {
    let (family, id) = value.as_str()?.split_once('/')?;
    Some(StreamKey::new(Family::from_name(family)?, id.parse::<Uuid>().ok()?))
}
