//! Read model `agent_roster`: every agent.
//!
//! Rows: `agent/<id>`, an [`AgentRow`].

use serde::{Deserialize, Serialize};

use super::{At, FoldError, Mode, ReadModel, Rows};
use crate::domain::agent::{AgentEvent, CommandLine};
use crate::domain::{ContentRef, Envelope, Event};
use crate::kernel::ids::{AgentId, RuntimeId, UserId};

const NAME: &str = "agent_roster";

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

impl ReadModel for AgentRoster {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> u32 {
        1
    }

    fn mode(&self) -> Mode {
        Mode::Inline
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        match &event.event {
            Event::Agent(_) => vec![key(AgentId(event.stream.id))],
            _ => Vec::new(),
        }
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let Event::Agent(happened) = &event.event else { return Ok(()) };
        let id = AgentId(event.stream.id);
        let key = key(id);
        let at = At::now(rows);
        let row = match happened {
            AgentEvent::Created(e) => AgentRow {
                id,
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
            AgentEvent::Archived(_) => {
                AgentRow { archived: true, archived_at: Some(at), ..rows.need(NAME, &key)? }
            }
        };
        rows.put(NAME, &key, event.workspace, &row)
    }
}
