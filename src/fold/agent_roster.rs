//! Read model `agent_roster`: every agent.
//!
//! Rows: `agent/<id>`, an [`AgentRow`].

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::At;
use super::of_stream::OfStream;
use crate::domain::agent::{AgentEvent, CommandLine, Created, Updated};
use crate::domain::{ContentRef, Envelope, Event};
use crate::kernel::ids::{AgentId, RuntimeId, UserId};

/// See the module.
pub struct AgentRoster;

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRow {
    /// Its id.
    pub id: AgentId,
    /// Its name.
    pub name: String,
    /// The runtime its tasks run on.
    pub runtime: RuntimeId,
    /// The runtime's provider.
    pub provider: String,
    /// Standing instructions.
    pub instructions: Option<ContentRef>,
    /// The model asked for.
    pub model: Option<String>,
    /// What provider `command` starts.
    pub command: Option<CommandLine>,
    /// Further arguments.
    pub custom_arguments: Vec<String>,
    /// Tasks it runs at once.
    pub max_concurrent_tasks: u32,
    /// The member it belongs to.
    pub owner: UserId,
    /// Whether it takes no more tasks.
    pub archived: bool,
    /// When it was created.
    pub created_at: At,
    /// When it was archived.
    pub archived_at: Option<At>,
}

impl AgentRow {
    /// The row of one that takes tasks.
    fn of(id: AgentId, facts: Created, created_at: At) -> Self {
        Self {
            id,
            name: facts.name,
            runtime: facts.runtime,
            provider: facts.provider,
            instructions: facts.instructions,
            model: facts.model,
            command: facts.command,
            custom_arguments: facts.custom_arguments,
            max_concurrent_tasks: facts.max_concurrent_tasks,
            owner: facts.owner,
            archived: false,
            created_at,
            archived_at: None,
        }
    }

    /// What a change means is said once, in the domain; only one that takes tasks is changed.
    fn with(self, change: &Updated) -> Self {
        let facts = Created {
            name: self.name,
            runtime: self.runtime,
            provider: self.provider,
            instructions: self.instructions,
            model: self.model,
            command: self.command,
            custom_arguments: self.custom_arguments,
            max_concurrent_tasks: self.max_concurrent_tasks,
            owner: self.owner,
        };
        Self::of(self.id, facts.with(change), self.created_at)
    }
}

/// The key of an agent's row.
#[must_use]
pub fn key(agent: AgentId) -> String {
    format!("agent/{agent}")
}

impl OfStream for AgentRoster {
    const NAME: &'static str = "agent_roster";
    const VERSION: u32 = 1;
    type Happened = AgentEvent;
    type Row = AgentRow;

    fn pick(event: &Event) -> Option<&AgentEvent> {
        if let Event::Agent(happened) = event { Some(happened) } else { None }
    }

    fn key(stream: Uuid) -> String {
        key(AgentId(stream))
    }

    fn after(before: Option<AgentRow>, happened: &AgentEvent, event: &Envelope, at: At) -> Option<AgentRow> {
        Some(match happened {
            AgentEvent::Created(facts) => AgentRow::of(AgentId(event.stream.id), facts.clone(), at),
            AgentEvent::Updated(change) => before?.with(change),
            AgentEvent::Archived(_) => AgentRow { archived: true, archived_at: Some(at), ..before? },
        })
    }
}
