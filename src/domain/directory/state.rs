//! What a directory is after its events.

use super::event::{DirectoryEvent, LockBlocked, Place};
use crate::domain::folding::fold_stream;
use crate::domain::{Envelope, Event, Family, Impossible, StreamKey};
use crate::kernel::ids::{AgentId, DirectoryId, TaskId};

/// Who has the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The task with its arrival.
    pub who: Waiting,
    /// Whether it has the operating system's lock.
    pub locked: bool,
    /// Who keeps it out, when somebody unknown does.
    pub blocked: Option<LockBlocked>,
}

/// Who waits, or waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The task.
    pub task: TaskId,
    /// Its claim.
    pub generation: u32,
    /// Its agent.
    pub agent: AgentId,
    /// Its daemon.
    pub daemon: String,
    /// Its number in order of arrival.
    pub ticket: u64,
}

/// A directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// What it is, as last seen.
    pub place: Place,
    /// Who has it.
    pub holder: Option<Holder>,
    /// Who waits, first come first.
    pub queue: Vec<Waiting>,
    /// The last ticket given.
    pub last_ticket: u64,
}

impl Directory {
    /// The place in line of a task, from 1; none when it doesn't wait.
    #[must_use]
    pub fn place_in_line(&self, task: TaskId) -> Option<usize> {
        self.queue.iter().position(|waiting| waiting.task == task).map(|index| index + 1)
    }

    /// Whether somebody has it or waits for it. Only then it takes in who comes by another path.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.holder.is_some() || !self.queue.is_empty()
    }

    /// Whether the task has it.
    #[must_use]
    pub fn is_held_by(&self, task: TaskId) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.who.task == task)
    }
}

/// The stream of a directory.
#[must_use]
pub fn stream(id: DirectoryId) -> StreamKey {
    StreamKey::new(Family::Directory, id)
}

/// Folds a whole stream; none when it is empty.
///
/// # Errors
/// [`Impossible`] when an event can't follow what came before.
pub fn fold(events: &[Envelope]) -> Result<Option<Directory>, Impossible> {
    fold_stream(
        events,
        |event| match event {
            Event::Directory(event) => Some(event),
            _ => None,
        },
        |state, event, _| evolve(state, event),
    )
}

/// Applies one event; none when it can't follow.
#[must_use]
pub fn evolve(directory: Option<Directory>, event: &DirectoryEvent) -> Option<Directory> {
    let Some(mut directory) = directory else { return first(event) };
    match event {
        DirectoryEvent::Acquired(e) => {
            if directory.holder.is_some() {
                return None;
            }
            let who = Waiting {
                task: e.task,
                generation: e.generation,
                agent: e.agent,
                daemon: e.daemon.clone(),
                ticket: e.ticket,
            };
            directory.holder = Some(Holder { who, locked: false, blocked: None });
            directory.place = e.place.clone();
            directory.last_ticket = directory.last_ticket.max(e.ticket);
        }
        DirectoryEvent::Queued(e) => {
            if directory.place_in_line(e.task).is_some() {
                return None;
            }
            if directory.is_held_by(e.task) {
                directory.holder = None;
            }
            let waiting = Waiting {
                task: e.task,
                generation: e.generation,
                agent: e.agent,
                daemon: e.daemon.clone(),
                ticket: e.ticket,
            };
            let at = directory.queue.partition_point(|other| other.ticket < e.ticket);
            directory.queue.insert(at, waiting);
            // Who came by another path of it waits here as well, and the directory keeps its own.
            if e.place.real_path == directory.place.real_path {
                directory.place = e.place.clone();
            }
            directory.last_ticket = directory.last_ticket.max(e.ticket);
        }
        DirectoryEvent::Promoted(e) => {
            if directory.holder.is_some() {
                return None;
            }
            let index = directory.queue.iter().position(|waiting| waiting.task == e.task)?;
            let who = directory.queue.remove(index);
            directory.holder = Some(Holder { who, locked: false, blocked: None });
        }
        DirectoryEvent::LeftQueue(e) => {
            let index = directory.queue.iter().position(|waiting| waiting.task == e.task)?;
            directory.queue.remove(index);
        }
        DirectoryEvent::LockBlocked(e) => {
            let holder = directory.holder.as_mut().filter(|holder| holder.who.task == e.task)?;
            holder.blocked = Some(e.clone());
            holder.locked = false;
        }
        DirectoryEvent::LockTaken(e) => {
            let holder = directory.holder.as_mut().filter(|holder| holder.who.task == e.task)?;
            holder.blocked = None;
            holder.locked = true;
        }
        DirectoryEvent::Released(super::event::Released { task })
        | DirectoryEvent::HolderLost(super::event::HolderLost { task }) => {
            if !directory.is_held_by(*task) {
                return None;
            }
            directory.holder = None;
        }
    }
    Some(directory)
}

fn first(event: &DirectoryEvent) -> Option<Directory> {
    let DirectoryEvent::Acquired(e) = event else { return None };
    let empty = Directory { place: e.place.clone(), holder: None, queue: Vec::new(), last_ticket: 0 };
    evolve(Some(empty), event)
}
