//! Read model `directory_queue`: every directory with its holder and its queue.
//!
//! Rows: `directory/<id>`, a [`DirectoryRow`]. Invariant: [`DirectoryRow::state`] equals the stream's fold.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::At;
use super::of_stream::OfStream;
use crate::domain::directory::{Directory, DirectoryEvent, Holder, LockBlocked, Place, Waiting, state};
use crate::domain::{Envelope, Event};
use crate::kernel::ids::{AgentId, DirectoryId, MachineId, TaskId};

/// See the module.
pub struct DirectoryQueue;

/// A task in a directory's queue, or at its head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaiterRow {
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
    /// Since when it waits, or holds.
    pub since: At,
}

/// Who has a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderRow {
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
    /// Since when it holds.
    pub since: At,
    /// Whether it has the operating system's lock.
    pub locked: bool,
    /// Who keeps it out.
    pub blocked: Option<LockBlocked>,
}

/// A directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryRow {
    /// Its id.
    pub id: DirectoryId,
    /// Its machine.
    pub machine: MachineId,
    /// Its real path: for the daemon's owner and admins.
    pub real_path: String,
    /// The device of its inode.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// The boot in which they were read.
    pub boot_id: String,
    /// What people see.
    pub label: String,
    /// Who has it.
    pub holder: Option<HolderRow>,
    /// Who waits, first come first.
    pub queue: Vec<WaiterRow>,
    /// The last ticket given.
    pub last_ticket: u64,
}

impl DirectoryRow {
    /// The state that the row stands for.
    #[must_use]
    pub fn state(&self) -> Directory {
        Directory {
            place: self.place(),
            holder: self.holder.as_ref().map(|row| Holder {
                who: Waiting {
                    task: row.task,
                    generation: row.generation,
                    agent: row.agent,
                    daemon: row.daemon.clone(),
                    ticket: row.ticket,
                },
                locked: row.locked,
                blocked: row.blocked.clone(),
            }),
            queue: self.queue.iter().map(waiting).collect(),
            last_ticket: self.last_ticket,
        }
    }

    /// What it is, as last seen.
    #[must_use]
    pub fn place(&self) -> Place {
        Place {
            machine: self.machine,
            real_path: self.real_path.clone(),
            device: self.device,
            inode: self.inode,
            boot_id: self.boot_id.clone(),
            label: self.label.clone(),
        }
    }

    fn from_state(id: DirectoryId, state: Directory, before: Option<&Self>, now: &At) -> Self {
        // Who stays where they are keeps their time.
        let held = |task| {
            let holder = before.and_then(|row| row.holder.as_ref());
            holder
                .filter(|holder| holder.task == task)
                .map_or_else(|| now.clone(), |holder| holder.since.clone())
        };
        let waited = |task| {
            let waiter = before.and_then(|row| row.queue.iter().find(|waiter| waiter.task == task));
            waiter.map_or_else(|| now.clone(), |waiter| waiter.since.clone())
        };
        let holder = state.holder.map(|holder| HolderRow {
            since: held(holder.who.task),
            task: holder.who.task,
            generation: holder.who.generation,
            agent: holder.who.agent,
            daemon: holder.who.daemon,
            ticket: holder.who.ticket,
            locked: holder.locked,
            blocked: holder.blocked,
        });
        let waiter = |who: Waiting| WaiterRow {
            since: waited(who.task),
            task: who.task,
            generation: who.generation,
            agent: who.agent,
            daemon: who.daemon,
            ticket: who.ticket,
        };
        Self {
            id,
            machine: state.place.machine,
            real_path: state.place.real_path,
            device: state.place.device,
            inode: state.place.inode,
            boot_id: state.place.boot_id,
            label: state.place.label,
            holder,
            queue: state.queue.into_iter().map(waiter).collect(),
            last_ticket: state.last_ticket,
        }
    }
}

fn waiting(row: &WaiterRow) -> Waiting {
    Waiting {
        task: row.task,
        generation: row.generation,
        agent: row.agent,
        daemon: row.daemon.clone(),
        ticket: row.ticket,
    }
}

/// The key of a directory's row.
#[must_use]
pub fn key(directory: DirectoryId) -> String {
    format!("directory/{directory}")
}

impl OfStream for DirectoryQueue {
    const NAME: &'static str = "directory_queue";
    const VERSION: u32 = 1;
    type Happened = DirectoryEvent;
    type Row = DirectoryRow;

    fn pick(event: &Event) -> Option<&DirectoryEvent> {
        if let Event::Directory(happened) = event { Some(happened) } else { None }
    }

    fn key(stream: Uuid) -> String {
        key(DirectoryId(stream))
    }

    fn after(
        before: Option<DirectoryRow>,
        happened: &DirectoryEvent,
        event: &Envelope,
        at: At,
    ) -> Option<DirectoryRow> {
        let after = state::evolve(before.as_ref().map(DirectoryRow::state), happened)?;
        Some(DirectoryRow::from_state(DirectoryId(event.stream.id), after, before.as_ref(), &at))
    }
}
