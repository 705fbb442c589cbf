//! What can happen to a webhook.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::delivery::Problem;
use crate::kernel::ids::SecretId;

/// What happened to a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum WebhookEvent {
    /// It was created, and is delivered to from here on.
    Created(Created),
    /// Something about it changed; absent fields kept their value.
    Updated(Updated),
    /// It is delivered to again, from here on.
    Enabled(Enabled),
    /// Nothing is delivered to it any more; what waits, waits on.
    Disabled(Disabled),
    /// Deliveries are signed with a new secret, and for a while with the old one besides.
    SecretRotated(SecretRotated),
    /// A delivery was given up after the last of its attempts.
    DeadLettered(DeadLettered),
    /// Somebody asked for deliveries that were given up to be tried again.
    RetryAsked(RetryAsked),
    /// Somebody asked for events to be delivered again.
    ReplayAsked(ReplayAsked),
    /// A test was sent to it.
    Tested(Tested),
    /// It is gone.
    Removed(Removed),
}

/// See [`WebhookEvent::Created`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Created {
    /// Its name, unique in the workspace without regard to case.
    pub name: String,
    /// Where to. Many receivers' addresses hold a key.
    #[cfg_attr(test, schemars(extend("x-private" = true)))]
    pub url: String,
    /// The types of the events that it gets: a type, a family, or a beginning with `*` behind it; none for all.
    pub types: Vec<String>,
    /// What deliveries are signed with.
    pub secret: SecretId,
}

/// See [`WebhookEvent::Updated`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Updated {
    /// The new name.
    pub name: Option<String>,
    /// The new address; what waits is delivered there too.
    #[cfg_attr(test, schemars(extend("x-private" = true)))]
    pub url: Option<String>,
    /// All types that it gets from here on.
    pub types: Option<Vec<String>>,
}

/// See [`WebhookEvent::Enabled`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Enabled {}

/// Why a webhook is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OffBecause {
    /// Somebody asked for it.
    Asked,
    /// The receiver answered 410: it wants nothing any more.
    Gone,
    /// Too many deliveries were given up.
    Failing,
}

/// See [`WebhookEvent::Disabled`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Disabled {
    /// Why.
    pub because: OffBecause,
}

/// See [`WebhookEvent::SecretRotated`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SecretRotated {
    /// What deliveries are signed with now.
    pub secret: SecretId,
    /// Until when they are signed with the secret before it too.
    pub old_until: Timestamp,
}

/// See [`WebhookEvent::DeadLettered`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeadLettered {
    /// The position of the event that was to be delivered.
    pub position: i64,
    /// How often it was tried.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub problem: Problem,
    /// The status that the receiver answered with then, if it did.
    pub status: Option<u16>,
}

/// See [`WebhookEvent::RetryAsked`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RetryAsked {
    /// The positions of the events, in order.
    pub positions: Vec<i64>,
}

/// See [`WebhookEvent::ReplayAsked`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplayAsked {
    /// The first position.
    pub from: i64,
    /// The last position.
    pub up_to: i64,
}

/// See [`WebhookEvent::Tested`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tested {
    /// Why it failed; none when the receiver took it.
    pub problem: Option<Problem>,
    /// The status that the receiver answered with, if it did.
    pub status: Option<u16>,
}

/// See [`WebhookEvent::Removed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Removed {}
