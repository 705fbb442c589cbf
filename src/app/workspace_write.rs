//! Workspaces, their members and their tokens.

use serde_json::json;

use super::decision::{Decided, Decision, Halt, View};
use super::draft::Draft;
use super::load;
use crate::domain::NewContent;
use crate::domain::workspace::{self, WorkspaceCommand};
use crate::kernel::ids::WorkspaceId;

/// Commands on one workspace, all or none.
pub struct WorkspaceWrite {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// What is asked, in order.
    pub commands: Vec<WorkspaceCommand>,
    /// Texts that the events refer to.
    pub contents: Vec<NewContent>,
    /// The answer's facts.
    pub result: serde_json::Value,
}

impl Decision for WorkspaceWrite {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let mut state = load::workspace(view, self.workspace)?;
        for command in &self.commands {
            for event in workspace::decide::decide(state.as_ref(), command.clone())? {
                state = workspace::evolve::evolve(self.workspace, state, &event);
                draft.push(workspace::evolve::stream(self.workspace), event);
            }
        }
        if draft.events() > 0 {
            self.contents.iter().for_each(|content| draft.attach(content));
        }
        let result =
            if self.result.is_null() { json!({"workspace": self.workspace}) } else { self.result.clone() };
        Ok(draft.finish(result))
    }
}
