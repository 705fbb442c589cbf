//! What can be asked of an agent.

use super::event::Created;
use crate::kernel::ids::UserId;

/// A command on one agent's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentCommand {
    /// Bring it into being.
    Create {
        /// What it is.
        facts: Created,
        /// Whose daemon the runtime belongs to; none when there is no such runtime.
        runtime_owner: Option<UserId>,
    },
    /// Let it take no more tasks.
    Archive,
}
