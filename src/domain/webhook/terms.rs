//! Which events a webhook gets: what it was when each of them happened.
//!
//! Invariants: the same events of the log give the same answer whenever it is asked, by whichever server; events of
//! webhooks are never delivered.

use super::event::WebhookEvent;
use super::evolve::pick;
use crate::domain::{Envelope, Family};

/// What a webhook wanted, over time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    position: i64,
    on: bool,
    types: Vec<String>,
}

impl Terms {
    /// Those of a webhook's stream.
    #[must_use]
    pub fn of(events: &[Envelope]) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        for envelope in events {
            let (Some(happened), Some(position)) = (pick(&envelope.event), envelope.position) else {
                continue;
            };
            let (on, types) = steps.last().map_or((false, Vec::new()), |last| (last.on, last.types.clone()));
            let next = match happened {
                WebhookEvent::Created(e) => Some((true, e.types.clone())),
                WebhookEvent::Updated(e) => e.types.clone().map(|types| (on, types)),
                WebhookEvent::Enabled(_) => Some((true, types)),
                WebhookEvent::Disabled(_) | WebhookEvent::Removed(_) => Some((false, types)),
                _ => None,
            };
            steps.extend(next.map(|(on, types)| Step { position, on, types }));
        }
        Self { steps }
    }

    /// Whether the event at a position was wanted when it happened.
    #[must_use]
    pub fn want(&self, position: i64, event_type: &str) -> bool {
        self.at(position).is_some_and(|step| step.on && fits(&step.types, event_type))
    }

    /// Whether an event is wanted by what holds at a moment, on or off: for a replay asked for then.
    #[must_use]
    pub fn fit(&self, moment: i64, event_type: &str) -> bool {
        self.at(moment).is_some_and(|step| fits(&step.types, event_type))
    }

    fn at(&self, position: i64) -> Option<&Step> {
        self.steps.iter().rev().find(|step| step.position < position)
    }
}

/// Whether a type is one of those: a type, a family, or a beginning with `*` behind it; none for all.
#[must_use]
pub fn fits(types: &[String], event_type: &str) -> bool {
    let family = event_type.split('.').next().unwrap_or_default();
    if family == Family::Webhook.name() {
        return false;
    }
    types.is_empty()
        || types.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(head) => event_type.starts_with(head),
            None => wanted == event_type || wanted == family,
        })
}
