//! The daemon protocol: registration, claims, orders, reports.
//!
//! Every report of our own daemon carries `generation`, `ordinal` (counted in the run's journal) and
//! `occurred_at`; its `Idempotency-Key` is [`report_key`].

mod register;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use register::{KeptClaim, Register, RegisterRuntime, Registered, RegisteredRuntime};

use crate::domain::agent::CommandLine;
use crate::domain::daemon::ProbeOutcome;
use crate::domain::directory::Place;
use crate::domain::task::{GitState, Usage, WorkPlace};
use crate::kernel::ids::{
    AgentId, DirectoryId, Incarnation, IssueId, OrderId, ProjectId, ResourceId, RuntimeId, TaskId,
    WorkspaceId,
};

/// The capability of a daemon that leaves a queued task to the server's directory queue.
pub const DIRECTORY_QUEUE: &str = "directory-queue-v1";

/// The idempotency key of a report.
#[must_use]
pub fn report_key(task: TaskId, generation: u32, kind: &str, ordinal: u64) -> String {
    format!("report/{task}/{generation}/{kind}/{ordinal}")
}

/// `POST /api/daemon/heartbeat` of our daemons: one for all runtimes. Public daemons send `runtime_id`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The daemon (ours).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_id: Option<String>,
    /// Its process (ours).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
    /// The runtime (public daemons).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_id: Option<RuntimeId>,
}

/// `POST /api/daemon/tasks/claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    /// The daemon.
    pub daemon_id: String,
    /// The runtimes it claims for.
    pub runtime_ids: Vec<RuntimeId>,
    /// At most so many.
    pub max_tasks: i32,
    /// Its process (ours).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
    /// How long to wait for work, milliseconds (ours; bounded by the server).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// The answer to [`ClaimRequest`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimAnswer {
    /// What was claimed.
    pub tasks: Vec<Assignment>,
}

/// A task as a daemon gets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The task.
    pub id: TaskId,
    /// Its claim.
    pub generation: u32,
    /// People's name for it.
    pub name: String,
    /// The runtime.
    pub runtime_id: RuntimeId,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// The agent's id.
    pub agent_id: AgentId,
    /// The agent.
    pub agent: AssignedAgent,
    /// The issue.
    pub issue_id: IssueId,
    /// Its key.
    pub issue_key: String,
    /// Its title.
    pub thread_name: String,
    /// Its description.
    pub issue_description: String,
    /// The comments so far, oldest first, bounded.
    pub comments: Vec<AssignedComment>,
    /// dispatched.
    pub status: String,
    /// 0 to 4.
    pub priority: u8,
    /// Which try.
    pub attempt: u32,
    /// Of how many.
    pub max_attempts: u32,
    /// The task's token (`mat_`).
    pub auth_token: String,
    /// The project.
    pub project_id: Option<ProjectId>,
    /// Its title.
    pub project_title: String,
    /// Its description.
    pub project_description: String,
    /// Its resources, of every type and every machine.
    pub project_resources: Vec<AssignedResource>,
    /// Repositories: the project's first, then the workspace's.
    pub repos: Vec<AssignedRepo>,
    /// What could not be read and is therefore left out, a sentence each.
    pub left_out: Vec<String>,
    /// The provider's session to go on with, if any.
    pub prior_session_id: Option<String>,
    /// The work directory of that session.
    pub prior_work_dir: Option<String>,
    /// The directory that is already its own (after a promotion).
    pub directory: Option<DirectoryId>,
    /// What that directory was found to be: by another path of it, it is its own as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory_identity: Option<DirectoryIdentity>,
    /// Always present for public daemons.
    pub delivered_comment_ids: Vec<String>,
    /// Always true.
    pub leader_role_resolved: bool,
    /// Whether it leads a squad: then it works in no directory of anybody's. Never from this server.
    #[serde(default)]
    pub is_leader_task: bool,
    /// RFC 3339, seconds.
    pub created_at: String,
    /// RFC 3339, seconds.
    pub dispatched_at: String,
}

/// The agent inside an assignment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssignedAgent {
    /// Its id.
    pub id: AgentId,
    /// Its name.
    pub name: String,
    /// Its provider.
    pub provider: String,
    /// Standing instructions.
    pub instructions: String,
    /// The model asked for.
    pub model: Option<String>,
    /// What provider `command` starts.
    pub command: Option<CommandLine>,
    /// Further arguments.
    pub custom_args: Vec<String>,
    /// None in this version; public daemons expect the field.
    pub skills: Vec<Value>,
}

/// A comment inside an assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignedComment {
    /// Who wrote it, by name.
    pub author: String,
    /// What it says.
    pub body: String,
    /// RFC 3339.
    pub created_at: String,
}

/// A resource inside an assignment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssignedResource {
    /// Its id.
    pub id: ResourceId,
    /// Its type.
    pub resource_type: String,
    /// Its reference.
    pub resource_ref: Map<String, Value>,
    /// Its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// A repository inside an assignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignedRepo {
    /// Where it is.
    pub url: String,
    /// What to check out, if said.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub checkout: Option<String>,
    /// A hint about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_branch_hint: Option<String>,
}

/// Server → daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its id; a redelivered order has the same.
    pub id: OrderId,
    /// The log's position at which it was given; the cursor of `?after=`.
    pub position: i64,
    /// What to do.
    pub body: OrderBody,
}

/// See [`Order`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum OrderBody {
    /// Stop that claim. Closed by the report `cancel-received`.
    Cancel {
        /// The task.
        task: TaskId,
        /// The claim.
        generation: u32,
    },
    /// The directory is that task's: fetch the assignment again and send its receipt.
    Promoted {
        /// The task.
        task: TaskId,
        /// The claim.
        generation: u32,
        /// The directory.
        directory: DirectoryId,
    },
    /// Look at a path. Closed by `POST /api/daemon/orders/{id}/probed`.
    Probe {
        /// The path as typed.
        path: String,
    },
}

/// `GET /api/daemon/orders?daemon_id=&after=&wait_ms=`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// Open orders after the cursor, oldest first.
    pub orders: Vec<Order>,
    /// Where to go on.
    pub after: i64,
}

/// `POST /api/daemon/orders/{id}/probed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// The daemon.
    pub daemon_id: String,
    /// What was found.
    pub result: ProbeOutcome,
}

/// A report: `POST /api/daemon/tasks/{id}/<path>`, see [`ReportBody::path`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The claim.
    pub generation: u32,
    /// Its number in the run's journal, from 1.
    pub ordinal: u64,
    /// The machine's clock.
    pub occurred_at: Timestamp,
    /// What it says.
    #[serde(flatten)]
    pub body: ReportBody,
}

/// What a report says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum ReportBody {
    /// The claim or promotion has arrived; nothing was done yet.
    Receipt {},
    /// The directory was looked at: may the task have it?
    EnterDirectory {
        /// The directory.
        directory: DirectoryId,
        /// What it is.
        place: Place,
        /// The resource it comes from.
        resource: ResourceId,
    },
    /// The operating system's lock on the granted directory.
    DirectoryLock {
        /// The directory.
        directory: DirectoryId,
        /// What came of it.
        lock: LockReport,
    },
    /// The place to work is ready.
    Prepared {
        /// Where.
        place: WorkPlace,
        /// The work directory.
        work_dir: String,
        /// The env root.
        env_root: String,
        /// Context files written into the work directory.
        sidecars: u32,
        /// Git's state.
        git: Option<GitState>,
    },
    /// The agent is about to run.
    Start {},
    /// The agent's process exists.
    ProcessStarted {
        /// Its id.
        pid: u32,
        /// Its program, without the path.
        program: String,
    },
    /// The provider's session.
    Session {
        /// Its id.
        session_id: String,
    },
    /// What the run used.
    Usage {
        /// One entry for each model.
        usage: Vec<Usage>,
    },
    /// The cancel order has arrived.
    CancelReceived {},
    /// The process tree is empty.
    ProcessExited {
        /// The exit code.
        code: Option<i32>,
        /// The signal.
        signal: Option<i32>,
        /// Processes that had to be killed besides.
        killed: u32,
    },
    /// Context files could not be removed.
    SidecarsLeft {
        /// Relative to the work directory.
        paths: Vec<String>,
    },
    /// Context files that an earlier run had left were removed.
    SidecarsRemoved {
        /// Relative to the work directory.
        paths: Vec<String>,
    },
    /// The place is in order.
    Finalized {
        /// Git's state.
        git: Option<GitState>,
    },
    /// It ended well. Also releases the directory.
    Complete {
        /// The agent's last word.
        output: String,
        /// The ending.
        #[serde(flatten)]
        ending: EndingReport,
    },
    /// It ended badly. Also releases the directory.
    Fail {
        /// What exactly.
        error: String,
        /// The failure reason.
        failure_reason: String,
        /// The ending.
        #[serde(flatten)]
        ending: EndingReport,
    },
    /// The machine is done with a task that was over before. Also releases the directory.
    CancelAck {
        /// What went wrong while stopping.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure_reason: Option<String>,
        /// The text of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
        /// The directory that is free now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        directory: Option<DirectoryId>,
    },
    /// The daemon gives an undone claim back.
    Return {
        /// Why, as a code.
        reason: String,
    },
}

/// What a machine knows at the end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EndingReport {
    /// The provider's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The work directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_dir: Option<String>,
    /// The delivered branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_name: Option<String>,
    /// The directory that is free now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<DirectoryId>,
}

/// What a directory is, whatever path leads to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryIdentity {
    /// The boot within which the rest means something.
    pub boot_id: String,
    /// The device of its inode.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

/// See [`ReportBody::DirectoryLock`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum LockReport {
    /// The run has it.
    Taken {},
    /// Somebody else has it.
    Blocked {
        /// The process, where it can be known.
        pid: Option<u32>,
        /// Its program.
        program: Option<String>,
        /// The task that it works for, when it is a supervisor of ours.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
    },
    /// The waiter could take it: promote the task.
    Free {},
}

impl ReportBody {
    /// The last segment of its route, which is also its kind in [`report_key`].
    #[must_use]
    pub const fn path(&self) -> &'static str {
        match self {
            Self::Receipt {} => "receipt",
            Self::EnterDirectory { .. } => "enter-directory",
            Self::DirectoryLock { .. } => "directory-lock",
            Self::Prepared { .. } => "prepared",
            Self::Start {} => "start",
            Self::ProcessStarted { .. } => "process-started",
            Self::Session { .. } => "session",
            Self::Usage { .. } => "usage",
            Self::CancelReceived {} => "cancel-received",
            Self::ProcessExited { .. } => "process-exited",
            Self::SidecarsLeft { .. } => "sidecars-left",
            Self::SidecarsRemoved { .. } => "sidecars-removed",
            Self::Finalized { .. } => "finalized",
            Self::Complete { .. } => "complete",
            Self::Fail { .. } => "fail",
            Self::CancelAck { .. } => "cancel-ack",
            Self::Return { .. } => "return",
        }
    }
}

/// The answer to a report: where the task stands now, and the grant where one was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportAnswer {
    /// The task's status after the report.
    pub status: String,
    /// The live generation.
    pub generation: u32,
    /// For `enter-directory`: the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
}

/// The answer to `enter-directory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "grant", rename_all = "snake_case")]
pub enum Grant {
    /// It is the task's.
    Acquired {},
    /// It waits; the daemon forgets the task until the order `promoted`.
    Queued {
        /// Its place in line, from 1.
        place: u32,
    },
}

/// One transcript message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// From 1, ascending within a claim.
    pub seq: i64,
    /// text, thinking, tool_use, tool_result, error.
    #[serde(rename = "type")]
    pub kind: String,
    /// The tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The tool's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The tool's output, bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Whether it came on the error stream.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stderr: bool,
    /// The machine's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// `POST /api/daemon/tasks/{id}/messages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Messages {
    /// The claim; absent from public daemons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Ascending.
    pub messages: Vec<Message>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}
