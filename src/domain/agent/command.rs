//! What can be asked of an agent.

use super::event::{Created, Updated};
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
    /// Change something about it; what it has claimed already stays as it was claimed.
    Update {
        /// What is to change; what it is already is no change.
        change: Updated,
        /// The runtime that it is to move to; none when it stays, or when there is no such runtime.
        moves_to: Option<Home>,
    },
    /// Let it take no more tasks.
    Archive,
}

/// What is known of a runtime that an agent is to move to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Its provider.
    pub provider: String,
    /// The member whose daemon has it.
    pub owner: UserId,
}
