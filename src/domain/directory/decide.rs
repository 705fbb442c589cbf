//! What a directory allows.

use super::event::{
    Acquired, DirectoryEvent, HolderLost, LeftQueue, LockBlocked, LockTaken, Place, Promoted, Queued,
    Released,
};
use super::state::{Directory, Waiting};
use crate::domain::Refusal;
use crate::kernel::ids::{AgentId, TaskId};

/// A command on one directory's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirectoryCommand {
    /// A task wants it.
    Enter {
        /// The task.
        task: TaskId,
        /// Its claim.
        generation: u32,
        /// Its agent.
        agent: AgentId,
        /// Its daemon.
        daemon: String,
        /// What the machine found there.
        place: Place,
    },
    /// A waiting task gets it. Whether it has slots was found out before.
    Promote {
        /// The task.
        task: TaskId,
    },
    /// A promoted task didn't answer: back to its old place.
    Requeue {
        /// The task.
        task: TaskId,
    },
    /// The task doesn't want it any more: out of the queue, or released when it is the holder.
    Leave {
        /// The task.
        task: TaskId,
        /// `cancelled`, `failed`.
        reason: String,
    },
    /// The holder is done.
    Release {
        /// The task.
        task: TaskId,
    },
    /// The holder's machine is given up.
    LoseHolder {
        /// The task.
        task: TaskId,
    },
    /// The holder is kept out by an unknown process.
    Block(LockBlocked),
    /// The holder has the operating system's lock.
    Lock {
        /// The task.
        task: TaskId,
    },
}

/// Decides one command on one directory; `None` is a directory that nobody entered yet.
///
/// # Errors
/// `not_waiting`, `directory_held`, `not_holder`, `not_found`.
pub fn decide(
    directory: Option<&Directory>,
    command: DirectoryCommand,
) -> Result<Vec<DirectoryEvent>, Refusal> {
    let Some(directory) = directory else {
        return match command {
            DirectoryCommand::Enter { task, generation, agent, daemon, place } => {
                Ok(vec![DirectoryEvent::Acquired(Acquired {
                    task,
                    generation,
                    agent,
                    daemon,
                    ticket: 1,
                    place,
                })])
            }
            DirectoryCommand::Leave { .. } | DirectoryCommand::Release { .. } => Ok(Vec::new()),
            DirectoryCommand::Promote { .. }
            | DirectoryCommand::Requeue { .. }
            | DirectoryCommand::LoseHolder { .. }
            | DirectoryCommand::Block(_)
            | DirectoryCommand::Lock { .. } => Err(Refusal::not_found("directory")),
        };
    };
    match command {
        DirectoryCommand::Enter { task, generation, agent, daemon, place } => {
            let ticket = directory.last_ticket + 1;
            Ok(enter(directory, Waiting { task, generation, agent, daemon, ticket }, place))
        }
        DirectoryCommand::Promote { task } => promote(directory, task),
        DirectoryCommand::Requeue { task } => Ok(requeue(directory, task)),
        DirectoryCommand::Leave { task, reason } => Ok(leave(directory, task, reason)),
        DirectoryCommand::Release { task } => Ok(if directory.is_held_by(task) {
            vec![DirectoryEvent::Released(Released { task })]
        } else {
            Vec::new()
        }),
        DirectoryCommand::LoseHolder { task } => Ok(if directory.is_held_by(task) {
            vec![DirectoryEvent::HolderLost(HolderLost { task })]
        } else {
            Vec::new()
        }),
        DirectoryCommand::Block(event) => block(directory, event),
        DirectoryCommand::Lock { task } => lock(directory, task),
    }
}

fn enter(directory: &Directory, who: Waiting, place: Place) -> Vec<DirectoryEvent> {
    if directory.is_held_by(who.task) || directory.place_in_line(who.task).is_some() {
        return Vec::new();
    }
    let Waiting { task, generation, agent, daemon, ticket } = who;
    if directory.holder.is_none() && directory.queue.is_empty() {
        return vec![DirectoryEvent::Acquired(Acquired { task, generation, agent, daemon, ticket, place })];
    }
    let holder = directory.holder.as_ref().map(|holder| holder.who.task);
    vec![DirectoryEvent::Queued(Queued { task, generation, agent, daemon, ticket, holder, place })]
}

fn promote(directory: &Directory, task: TaskId) -> Result<Vec<DirectoryEvent>, Refusal> {
    if directory.is_held_by(task) {
        return Ok(Vec::new());
    }
    if directory.holder.is_some() {
        return Err(Refusal::conflict(
            "directory_held",
            "another task holds the directory",
            "Wait until it is released.",
        ));
    }
    if directory.place_in_line(task).is_none() {
        return Err(Refusal::conflict(
            "not_waiting",
            "the task doesn't wait for this directory",
            "Enter the directory first.",
        ));
    }
    Ok(vec![DirectoryEvent::Promoted(Promoted { task })])
}

fn requeue(directory: &Directory, task: TaskId) -> Vec<DirectoryEvent> {
    let Some(holder) = directory.holder.as_ref().filter(|holder| holder.who.task == task) else {
        return Vec::new();
    };
    let who = holder.who.clone();
    vec![DirectoryEvent::Queued(Queued {
        task,
        generation: who.generation,
        agent: who.agent,
        daemon: who.daemon,
        ticket: who.ticket,
        holder: None,
        place: directory.place.clone(),
    })]
}

fn leave(directory: &Directory, task: TaskId, reason: String) -> Vec<DirectoryEvent> {
    if directory.is_held_by(task) {
        return vec![DirectoryEvent::Released(Released { task })];
    }
    if directory.place_in_line(task).is_some() {
        return vec![DirectoryEvent::LeftQueue(LeftQueue { task, reason })];
    }
    Vec::new()
}

fn block(directory: &Directory, event: LockBlocked) -> Result<Vec<DirectoryEvent>, Refusal> {
    match &directory.holder {
        Some(holder) if holder.who.task == event.task => Ok(if holder.blocked.as_ref() == Some(&event) {
            Vec::new()
        } else {
            vec![DirectoryEvent::LockBlocked(event)]
        }),
        _ => Err(not_holder()),
    }
}

fn lock(directory: &Directory, task: TaskId) -> Result<Vec<DirectoryEvent>, Refusal> {
    match &directory.holder {
        Some(holder) if holder.who.task == task => {
            Ok(if holder.locked { Vec::new() } else { vec![DirectoryEvent::LockTaken(LockTaken { task })] })
        }
        _ => Err(not_holder()),
    }
}

fn not_holder() -> Refusal {
    Refusal::conflict("not_holder", "the task doesn't hold this directory", "Enter the directory first.")
}
