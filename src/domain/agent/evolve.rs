//! Folds an agent's events.

use super::event::AgentEvent;
use super::state::Agent;
use crate::domain::folding::fold_stream;
use crate::domain::{Envelope, Event, Family, Impossible, StreamKey};
use crate::kernel::ids::AgentId;

/// The stream of an agent.
#[must_use]
pub fn stream(id: AgentId) -> StreamKey {
    StreamKey::new(Family::Agent, id)
}

/// Folds a whole stream; none when it is empty.
///
/// # Errors
/// [`Impossible`] when an event can't follow what came before.
pub fn fold(events: &[Envelope]) -> Result<Option<Agent>, Impossible> {
    fold_stream(
        events,
        |event| match event {
            Event::Agent(event) => Some(event),
            _ => None,
        },
        |state, event, envelope| evolve(AgentId(envelope.stream.id), state, event),
    )
}

/// Applies one event; none when it can't follow.
#[must_use]
pub fn evolve(id: AgentId, agent: Option<Agent>, event: &AgentEvent) -> Option<Agent> {
    match (agent, event) {
        (None, AgentEvent::Created(facts)) => Some(Agent { id, facts: facts.clone(), archived: false }),
        (Some(agent), AgentEvent::Updated(change)) if !agent.archived => {
            Some(Agent { facts: agent.facts.with(change), ..agent })
        }
        (Some(agent), AgentEvent::Archived(_)) => Some(Agent { archived: true, ..agent }),
        (None, AgentEvent::Archived(_)) | (_, AgentEvent::Updated(_)) | (Some(_), AgentEvent::Created(_)) => {
            None
        }
    }
}
