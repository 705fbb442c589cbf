//! A daemon registers, beats, drains, signs off, and looks at paths.

use serde_json::json;

use super::decision::{Decided, Decision, Halt, View};
use super::draft::Draft;
use super::load;
use crate::domain::daemon::{self, DaemonCommand};
use crate::kernel::ids::WorkspaceId;

/// One command on a daemon's stream.
pub struct DaemonWrite {
    /// Whose daemon.
    pub workspace: WorkspaceId,
    /// The daemon.
    pub daemon: String,
    /// What is asked.
    pub command: DaemonCommand,
    /// The answer's facts.
    pub result: serde_json::Value,
}

impl Decision for DaemonWrite {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        tell(&mut draft, &self.daemon, self.command.clone())?;
        let result = if self.result.is_null() { json!({"daemon": self.daemon}) } else { self.result.clone() };
        Ok(draft.finish(result))
    }
}

/// Decides a command on a daemon inside a larger one.
///
/// # Errors
/// [`Halt`] with the daemon's refusal, or missing facts.
pub fn tell(draft: &mut Draft<'_>, id: &str, command: DaemonCommand) -> Result<usize, Halt> {
    let state = load::daemon(draft.view, draft.workspace, id)?;
    let events = daemon::decide::decide(state.as_ref(), command)?;
    let count = events.len();
    for event in events {
        draft.push(load::daemon_stream(draft.workspace, id), event);
    }
    Ok(count)
}
