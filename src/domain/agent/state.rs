//! What an agent is after its events.

use super::event::Created;
use crate::kernel::ids::AgentId;

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// What it was created with.
    pub facts: Created,
    /// Whether it takes no more tasks.
    pub archived: bool,
}
