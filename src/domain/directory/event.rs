//! What can happen to the queue of one real directory.

use serde::{Deserialize, Serialize};

use crate::kernel::ids::{AgentId, MachineId, TaskId};

/// What a directory is, as its machine found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Place {
    /// The machine it is on.
    pub machine: MachineId,
    /// Its real path; bytes that aren't UTF-8 are replaced, the stream's id holds the exact bytes' digest.
    #[cfg_attr(test, schemars(extend("x-private" = true)))]
    pub real_path: String,
    /// The device of its inode.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// The boot in which device and inode were read.
    pub boot_id: String,
    /// What people see: the resource's label, else the last path segment.
    pub label: String,
}

impl Place {
    /// Whether both are one directory under two paths (a bind mount): device and inode mean something within one
    /// boot of one machine only.
    #[must_use]
    pub fn is_same_directory(&self, other: &Self) -> bool {
        (self.machine, self.device, self.inode) == (other.machine, other.device, other.inode)
            && self.boot_id == other.boot_id
    }
}

/// What happened to a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum DirectoryEvent {
    /// It was free: the task is its holder now.
    Acquired(Acquired),
    /// It was taken: the task waits at the end of the queue, or at its old place.
    Queued(Queued),
    /// A waiting task became the holder.
    Promoted(Promoted),
    /// A waiting task went away; it never held the directory.
    LeftQueue(LeftQueue),
    /// The holder found the directory locked by somebody we don't know.
    LockBlocked(LockBlocked),
    /// The holder has the operating system's lock.
    LockTaken(LockTaken),
    /// The holder is done with it: its process tree is empty and its finalize done.
    Released(Released),
    /// The holder's machine is given up; what runs there is stopped when it comes back.
    HolderLost(HolderLost),
}

impl DirectoryEvent {
    /// Every task that it names, the one it is about first.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskId> {
        let other = match self {
            Self::Queued(e) => e.holder,
            Self::LockBlocked(e) => e.by_task(),
            Self::Acquired(_)
            | Self::Promoted(_)
            | Self::LeftQueue(_)
            | Self::LockTaken(_)
            | Self::Released(_)
            | Self::HolderLost(_) => None,
        };
        std::iter::once(self.task()).chain(other).collect()
    }

    /// The task that it is about: each of them names one.
    #[must_use]
    pub const fn task(&self) -> TaskId {
        match self {
            Self::Acquired(e) => e.task,
            Self::Queued(e) => e.task,
            Self::Promoted(e) => e.task,
            Self::LeftQueue(e) => e.task,
            Self::LockBlocked(e) => e.task,
            Self::LockTaken(e) => e.task,
            Self::Released(e) => e.task,
            Self::HolderLost(e) => e.task,
        }
    }
}

/// See [`DirectoryEvent::Acquired`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Acquired {
    /// The holder.
    pub task: TaskId,
    /// Its claim.
    pub generation: u32,
    /// Its agent.
    pub agent: AgentId,
    /// Its daemon.
    pub daemon: String,
    /// Its number in this directory's order of arrival, from 1.
    pub ticket: u64,
    /// What the directory is.
    pub place: Place,
}

/// See [`DirectoryEvent::Queued`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Queued {
    /// Who waits.
    pub task: TaskId,
    /// Its claim.
    pub generation: u32,
    /// Its agent.
    pub agent: AgentId,
    /// Its daemon.
    pub daemon: String,
    /// Its number in this directory's order of arrival; a task that returns keeps its own.
    pub ticket: u64,
    /// Who holds the directory, if anybody.
    pub holder: Option<TaskId>,
    /// What the directory is.
    pub place: Place,
}

/// See [`DirectoryEvent::Promoted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Promoted {
    /// The new holder.
    pub task: TaskId,
}

/// See [`DirectoryEvent::LeftQueue`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LeftQueue {
    /// Who left.
    pub task: TaskId,
    /// `cancelled`, `failed`.
    pub reason: String,
}

/// See [`DirectoryEvent::LockBlocked`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LockBlocked {
    /// The holder that is kept out.
    pub task: TaskId,
    /// The process that has the lock, where it can be known.
    pub pid: Option<u32>,
    /// Its program.
    pub program: Option<String>,
    /// The run that it works for, when it is one of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<LockingRun>,
}

/// A run of ours that has a directory's lock while another one holds its queue: its machine was given up, or it
/// doesn't stand in that queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LockingRun {
    /// Of this workspace.
    Task {
        /// The task.
        task: TaskId,
    },
    /// Of another workspace or another installation on the same machine.
    Elsewhere {},
}

impl LockBlocked {
    /// The task of this workspace whose run has the lock, if one's has.
    #[must_use]
    pub const fn by_task(&self) -> Option<TaskId> {
        match self.run {
            Some(LockingRun::Task { task }) => Some(task),
            Some(LockingRun::Elsewhere {}) | None => None,
        }
    }

    /// Who has the lock, in words; `name` is the task's, where one of this workspace has it.
    #[must_use]
    pub fn who(&self, name: impl FnOnce(TaskId) -> String) -> String {
        let program = match (&self.run, &self.program) {
            (Some(LockingRun::Task { task }), _) => name(*task),
            (Some(LockingRun::Elsewhere {}), _) => "a task of another workspace or installation".to_owned(),
            (None, Some(program)) => program.clone(),
            (None, None) => {
                return self.pid.map_or_else(
                    || "a process that can't be named".to_owned(),
                    |pid| format!("process {pid}"),
                );
            }
        };
        match self.pid {
            Some(pid) => format!("{program} (process {pid})"),
            None => program,
        }
    }
}

/// See [`DirectoryEvent::LockTaken`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LockTaken {
    /// The holder.
    pub task: TaskId,
}

/// See [`DirectoryEvent::Released`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Released {
    /// Who held it.
    pub task: TaskId,
}

/// See [`DirectoryEvent::HolderLost`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HolderLost {
    /// Who held it.
    pub task: TaskId,
}
