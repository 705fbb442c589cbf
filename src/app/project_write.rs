//! Projects and their resources.
//!
//! Invariants: a second local directory of one daemon is refused by the project's stream, so that of two
//! racing attaches exactly one wins; what is known of a resource's machine is read in the same decision.

use serde_json::{Map, Value, json};

use super::decision::{Decided, Decision, Halt, View};
use super::draft::Draft;
use super::load;
use crate::domain::project::{self, NewResource, ProjectCommand};
use crate::domain::resource::MachineFacts;
use crate::domain::{Family, NewContent, StreamKey};
use crate::kernel::ids::{ProjectId, WorkspaceId};

/// One command on a project's stream.
pub struct ProjectWrite {
    /// Whose project.
    pub workspace: WorkspaceId,
    /// The project.
    pub project: ProjectId,
    /// What is asked; machine facts are filled in here.
    pub command: ProjectCommand,
    /// Texts that the events refer to.
    pub contents: Vec<NewContent>,
    /// The answer's facts.
    pub result: Value,
}

impl Decision for ProjectWrite {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let command = self.with_machines(view)?;
        let stream = StreamKey::new(Family::Project, self.project);
        let events = view.stream(stream)?;
        let mine = events.first().is_none_or(|first| first.workspace == self.workspace);
        let state = if mine { project::evolve::fold(events)? } else { None };
        for event in project::decide::decide(state.as_ref(), command)? {
            draft.push(stream, event);
        }
        if draft.events() > 0 {
            self.contents.iter().for_each(|content| draft.attach(content));
        }
        let result =
            if self.result.is_null() { json!({"project": self.project}) } else { self.result.clone() };
        Ok(draft.finish(result))
    }
}

impl ProjectWrite {
    fn with_machines(&self, view: &View) -> Result<ProjectCommand, Halt> {
        let mut command = self.command.clone();
        match &mut command {
            ProjectCommand::Create { resources, .. } => {
                for resource in resources {
                    self.fill(view, resource)?;
                }
            }
            ProjectCommand::Attach(resource) => self.fill(view, resource)?,
            ProjectCommand::UpdateResource { resource_ref: Some(reference), machine, .. } => {
                *machine = self.facts(view, reference, machine)?;
            }
            ProjectCommand::UpdateResource { .. }
            | ProjectCommand::Update { .. }
            | ProjectCommand::Delete { .. }
            | ProjectCommand::Detach { .. } => {}
        }
        Ok(command)
    }

    fn fill(&self, view: &View, resource: &mut NewResource) -> Result<(), Halt> {
        resource.machine = self.facts(view, &resource.resource_ref, &resource.machine)?;
        Ok(())
    }

    fn facts(
        &self,
        view: &View,
        reference: &Map<String, Value>,
        given: &MachineFacts,
    ) -> Result<MachineFacts, Halt> {
        let Some(daemon) = reference.get("daemon_id").and_then(Value::as_str) else {
            return Ok(given.clone());
        };
        let known = load::daemon(view, self.workspace, daemon.trim())?;
        Ok(load::machine_facts(known.as_ref(), given))
    }
}
