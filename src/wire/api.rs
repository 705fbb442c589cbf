//! The people's API: what the server answers about tasks, directories, machines, projects and issues, and
//! what the command line and the pages read of it.
//!
//! Invariants: one type for writer and readers, so that a field is called the same by all; members that
//! only public clients look for stand in `more`, as the server's part made them.
//!
//! Not here: what the requests of the API hold (each stands with its route).

mod accounts;
mod agents;
mod erasures;
mod seals;
mod webhooks;

pub use accounts::{Member, Token};
pub use agents::{Agent, Daemon, PlacedRuntime, Runtime};
pub use erasures::{Erasure, ErasureRequest, GoneTranscript, Retention};
pub use seals::{PutSeal, Seal, SealDone, SealRequest, VerifyLine, VerifyRequest};
pub use webhooks::{Deliveries, Delivery, Progress, Replay, ReplayProgress, Test, Webhook};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::task::Usage;
use crate::kernel::ids::{
    AgentId, CommentId, DirectoryId, IssueId, MachineId, ProjectId, ResourceId, RuntimeId, TaskId,
    WorkspaceId,
};

/// One run of one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// `GAME-12#3`.
    pub name: String,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// Its issue.
    pub issue_id: IssueId,
    /// The issue's key.
    pub issue_key: String,
    /// The issue's project.
    pub project_id: Option<ProjectId>,
    /// The how-many-eth run of its issue.
    pub run: u32,
    /// Its agent.
    pub agent_id: AgentId,
    /// The agent's name.
    pub agent_name: String,
    /// Where it runs.
    pub runtime_id: RuntimeId,
    /// The runtime's daemon.
    pub daemon_id: String,
    /// The runtime's provider.
    pub provider: String,
    /// deferred, queued, dispatched, waiting_local_directory, running, completed, failed, cancelled.
    pub status: String,
    /// 0 to 4.
    pub priority: u8,
    /// The how-many-eth claim of it.
    pub generation: u32,
    /// Which try of its work it is, from 1.
    pub attempt: u32,
    /// How many tries there may be.
    pub max_attempts: u32,
    /// What a parked one waits for.
    pub waiting: Option<Waiting>,
    /// The directory that it waits for or has.
    pub directory_id: Option<DirectoryId>,
    /// The provider's session.
    pub session_id: Option<String>,
    /// The delivered branch.
    pub branch_name: Option<String>,
    /// Where it worked, without what would tell an account's name.
    pub relative_work_dir: Option<String>,
    /// What came of a completed one.
    pub result: Option<TaskResult>,
    /// What exactly went wrong with a failed one.
    pub error: Option<String>,
    /// Why it failed or was cancelled: a stable code.
    pub failure_reason: Option<String>,
    /// The same for people.
    pub failure: Option<Failure>,
    /// What it used, by claim and model.
    pub usage: Vec<Usage>,
    /// The task that it tries again.
    pub retry_of_task_id: Option<TaskId>,
    /// The task after which another run was asked for.
    pub rerun_of_task_id: Option<TaskId>,
    /// The run queued in its stead.
    pub retried_by: Option<TaskId>,
    /// When it was queued, the last time.
    pub queued_at: Option<Timestamp>,
    /// When a daemon got it.
    pub dispatched_at: Option<Timestamp>,
    /// When it was parked.
    pub parked_at: Option<Timestamp>,
    /// When its agent started.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub completed_at: Option<Timestamp>,
    /// When its machine was told to stop what is left of it, while that hasn't answered.
    #[serde(default)]
    pub stopping_since: Option<Timestamp>,
    /// When it came to be.
    pub created_at: Option<Timestamp>,
    /// Why the transcript of its last claim is gone; told where a single task is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcript_gone: Option<GoneTranscript>,
    /// For public clients.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What a parked task waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The directory.
    pub directory_id: DirectoryId,
    /// What people call it.
    pub label: String,
    /// Who has it.
    pub holder_task_id: Option<TaskId>,
    /// The holder's name.
    pub holder_name: Option<String>,
    /// The place in line, from 1; 0 for who isn't in it.
    pub place: usize,
    /// held, foreign_lock, promotion_unanswered.
    pub because: String,
    /// Who has locked it while it is this task's, in words.
    #[serde(default)]
    pub locked_by: Option<String>,
    /// The task whose run that is, when it is one of this workspace.
    #[serde(default)]
    pub locked_by_task_id: Option<TaskId>,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// Something that an agent said or did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The task.
    pub task_id: TaskId,
    /// When it was stored.
    pub created_at: Option<Timestamp>,
    /// What the machine told, with its place in the transcript.
    #[serde(flatten)]
    pub said: super::daemon::Message,
}

/// What came of a completed task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskResult {
    /// The agent's last word.
    pub output: String,
    /// The delivered branch.
    pub branch_name: Option<String>,
}

/// A failure reason in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The stable code.
    pub code: String,
    /// What it means.
    pub sentence: String,
    /// What to do now.
    pub next_step: String,
    /// Whether another try may go better.
    pub retryable: bool,
}

/// Why a task stands where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The task.
    pub task_id: TaskId,
    /// Its name.
    pub name: String,
    /// Its status.
    pub status: String,
    /// The short answer.
    pub sentence: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// The last lines of what exactly went wrong, where something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The chain of facts behind it.
    pub causes: Vec<Cause>,
    /// What will end it, where something will.
    pub ends_when: Option<String>,
    /// By when at the latest, where a time limit ends it.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// What a person can do, in words.
    #[serde(default)]
    pub advice: Vec<String>,
    /// What a person can do, as commands.
    pub commands: Vec<String>,
}

/// A task that waits longer than is usual for its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stranded {
    /// Since when.
    pub since: Timestamp,
    /// How long that is, in seconds.
    pub waited_s: u64,
    /// What is usual for tasks of its status, in seconds.
    pub usual_s: u64,
    /// Why it stands there.
    pub explanation: Explanation,
}

/// A task that would have gone differently with another value of a timer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhatIf {
    /// Its id.
    pub task: TaskId,
    /// Its name, `GAME-12#3`.
    pub name: String,
    /// The timer.
    pub parameter: String,
    /// Since when it waited.
    pub since: Timestamp,
    /// When the wait would have ended.
    pub due: Timestamp,
    /// What would have become of it.
    pub instead: String,
    /// Whether that is certain; else it would have waited until `due`, and nobody knows for what.
    pub known: bool,
    /// What is recorded; none while it still waits.
    pub recorded: Option<WhatIfRecorded>,
}

/// The event that ended a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhatIfRecorded {
    /// Its position.
    pub position: i64,
    /// Its time.
    pub at: Timestamp,
    /// Its type.
    pub event_type: String,
    /// The failure reason, or why a claim went back.
    pub reason: Option<String>,
}

/// A fact in an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The fact.
    pub sentence: String,
    /// Since when it is one.
    pub since: Option<Timestamp>,
    /// What it speaks of.
    pub link: Option<super::feed::Link>,
}

/// A directory with who has it and who waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Directory {
    /// Its id.
    pub id: DirectoryId,
    /// What people call it.
    pub label: String,
    /// Its real path: for the machine's owner and admins.
    pub path: Option<String>,
    /// Its machine.
    pub machine_id: MachineId,
    /// The machine's daemon.
    pub daemon_id: Option<String>,
    /// Who has it.
    pub holder: Option<Holder>,
    /// Who waits, first come first.
    pub queue: Vec<InLine>,
    /// The directory whose holder and queue these are, while this is another path of it.
    pub same_as: Option<DirectoryId>,
    /// Runs that were given up there and may be at work until their machine has stopped them.
    #[serde(default)]
    pub stopping: Vec<Stopping>,
}

/// A run that is over, whose machine hasn't got the order to stop it yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    /// The task.
    pub task_id: TaskId,
    /// Its name.
    pub name: String,
    /// Since when its machine is told.
    pub since: Option<Timestamp>,
}

/// Who has a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// The task.
    pub task_id: TaskId,
    /// Its name.
    pub name: Option<String>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Whether it has the operating system's lock.
    pub locked: bool,
    /// Which foreign lock keeps it out.
    pub blocked: Option<Blocked>,
}

/// A foreign lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// Who has it, in words.
    pub by: String,
    /// The process, where it is known.
    pub pid: Option<u32>,
    /// Its program.
    pub program: Option<String>,
    /// The task that it works for, when it is one of this workspace.
    pub task_id: Option<TaskId>,
}

/// Somebody in a directory's queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InLine {
    /// The task.
    pub task_id: TaskId,
    /// Its name.
    pub name: Option<String>,
    /// The place, from 1.
    pub place: u32,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// A project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// Its title.
    pub title: String,
    /// What it is about.
    pub description: Option<String>,
    /// planned, in_progress, paused, completed, cancelled.
    pub status: String,
    /// urgent, high, medium, low, none.
    pub priority: String,
    /// How many resources are attached.
    pub resource_count: usize,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// When it changed last.
    pub updated_at: Option<Timestamp>,
    /// Its resources: in the answer to a creation that named some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<Resource>>,
    /// For public clients.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A resource of a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// Its id.
    pub id: ResourceId,
    /// Its project.
    pub project_id: ProjectId,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// local_directory, github_repo, …
    pub resource_type: String,
    /// What it names; each type has its own keys.
    pub resource_ref: Map<String, Value>,
    /// What people call it.
    pub label: Option<String>,
    /// Its place among the project's.
    pub position: u32,
    /// Whether a machine has looked at it.
    pub verified: bool,
    /// When it was attached.
    pub created_at: Option<Timestamp>,
    /// By whom.
    pub created_by: Option<String>,
    /// What people should know of it beside other resources: in the answer to a write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

/// An issue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Issue {
    /// Its id.
    pub id: IssueId,
    /// Its workspace.
    pub workspace_id: WorkspaceId,
    /// Its number in the workspace.
    pub number: u32,
    /// `GAME-12`.
    pub identifier: String,
    /// Its title.
    pub title: String,
    /// What is to be done, in full.
    pub description: Option<String>,
    /// backlog, todo, in_progress, in_review, done, blocked, cancelled.
    pub status: String,
    /// urgent, high, medium, low, none.
    pub priority: String,
    /// agent, member.
    pub assignee_type: Option<String>,
    /// Who.
    pub assignee_id: Option<uuid::Uuid>,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// When it changed last.
    pub updated_at: Option<Timestamp>,
    /// The run that was queued: in the answer to a write.
    pub task_id: Option<TaskId>,
    /// For public clients.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A comment on an issue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comment {
    /// Its id.
    pub id: CommentId,
    /// Its issue.
    pub issue_id: IssueId,
    /// agent, member.
    pub author_type: String,
    /// Who.
    pub author_id: uuid::Uuid,
    /// What it says.
    pub content: String,
    /// The task in which it was written.
    pub source_task_id: Option<TaskId>,
    /// When it was written.
    pub created_at: Option<Timestamp>,
    /// For public clients.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The members of a literal object: what [`Task::more`] and its like are made from.
#[must_use]
pub fn more(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
