//! What an agent is after its events.

use super::event::{Created, Updated};
use crate::kernel::ids::AgentId;

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// What it was created with, and what has changed since.
    pub facts: Created,
    /// Whether it takes no more tasks.
    pub archived: bool,
}

impl Created {
    /// The same after a change.
    #[must_use]
    pub fn with(self, change: &Updated) -> Self {
        let Updated { name, runtime, instructions, model, command, custom_arguments, max_concurrent_tasks } =
            change.clone();
        Self {
            name: name.unwrap_or(self.name),
            runtime: runtime.unwrap_or(self.runtime),
            provider: self.provider,
            instructions: match instructions {
                Some(text) => Some(text).filter(|text| text.bytes > 0),
                None => self.instructions,
            },
            model: match model {
                Some(model) => Some(model).filter(|model| !model.is_empty()),
                None => self.model,
            },
            command: command.or(self.command),
            custom_arguments: custom_arguments.unwrap_or(self.custom_arguments),
            max_concurrent_tasks: max_concurrent_tasks.unwrap_or(self.max_concurrent_tasks),
            owner: self.owner,
        }
    }
}
