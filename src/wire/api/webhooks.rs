//! Webhooks and their deliveries.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::webhook::{OffBecause, Problem};
use crate::kernel::ids::{WebhookId, WorkspaceId};

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// Its name.
    pub name: String,
    /// Where to.
    pub url: String,
    /// The types of the events that it gets: a type, a family, or a beginning with `*` behind it; none for all.
    pub types: Vec<String>,
    /// on, off.
    pub status: String,
    /// Why it is off.
    pub off_because: Option<OffBecause>,
    /// Until when the secret before the last rotation signs too.
    pub old_secret_until: Option<Timestamp>,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// When somebody changed it last.
    pub updated_at: Option<Timestamp>,
    /// Deliveries that were given up.
    pub dead: usize,
    /// How its deliveries stand; not known of an earlier moment.
    pub progress: Option<Progress>,
    /// What deliveries are signed with: only in the answer that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// How a webhook's deliveries stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Every event up to there has its delivery, or needs none.
    pub position: i64,
    /// The log's head then.
    pub head: i64,
    /// Deliveries that are to be tried, or tried again.
    pub waiting: i64,
    /// The first position of those.
    pub first_waiting: Option<i64>,
    /// When it took one last.
    pub delivered_at: Option<Timestamp>,
    /// When an attempt failed last, of those that wait or were given up.
    pub failed_at: Option<Timestamp>,
    /// Replays that aren't gone through yet.
    pub replays: Vec<ReplayProgress>,
}

/// How far a replay is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayProgress {
    /// The position of the event that asked for it.
    pub asked: i64,
    /// Every event up to there has its delivery.
    pub position: i64,
    /// Where it ends.
    pub up_to: i64,
}

/// One event for one webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Its id: the header `webhook-id` of each attempt.
    pub id: String,
    /// The event's position.
    pub position: i64,
    /// The event's type.
    pub event_type: String,
    /// The event's stream: what comes later of it waits for this one.
    pub stream_id: uuid::Uuid,
    /// waiting, delivered, dead.
    pub state: String,
    /// How often it was tried since it was made due last.
    pub attempts: i32,
    /// How often it was made due: by the event, retries and replays.
    pub rounds: i32,
    /// When it is tried next.
    pub due_at: Option<Timestamp>,
    /// When it was tried last.
    pub tried_at: Option<Timestamp>,
    /// Why that failed.
    pub problem: Option<String>,
    /// The same as part of a sentence.
    pub problem_text: Option<String>,
    /// The status that the receiver answered with, if it did.
    pub status: Option<i32>,
    /// How long that took, milliseconds.
    pub millis: Option<i32>,
}

/// A page of deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deliveries {
    /// Those of the newest events first.
    pub deliveries: Vec<Delivery>,
    /// What to ask for as `before` for the next page.
    pub next: Option<i64>,
}

/// What came of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Test {
    /// Whether the receiver took it.
    pub delivered: bool,
    /// Why it failed.
    pub problem: Option<Problem>,
    /// The same as part of a sentence.
    pub problem_text: Option<String>,
    /// The status that the receiver answered with, if it did.
    pub status: Option<u16>,
    /// How long that took, milliseconds.
    pub millis: u64,
}

/// What a replay comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// The first position.
    pub from: i64,
    /// The last position.
    pub up_to: i64,
}
