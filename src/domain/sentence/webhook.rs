//! Sentences of webhooks.

use super::{Writer, count, list};
use crate::domain::webhook::{OffBecause, WebhookEvent};
use crate::kernel::ids::WebhookId;

pub(super) fn webhook(w: &mut Writer<'_>, actor: &str, id: WebhookId, event: &WebhookEvent) -> String {
    if let WebhookEvent::Created(e) = event {
        // As it was called then: the event knows.
        let webhook = w.link("webhook", id.to_string(), Some(e.name.clone()));
        let what = if e.types.is_empty() { "every event".to_owned() } else { quoted(&e.types) };
        return format!("{actor} created the webhook {webhook} for {what}");
    }
    let webhook = w.webhook(id);
    match event {
        WebhookEvent::Created(_) => webhook,
        WebhookEvent::Updated(e) => {
            let name = e.name.as_ref().map(|name| format!("name to {name}"));
            let types = e.types.as_ref().map(|types| match types.as_slice() {
                [] => "types to all".to_owned(),
                some => format!("types to {}", quoted(some)),
            });
            let mut what = Vec::new();
            what.extend(name.as_deref());
            what.extend(e.url.is_some().then_some("address"));
            what.extend(types.as_deref());
            format!("{actor} changed the {} of the webhook {webhook}", list(&what))
        }
        WebhookEvent::Enabled(_) => format!("{actor} switched the webhook {webhook} on"),
        WebhookEvent::Disabled(e) => match e.because {
            OffBecause::Asked => format!("{actor} switched the webhook {webhook} off"),
            OffBecause::Gone => format!("the webhook {webhook} is off: its receiver wants nothing any more"),
            OffBecause::Failing => format!("the webhook {webhook} is off: too many deliveries were given up"),
        },
        WebhookEvent::SecretRotated(e) => {
            format!(
                "{actor} gave the webhook {webhook} a new secret; the old one signs until {}",
                e.old_until
            )
        }
        WebhookEvent::DeadLettered(e) => {
            let tried = count(usize::try_from(e.attempts).unwrap_or(usize::MAX), "attempt", "attempts");
            let status = e.status.map(|status| format!(" ({status})")).unwrap_or_default();
            let why = e.problem.words();
            format!(
                "the delivery of event {} to the webhook {webhook} was given up after {tried}: {why}{status}",
                e.position
            )
        }
        WebhookEvent::RetryAsked(e) => {
            let which = count(e.positions.len(), "delivery", "deliveries");
            format!("{actor} asked for {which} to the webhook {webhook} to be tried again")
        }
        WebhookEvent::ReplayAsked(e) => {
            format!(
                "{actor} asked for events {} to {} to be delivered again to the webhook {webhook}",
                e.from, e.up_to
            )
        }
        WebhookEvent::Tested(e) => match e.problem {
            None => format!("{actor} tested the webhook {webhook}: its receiver took the test"),
            Some(problem) => format!("{actor} tested the webhook {webhook} in vain: {}", problem.words()),
        },
        WebhookEvent::Removed(_) => format!("{actor} removed the webhook {webhook}"),
    }
}

fn quoted(types: &[String]) -> String {
    let types: Vec<&str> = types.iter().map(String::as_str).collect();
    list(&types)
}
