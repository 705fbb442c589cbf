//! What a webhook allows.

use super::command::WebhookCommand;
use super::event::{
    Created, DeadLettered, Disabled, Enabled, OffBecause, Removed, ReplayAsked, RetryAsked, SecretRotated,
    Updated, WebhookEvent,
};
use super::state::Webhook;
use crate::domain::Refusal;
use crate::kernel::text::is_steering;

/// Longest name, bytes: it stands in table columns and addresses.
const NAME_BYTES: usize = 64;

/// What is refused, or what happens: no events when nothing does.
pub type Decision = Result<Vec<WebhookEvent>, Refusal>;

/// Decides one command on one webhook; `None` is one that doesn't exist yet.
///
/// # Errors
/// `not_found`, `webhook_exists`, `bad_name`, `not_dead_lettered`, `bad_replay`.
pub fn decide(webhook: Option<&Webhook>, command: WebhookCommand) -> Decision {
    let there = webhook.filter(|webhook| !webhook.removed);
    match (there, command) {
        (_, WebhookCommand::Create(facts)) => create(webhook, facts),
        // What the server does by itself may come after the end.
        (None, WebhookCommand::RecordDead { .. }) => Ok(Vec::new()),
        (None, WebhookCommand::Disable(_) | WebhookCommand::Remove | WebhookCommand::RecordTest(_))
            if webhook.is_some() =>
        {
            Ok(Vec::new())
        }
        (None, _) => Err(Refusal::not_found("webhook")),
        (Some(webhook), WebhookCommand::Update(asked)) => update(webhook, asked),
        (Some(webhook), WebhookCommand::Enable) => {
            Ok(webhook.off.map(|_| WebhookEvent::Enabled(Enabled {})).into_iter().collect())
        }
        (Some(webhook), WebhookCommand::Disable(because)) => {
            Ok(if webhook.off.is_some() { Vec::new() } else { vec![off(because)] })
        }
        (Some(_), WebhookCommand::Rotate { secret, old_until }) => {
            Ok(vec![WebhookEvent::SecretRotated(SecretRotated { secret, old_until })])
        }
        (Some(webhook), WebhookCommand::RecordDead { dead, most }) => Ok(record_dead(webhook, dead, most)),
        (Some(webhook), WebhookCommand::Retry { positions }) => retry(webhook, positions),
        (Some(_), WebhookCommand::Replay(asked)) => replay(asked),
        (Some(_), WebhookCommand::RecordTest(tested)) => Ok(vec![WebhookEvent::Tested(tested)]),
        (Some(_), WebhookCommand::Remove) => Ok(vec![WebhookEvent::Removed(Removed {})]),
    }
}

fn off(because: OffBecause) -> WebhookEvent {
    WebhookEvent::Disabled(Disabled { because })
}

fn create(before: Option<&Webhook>, facts: Created) -> Decision {
    valid_name(&facts.name)?;
    if before.is_some() {
        return Err(Refusal::conflict(
            "webhook_exists",
            "a webhook with this id exists already",
            "Create another one with a fresh id.",
        ));
    }
    Ok(vec![WebhookEvent::Created(facts)])
}

fn valid_name(name: &str) -> Result<(), Refusal> {
    let odd = |c: char| is_steering(c) || c == '/';
    if name.trim().is_empty() || name.trim() != name || name.len() > NAME_BYTES || name.chars().any(odd) {
        return Err(Refusal::invalid(
            "bad_name",
            "a webhook's name has 1 to 64 bytes, no slash, no control characters and no blanks around it",
            "Choose another name.",
        ));
    }
    Ok(())
}

fn update(webhook: &Webhook, asked: Updated) -> Decision {
    let change = Updated {
        name: asked.name.filter(|name| *name != webhook.name),
        url: asked.url.filter(|url| *url != webhook.url),
        types: asked.types.filter(|types| *types != webhook.types),
    };
    if let Some(name) = &change.name {
        valid_name(name)?;
    }
    Ok(if change == Updated::default() { Vec::new() } else { vec![WebhookEvent::Updated(change)] })
}

fn record_dead(webhook: &Webhook, dead: DeadLettered, most: usize) -> Vec<WebhookEvent> {
    if webhook.dead.contains(&dead.position) {
        return Vec::new();
    }
    let too_many = webhook.off.is_none() && webhook.dead.len() + 1 >= most;
    let mut events = vec![WebhookEvent::DeadLettered(dead)];
    events.extend(too_many.then(|| off(OffBecause::Failing)));
    events
}

fn retry(webhook: &Webhook, positions: Option<Vec<i64>>) -> Decision {
    let mut positions = positions.unwrap_or_else(|| webhook.dead.iter().copied().collect());
    positions.sort_unstable();
    positions.dedup();
    if let Some(other) = positions.iter().find(|position| !webhook.dead.contains(position)) {
        return Err(Refusal::conflict(
            "not_dead_lettered",
            format!("no delivery of the event at position {other} was given up"),
            "See which were: `multica webhook deliveries NAME --state dead`.",
        ));
    }
    let asked = !positions.is_empty();
    Ok(asked.then_some(WebhookEvent::RetryAsked(RetryAsked { positions })).into_iter().collect())
}

fn replay(asked: ReplayAsked) -> Decision {
    if asked.from < 1 || asked.from > asked.up_to {
        return Err(Refusal::invalid(
            "bad_replay",
            format!("there is nothing to deliver from position {} to {}", asked.from, asked.up_to),
            "Give a position of the log, from 1 on.",
        ));
    }
    Ok(vec![WebhookEvent::ReplayAsked(asked)])
}
