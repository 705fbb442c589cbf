//! Folds a webhook's events.

use std::collections::BTreeSet;

use super::event::WebhookEvent;
use super::state::Webhook;
use crate::domain::folding::fold_stream;
use crate::domain::{Envelope, Event, Family, Impossible, StreamKey};
use crate::kernel::ids::WebhookId;

/// The stream of a webhook.
#[must_use]
pub fn stream(id: WebhookId) -> StreamKey {
    StreamKey::new(Family::Webhook, id)
}

/// Folds a whole stream; none when it is empty.
///
/// # Errors
/// [`Impossible`] when an event can't follow what came before.
pub fn fold(events: &[Envelope]) -> Result<Option<Webhook>, Impossible> {
    fold_stream(events, pick, |state, event, envelope| evolve(WebhookId(envelope.stream.id), state, event))
}

/// The event, if it is one of a webhook's.
#[must_use]
pub const fn pick(event: &Event) -> Option<&WebhookEvent> {
    if let Event::Webhook(happened) = event { Some(happened) } else { None }
}

/// Applies one event; none when it can't follow.
#[must_use]
pub fn evolve(id: WebhookId, webhook: Option<Webhook>, event: &WebhookEvent) -> Option<Webhook> {
    let mut webhook = match (webhook, event) {
        (None, WebhookEvent::Created(e)) => {
            return Some(Webhook {
                id,
                name: e.name.clone(),
                url: e.url.clone(),
                types: e.types.clone(),
                secret: e.secret,
                old: None,
                off: None,
                dead: BTreeSet::new(),
                removed: false,
            });
        }
        (Some(webhook), _) if !webhook.removed => webhook,
        (None | Some(_), _) => return None,
    };
    match event {
        WebhookEvent::Created(_) => return None,
        WebhookEvent::Updated(e) => {
            webhook.name = e.name.clone().unwrap_or(webhook.name);
            webhook.url = e.url.clone().unwrap_or(webhook.url);
            webhook.types = e.types.clone().unwrap_or(webhook.types);
        }
        WebhookEvent::Enabled(_) => webhook.off = None,
        WebhookEvent::Disabled(e) => webhook.off = Some(e.because),
        WebhookEvent::SecretRotated(e) => {
            webhook.old = Some((webhook.secret, e.old_until));
            webhook.secret = e.secret;
        }
        WebhookEvent::DeadLettered(e) => {
            webhook.dead.insert(e.position);
        }
        WebhookEvent::RetryAsked(e) => webhook.dead.retain(|position| !e.positions.contains(position)),
        WebhookEvent::ReplayAsked(e) => {
            webhook.dead.retain(|position| *position < e.from || *position > e.up_to);
        }
        WebhookEvent::Tested(_) => {}
        WebhookEvent::Removed(_) => webhook.removed = true,
    }
    Some(webhook)
}
