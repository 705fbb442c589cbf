//! Agents are created, changed and archived.

use serde_json::json;

use super::decision::{Decided, Decision, Halt, View};
use super::draft::Draft;
use super::load;
use crate::domain::agent::{self, AgentCommand, Created, Home, Updated};
use crate::domain::{NewContent, Refusal};
use crate::fold::reservations::agent_name;
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
        name_is_free(view, self.workspace, self.agent, &self.facts.name)?;
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

/// The append would only say that the key is taken: this says the name.
fn name_is_free(view: &View, workspace: WorkspaceId, agent: AgentId, name: &str) -> Result<(), Halt> {
    let key = agent_name(workspace, name);
    if view.reservations(&key)?.get(&key).is_some_and(|holder| *holder != agent.0) {
        return Err(Refusal::conflict(
            "name_taken",
            format!("an agent is called {name} already"),
            "Choose another name.",
        )
        .into());
    }
    Ok(())
}

/// Changes an agent. What has been claimed stays as it was claimed.
pub struct AgentUpdate {
    /// Whose agent.
    pub workspace: WorkspaceId,
    /// Which.
    pub agent: AgentId,
    /// What is to change.
    pub change: Updated,
    /// Its new instructions.
    pub instructions: Option<NewContent>,
    /// The daemon and the provider of the runtime that it is to move to.
    pub moves_to: Option<(String, String)>,
}

impl Decision for AgentUpdate {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        if let Some(name) = &self.change.name {
            name_is_free(view, self.workspace, self.agent, name)?;
        }
        let mut moves_to = None;
        if let (Some((daemon, provider)), Some(runtime)) = (&self.moves_to, self.change.runtime) {
            let daemon = load::daemon(view, self.workspace, daemon)?;
            let daemon = daemon.filter(|daemon| daemon.runtimes.contains_key(&runtime));
            moves_to = daemon.map(|daemon| Home { provider: provider.clone(), owner: daemon.facts.owner });
        }
        let state = load::agent(view, self.workspace, self.agent)?;
        let command = AgentCommand::Update { change: self.change.clone(), moves_to };
        let mut told = false;
        for event in agent::decide::decide(state.as_ref(), command)? {
            told |= matches!(&event, agent::AgentEvent::Updated(change) if change.instructions.is_some());
            draft.push(agent::evolve::stream(self.agent), event);
        }
        if let Some(text) = self.instructions.as_ref().filter(|_| told) {
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
