//! What a webhook is after its events.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::event::OffBecause;
use crate::kernel::ids::{SecretId, WebhookId};

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Its name.
    pub name: String,
    /// Where to.
    pub url: String,
    /// The types of the events that it gets; none for all.
    pub types: Vec<String>,
    /// What deliveries are signed with.
    pub secret: SecretId,
    /// What they are signed with besides, and until when.
    pub old: Option<(SecretId, Timestamp)>,
    /// Why nothing is delivered to it, when nothing is.
    pub off: Option<OffBecause>,
    /// The positions of the events whose delivery was given up.
    pub dead: BTreeSet<i64>,
    /// Whether it is gone.
    pub removed: bool,
}

impl Webhook {
    /// The secrets that sign at that time, the newest first.
    pub fn secrets(&self, now: Timestamp) -> impl Iterator<Item = SecretId> {
        let old = self.old.filter(|(_, until)| now < *until).map(|(secret, _)| secret);
        std::iter::once(self.secret).chain(old)
    }
}
