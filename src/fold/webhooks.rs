//! Read model `webhooks`: every webhook.
//!
//! Rows: `webhook/<id>`, a [`WebhookRow`]. Deliveries and how far they are aren't here: they are facts of the
//! machinery (`store/webhooks`), which a rebuild doesn't touch.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use super::{At, FoldError, Mode, ReadModel, Rows};
use crate::domain::webhook::event::WebhookEvent;
use crate::domain::webhook::{OffBecause, evolve};
use crate::domain::{Envelope, Event};
use crate::kernel::ids::WebhookId;

const NAME: &str = "webhooks";

/// See the module.
pub struct Webhooks;

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookRow {
    /// Its id.
    pub id: WebhookId,
    /// Its name.
    pub name: String,
    /// Where to.
    pub url: String,
    /// The types of the events that it gets; none for all.
    pub types: Vec<String>,
    /// Why nothing is delivered to it, when nothing is.
    pub off: Option<OffBecause>,
    /// Until when the secret before the last rotation signs too, microseconds since 1970.
    pub old_until: Option<i64>,
    /// The positions of the events whose delivery was given up.
    pub dead: BTreeSet<i64>,
    /// Whether it is gone.
    pub removed: bool,
    /// The position at which it was created: it gets what came after.
    pub began: i64,
    /// When it was created.
    pub created_at: At,
    /// When somebody changed it last.
    pub updated_at: At,
}

/// The key of a webhook's row.
#[must_use]
pub fn key(id: WebhookId) -> String {
    format!("webhook/{id}")
}

impl ReadModel for Webhooks {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> u32 {
        1
    }

    fn mode(&self) -> Mode {
        Mode::Follower
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        evolve::pick(&event.event).map(|_| key(WebhookId(event.stream.id))).into_iter().collect()
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let Event::Webhook(happened) = &event.event else { return Ok(()) };
        let id = WebhookId(event.stream.id);
        let key = key(id);
        let at = At::now(rows);
        let row = match happened {
            WebhookEvent::Created(e) => WebhookRow {
                id,
                name: e.name.clone(),
                url: e.url.clone(),
                types: e.types.clone(),
                off: None,
                old_until: None,
                dead: BTreeSet::new(),
                removed: false,
                began: event.position.unwrap_or_default(),
                created_at: at.clone(),
                updated_at: at,
            },
            other => after(rows.need(NAME, &key)?, other, at),
        };
        rows.put(&key, event.workspace, row);
        Ok(())
    }
}

fn after(row: WebhookRow, happened: &WebhookEvent, at: At) -> WebhookRow {
    let changed = WebhookRow { updated_at: at, ..row.clone() };
    match happened {
        WebhookEvent::Created(_) | WebhookEvent::Tested(_) => row,
        WebhookEvent::Updated(e) => WebhookRow {
            name: e.name.clone().unwrap_or(row.name),
            url: e.url.clone().unwrap_or(row.url),
            types: e.types.clone().unwrap_or(row.types),
            ..changed
        },
        WebhookEvent::Enabled(_) => WebhookRow { off: None, ..changed },
        WebhookEvent::Disabled(e) => WebhookRow { off: Some(e.because), ..changed },
        WebhookEvent::SecretRotated(e) => {
            WebhookRow { old_until: Some(e.old_until.as_microsecond()), ..changed }
        }
        WebhookEvent::DeadLettered(e) => {
            let mut dead = row.dead.clone();
            dead.insert(e.position);
            WebhookRow { dead, ..row }
        }
        WebhookEvent::RetryAsked(e) => {
            let mut dead = row.dead.clone();
            dead.retain(|position| !e.positions.contains(position));
            WebhookRow { dead, ..row }
        }
        WebhookEvent::ReplayAsked(e) => {
            let mut dead = row.dead.clone();
            dead.retain(|position| *position < e.from || *position > e.up_to);
            WebhookRow { dead, ..row }
        }
        WebhookEvent::Removed(_) => WebhookRow { removed: true, ..changed },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::spec::{envelope, id};
    use crate::domain::webhook::tests::samples;

    #[test]
    fn a_row_is_what_the_stream_folds_to() {
        let webhook = WebhookId(id(1));
        let mut rows = Rows::new(json!(0));
        rows.load(key(webhook), None);
        let mut state = None;
        for (position, event) in (1..).zip(samples()) {
            state = evolve::evolve(webhook, state, &event);
            let version = i32::try_from(position).expect("few");
            let event = envelope(position, evolve::stream(webhook), version, event.into());
            Webhooks.apply(&mut rows, &event).expect("folds");
            let row: WebhookRow = rows.need(NAME, &key(webhook)).expect("a row");
            let now = state.clone().expect("a state");
            assert_eq!((row.name, row.url, row.types, row.off), (now.name, now.url, now.types, now.off));
            assert_eq!((row.dead, row.removed, row.began), (now.dead, now.removed, 1));
            let until = now.old.map(|(_, until)| until.as_microsecond());
            assert_eq!(row.old_until, until);
        }
    }
}
