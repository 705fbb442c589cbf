//! Read model `agent_roster`: every agent.
//!
//! Rows: `agent/<id>`, an [`AgentRow`].

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::At;
use super::of_stream::OfStream;
use crate::domain::agent::{AgentEvent, CommandLine};
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
            AgentEvent::Created(e) => AgentRow {
                id: AgentId(event.stream.id),
                name: e.name.clone(),
                runtime: e.runtime,
                provider: e.provider.clone(),
                instructions: e.instructions.clone(),
                model: e.model.clone(),
                command: e.command.clone(),
                custom_arguments: e.custom_arguments.clone(),
                max_concurrent_tasks: e.max_concurrent_tasks,
                owner: e.owner,
                archived: false,
                created_at: at,
                archived_at: None,
            },
            AgentEvent::Archived(_) => AgentRow { archived: true, archived_at: Some(at), ..before? },
        })
    }
}
