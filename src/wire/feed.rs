//! Feed frames.

use serde::{Deserialize, Serialize};

/// Something an entry speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// task, issue, agent, project, directory, daemon, member, webhook.
    pub rel: String,
    /// Its id.
    pub id: String,
    /// What people call it.
    pub label: String,
}

/// Which stream an entry belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamName {
    /// The family.
    pub kind: String,
    /// The id.
    pub id: String,
}

/// Who did it, with a name for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorName {
    /// member, agent, daemon, system.
    #[serde(rename = "type")]
    pub kind: String,
    /// The actor's id.
    pub id: String,
    /// What people call the actor.
    pub name: String,
    /// cli, web, api, daemon, policy, up.
    pub via: String,
}

/// The data of an `entry` frame: one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The log's position; also the frame's id.
    pub position: i64,
    /// The event's type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Whose.
    pub workspace: String,
    /// Its stream.
    pub stream: StreamName,
    /// Who did it.
    pub actor: ActorName,
    /// The actor's clock, RFC 3339 with microseconds.
    pub occurred_at: String,
    /// The database's clock.
    pub recorded_at: String,
    /// One readable sentence.
    pub text: String,
    /// What it speaks of.
    pub links: Vec<Link>,
}

/// The data of a `position` frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionFrame {
    /// How far this reader is.
    pub position: i64,
    /// How far the log is.
    pub head: i64,
}
