//! A free directory goes to the first who waits and can take it.
//!
//! Invariants: only a task whose agent and daemon have a free slot and whose daemon is online is
//! promoted; those passed over, and those that can't be read, keep their place; promotion is one command with what freed the directory.

use super::decision::{Decided, Decision, Doer, Halt, View};
use super::draft::Draft;
use super::load;
use crate::domain::directory::DirectoryCommand;
use crate::domain::task::{Phase, TaskCommand};
use crate::kernel::ids::{DirectoryId, TaskId, WorkspaceId};

/// Promotes the first of a free directory's waiting tasks.
pub struct DirectoryPromote {
    /// Whose directory.
    pub workspace: WorkspaceId,
    /// The directory.
    pub directory: DirectoryId,
    /// Slots of a daemon.
    pub daemon_slots: u32,
}

impl Decision for DirectoryPromote {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let promoted = promote_first(&mut draft, self.directory, self.daemon_slots, None)?;
        Ok(draft.finish(serde_json::json!({"promoted": promoted})))
    }
}

/// Promotes the first waiting task that can go on, aside from `except`; none when the directory isn't free
/// or nobody can.
///
/// # Errors
/// [`Halt`] when facts are missing.
pub fn promote_first(
    draft: &mut Draft<'_>,
    directory: DirectoryId,
    daemon_slots: u32,
    except: Option<TaskId>,
) -> Result<Option<TaskId>, Halt> {
    let Some(state) = draft.directory(directory)? else { return Ok(None) };
    if state.holder.is_some() {
        return Ok(None);
    }
    for waiting in state.queue.clone() {
        if Some(waiting.task) == except {
            continue;
        }
        // One whose own log is damaged keeps nobody behind it from going on.
        let promoted = match draft.task(waiting.task) {
            Ok(Some(task)) if matches!(task.phase, Phase::Parked(_)) => {
                promote(draft, directory, waiting.task, daemon_slots)
            }
            Ok(_) => Ok(false),
            Err(halt) => Err(halt),
        };
        if load::if_readable(promoted)?.unwrap_or(false) {
            return Ok(Some(waiting.task));
        }
    }
    Ok(None)
}

/// Gives the directory to that parked task, if its daemon is online and slots are free.
///
/// # Errors
/// [`Halt`] when facts are missing.
pub fn promote(
    draft: &mut Draft<'_>,
    directory: DirectoryId,
    task: TaskId,
    daemon_slots: u32,
) -> Result<bool, Halt> {
    let state = draft.needed_task(task)?;
    let Some(claim) = state.claim().cloned() else { return Ok(false) };
    let Some(agent) = load::agent(draft.view, draft.workspace, state.facts.agent)? else { return Ok(false) };
    let stream = load::daemon_stream(draft.workspace, &claim.daemon);
    let there = load::daemon(draft.view, draft.workspace, &claim.daemon)?
        .is_some_and(|daemon| daemon.takes_claims(claim.runtime));
    if !there || draft.is_gone(&claim.daemon) {
        return Ok(false);
    }
    let agent_prefix = format!("agent/{}/slot/", state.facts.agent);
    let daemon_prefix = format!("daemon/{}/slot/", stream.id);
    let (Some(_), Some(_)) = (
        draft.free_number(&agent_prefix, agent.facts.max_concurrent_tasks)?,
        draft.free_number(&daemon_prefix, daemon_slots)?,
    ) else {
        return Ok(false);
    };
    let agent_slot = draft.take_number(&agent_prefix, agent.facts.max_concurrent_tasks)?.unwrap_or(0);
    let daemon_slot = draft.take_number(&daemon_prefix, daemon_slots)?.unwrap_or(0);
    draft.done_by(Doer::Rule("promotion"), |draft| {
        draft.tell_directory(directory, DirectoryCommand::Promote { task })?;
        draft.tell_task(task, TaskCommand::Promote { directory, agent_slot, daemon_slot })
    })?;
    Ok(true)
}
