//! Agents are created and archived.

use serde_json::json;

use super::decision::{Decided, Decision, Halt, View};
use super::draft::Draft;
use super::load;
use crate::domain::agent::{self, AgentCommand, Created};
use crate::domain::{NewContent, Refusal};
use crate::kernel::ids::{AgentId, WorkspaceId};

/// Creates an agent.
pub struct AgentCreate {
    /// Whose agent.
    pub workspace: WorkspaceId,
    /// Its id.
    pub agent: AgentId,
    /// What it is; the provider is set from the runtime.
    pub facts: Created,
    /// Its instructions.
    pub instructions: Option<NewContent>,
    /// The daemon that has its runtime.
    pub daemon: String,
}

impl Decision for AgentCreate {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let daemon = load::daemon(view, self.workspace, &self.daemon)?;
        let runtime_owner =
            daemon.filter(|daemon| daemon.runtimes.contains_key(&self.facts.runtime)).map(|d| d.facts.owner);
        // Found by name first: the append would only say that the key is taken.
        let key = format!("name/agent/{}/{}", self.workspace, self.facts.name.to_lowercase());
        if view.reservations(&key)?.get(&key).is_some_and(|holder| *holder != self.agent.0) {
            return Err(Refusal::conflict(
                "name_taken",
                format!("an agent is called {} already", self.facts.name),
                "Choose another name.",
            )
            .into());
        }
        let state = load::agent(view, self.workspace, self.agent)?;
        let command = AgentCommand::Create { facts: self.facts.clone(), runtime_owner };
        for event in agent::decide::decide(state.as_ref(), command)? {
            draft.push(agent::evolve::stream(self.agent), event);
        }
        if let Some(text) = self.instructions.as_ref().filter(|_| draft.events() > 0) {
            draft.attach(text);
        }
        Ok(draft.finish(json!({"agent": self.agent})))
    }
}

/// Archives an agent.
pub struct AgentArchive {
    /// Whose agent.
    pub workspace: WorkspaceId,
    /// Which.
    pub agent: AgentId,
}

impl Decision for AgentArchive {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let state = load::agent(view, self.workspace, self.agent)?;
        for event in agent::decide::decide(state.as_ref(), AgentCommand::Archive)? {
            draft.push(agent::evolve::stream(self.agent), event);
        }
        Ok(draft.finish(json!({"agent": self.agent})))
    }
}
