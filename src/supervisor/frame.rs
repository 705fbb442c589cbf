//! What daemon and supervisor say to each other.
//!
//! Start: the daemon spawns the hidden subcommand `__supervise` in its own session with one
//! [`Charge`] as JSON on standard input, then end of file. From then on they talk over the socket
//! `runs/<generation>/s` in the env root: frames of a big-endian u32 length and one JSON [`Frame`],
//! acknowledged by id. Recovery is `__supervise --recover` with the same [`Charge`], its secrets absent.
//!
//! Invariants: whatever must not be lost is in the spool before it is offered here; a dropped
//! connection loses nothing; an older peer answers a kind it doesn't know with an `ack` that says so.

use serde::{Deserialize, Serialize};

use crate::kernel::ids::{DirectoryId, MachineId, TaskId};
use crate::kernel::limits::Limits;
use crate::process::owner::Owner;
use crate::wire::daemon::{Assignment, Message, Report};

/// The newest version of the frames.
pub const VERSION: u32 = 1;

/// Where the run is to work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Workplace {
    /// In an attached directory, which the server has granted.
    InPlace {
        /// The path as attached, cleaned: the agent's cwd.
        path: String,
        /// Its real path when it was inspected.
        real_path: String,
        /// Its device then: the handle that is locked must be the same.
        device: u64,
        /// Its inode then.
        inode: u64,
        /// The directory's stream.
        directory: DirectoryId,
        /// What people call it.
        label: String,
    },
    /// In an empty directory inside the env root.
    Managed,
}

/// Everything a supervisor needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Charge {
    /// The task; its token is a secret and absent from a recovery's charge.
    pub assignment: Assignment,
    /// Where it works.
    pub workplace: Workplace,
    /// As whom; none when the daemon isn't root: then as itself.
    pub owner: Option<Owner>,
    /// `{work root}/{workspace}/{task key}`.
    pub env_root: String,
    /// `<state>/tasks/<task>-<generation>.json`: the record that was written before this start.
    pub record: String,
    /// The server, for the agent's CLI.
    pub server_url: String,
    /// The machine.
    pub machine: MachineId,
    /// The daemon.
    pub daemon_id: String,
    /// The daemon's local port, for the agent's environment; absent in what an older daemon has recorded.
    #[serde(default)]
    pub daemon_port: Option<u16>,
    /// Which of the daemon's slots, from 0, for the agent's environment.
    pub slot: u32,
    /// Directory of the product's executable, first on the agent's PATH.
    pub executable_dir: String,
    /// The agent's program where the machine's configuration pins it.
    pub provider_program: Option<String>,
    /// Where folders for agents' temporary files are made, if not in the env root; absolute.
    #[serde(default)]
    pub temporary_base: Option<String>,
    /// The bounds in force.
    pub limits: Limits,
}

/// `<state>/tasks/<task>-<generation>.json`: written and fsynced by the daemon before the start; recovery
/// takes the account from here, never from a file that the agent can write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// The task.
    pub task: TaskId,
    /// Its claim.
    pub generation: u32,
    /// As whom it runs.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its env root.
    pub env_root: String,
    /// The directory it holds, if any, as real path.
    pub directory: Option<String>,
    /// That directory's stream.
    pub directory_id: Option<DirectoryId>,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// See [`VERSION`].
    pub v: u32,
    /// Counted by the sender.
    pub id: u64,
    /// What it is.
    #[serde(flatten)]
    pub body: FrameBody,
}

/// See [`Frame`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body", rename_all = "snake_case")]
pub enum FrameBody {
    /// Supervisor → daemon, first: how far it is.
    Hello {
        /// The task.
        task: TaskId,
        /// Its claim.
        generation: u32,
        /// The last report's ordinal in the spool.
        last_ordinal: u64,
        /// preparing, running, finalizing, ended.
        state: String,
    },
    /// Daemon → supervisor: stop the run.
    Cancel {
        /// `cancelled`, `stale_generation`, `interrupted` (a clean stop of the daemon).
        reason: String,
    },
    /// Supervisor → daemon: the spool has grown to that ordinal.
    ReportAvailable {
        /// The last ordinal.
        last_ordinal: u64,
    },
    /// Daemon → supervisor: send the reports after that ordinal.
    PullReports {
        /// The last ordinal the server has acknowledged.
        after: u64,
    },
    /// Supervisor → daemon: reports, in order.
    Reports {
        /// At most a bounded number at once.
        reports: Vec<Report>,
    },
    /// Daemon → supervisor: the server has accepted everything up to that ordinal.
    ReportsDelivered {
        /// The ordinal.
        up_to: u64,
    },
    /// Supervisor → daemon: the transcript has grown.
    TranscriptAvailable {
        /// The last message's seq.
        last_seq: i64,
    },
    /// Daemon → supervisor: send the messages after that seq.
    PullTranscript {
        /// The last seq the server has.
        after: i64,
    },
    /// Supervisor → daemon: messages, in order.
    Transcript {
        /// At most a bounded number at once.
        messages: Vec<Message>,
    },
    /// Either way: the frame with that id is dealt with.
    Ack {
        /// The frame.
        of: u64,
        /// False for a kind that the peer doesn't know.
        understood: bool,
    },
}
