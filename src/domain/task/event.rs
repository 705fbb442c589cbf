//! What can happen to a task.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::{ContentRef, Family};
use crate::kernel::ids::{
    AgentId, CommentId, DirectoryId, Incarnation, IssueId, ProjectId, ResourceId, RuntimeId, TaskId,
};

/// Why a task came to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trigger {
    /// The issue was assigned to the agent.
    Assignment,
    /// Somebody commented.
    Comment {
        /// The comment.
        comment: CommentId,
    },
    /// A person asked for another run.
    Rerun {
        /// The run before.
        of: TaskId,
    },
    /// The run before failed in a way that is worth another try.
    Retry {
        /// The run before.
        of: TaskId,
        /// Its failure reason.
        reason: String,
    },
}

/// What happened to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum TaskEvent {
    /// It waits to be claimed.
    Queued(Queued),
    /// A daemon was given it.
    Claimed(Claimed),
    /// The daemon has confirmed that it knows; from here on it may act.
    ClaimReceived(Generation),
    /// The claim never arrived: it is back in the queue.
    ClaimReleased(ClaimReleased),
    /// The directory was free: it is its own from here on.
    DirectoryEntered(DirectoryEntered),
    /// It waits for a directory; it has no slot and no process.
    Parked(Parked),
    /// The directory is its own: it goes on where it was claimed.
    Promoted(Promoted),
    /// Getting ready failed; a `failed` follows in the same append.
    PrepareFailed(PrepareFailed),
    /// The place to work is ready.
    Prepared(Prepared),
    /// It runs.
    Started(Generation),
    /// The agent's process exists.
    ProcessStarted(ProcessStarted),
    /// The provider's session is known.
    SessionPinned(SessionPinned),
    /// What the run used.
    UsageRecorded(UsageRecorded),
    /// Somebody wants it to end.
    CancelRequested(CancelRequested),
    /// It is cancelled; what still runs is being stopped.
    Cancelled(Cancelled),
    /// The daemon has the cancel order.
    CancelReceived(Generation),
    /// The agent's process tree is empty.
    ProcessExited(ProcessExited),
    /// The place to work is in order again.
    Finalized(Finalized),
    /// Context files could not be removed from the directory.
    SidecarsLeft(Sidecars),
    /// Context files that an earlier run had left were removed.
    SidecarsRemoved(Sidecars),
    /// The daemon is done with a task that was over before it said so.
    CancelAcknowledged(CancelAcknowledged),
    /// It ended well.
    Completed(Completed),
    /// It ended badly.
    Failed(Failed),
    /// Another run was queued in its stead.
    Retried(Retried),
    /// A report came for a task that was over; it changes nothing and is kept.
    LateReportRecorded(LateReportRecorded),
}

/// See [`TaskEvent::Queued`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Queued {
    /// Its issue.
    pub issue: IssueId,
    /// The issue's key, `GAME-12`.
    pub issue_key: String,
    /// Which run of the issue it is, from 1, never reused.
    pub run: u32,
    /// Its agent.
    pub agent: AgentId,
    /// The agent's name then.
    pub agent_name: String,
    /// The runtime it runs on.
    pub runtime: RuntimeId,
    /// The runtime's daemon.
    pub daemon: String,
    /// The runtime's provider.
    pub provider: String,
    /// The issue's project then.
    pub project: Option<ProjectId>,
    /// urgent 4, high 3, medium 2, low 1, none 0.
    pub priority: u8,
    /// Why.
    pub trigger: Trigger,
    /// Which try this is, from 1.
    pub attempt: u32,
    /// How many tries there may be.
    pub max_attempts: u32,
}

/// A stream and how far it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BuiltFrom {
    /// The stream's family.
    #[cfg_attr(test, schemars(with = "String"))]
    pub family: Family,
    /// The stream's id.
    pub stream: Uuid,
    /// Its version then.
    pub version: i32,
}

/// See [`TaskEvent::Claimed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Claimed {
    /// The how-many-eth claim of this task, from 1.
    pub generation: u32,
    /// Its issue: with the agent, the conversation that is taken.
    pub issue: IssueId,
    /// Its agent.
    pub agent: AgentId,
    /// The daemon that has it.
    pub daemon: String,
    /// The runtime it runs on.
    pub runtime: RuntimeId,
    /// The daemon's process.
    pub incarnation: Incarnation,
    /// Which of the agent's slots it takes, from 0.
    pub agent_slot: u32,
    /// Which of the daemon's slots it takes, from 0.
    pub daemon_slot: u32,
    /// Every stream the run was built from.
    pub built_from: Vec<BuiltFrom>,
    /// The project's resources then.
    pub resources: Vec<ResourceId>,
    /// The comments it was shown.
    pub comments: Vec<CommentId>,
}

/// See [`TaskEvent::ClaimReceived`], [`TaskEvent::Started`], [`TaskEvent::CancelReceived`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Generation {
    /// The claim it belongs to.
    pub generation: u32,
}

/// See [`TaskEvent::ClaimReleased`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClaimReleased {
    /// The claim that ended.
    pub generation: u32,
    /// `no_receipt`, `undelivered`, `returned` (by the daemon), `superseded`.
    pub reason: String,
}

/// See [`TaskEvent::DirectoryEntered`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DirectoryEntered {
    /// The claim.
    pub generation: u32,
    /// The directory.
    pub directory: DirectoryId,
    /// What people call it.
    pub label: String,
}

/// Why a task is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ParkedBecause {
    /// Another task holds the directory, or waits before it.
    Held,
    /// The directory is granted, but a process we don't know has locked it.
    ForeignLock,
    /// It had been promoted, but its daemon didn't answer.
    PromotionUnanswered,
}

/// See [`TaskEvent::Parked`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Parked {
    /// The claim that is kept.
    pub generation: u32,
    /// The directory it waits for.
    pub directory: DirectoryId,
    /// What people call that directory.
    pub label: String,
    /// Who holds it, if a task does.
    pub holder: Option<TaskId>,
    /// Its place in line, from 1; 0 when it is the holder and waits for a foreign lock.
    pub place: u32,
    /// Why.
    pub because: ParkedBecause,
}

/// See [`TaskEvent::Promoted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Promoted {
    /// The claim that goes on.
    pub generation: u32,
    /// The directory that is its own now.
    pub directory: DirectoryId,
    /// Its agent.
    pub agent: AgentId,
    /// Its daemon.
    pub daemon: String,
    /// Which of the agent's slots it takes, from 0.
    pub agent_slot: u32,
    /// Which of the daemon's slots it takes, from 0.
    pub daemon_slot: u32,
}

/// See [`TaskEvent::PrepareFailed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PrepareFailed {
    /// The claim.
    pub generation: u32,
    /// The failure reason.
    pub reason: String,
}

/// The state of a Git work tree, bounded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GitState {
    /// The commit HEAD points to; none on an unborn branch.
    pub head: Option<String>,
    /// The branch checked out; none when HEAD is detached.
    pub branch: Option<String>,
    /// Paths that differ from HEAD or are untracked, counted up to a bound.
    pub changed_paths: u32,
    /// Whether the count stopped at its bound.
    pub more: bool,
}

/// Where a run works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkPlace {
    /// In the attached directory itself.
    InPlace,
    /// In an empty directory of its own.
    Managed,
}

/// See [`TaskEvent::Prepared`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prepared {
    /// The claim.
    pub generation: u32,
    /// Where it works.
    pub place: WorkPlace,
    /// The work directory.
    #[cfg_attr(test, schemars(extend("x-private" = true)))]
    pub work_dir: String,
    /// The env root.
    #[cfg_attr(test, schemars(extend("x-private" = true)))]
    pub env_root: String,
    /// Context files written into the work directory.
    pub sidecars: u32,
    /// Git's state before the run, where there is a repository.
    pub git: Option<GitState>,
}

/// See [`TaskEvent::ProcessStarted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessStarted {
    /// The claim.
    pub generation: u32,
    /// The agent's process id.
    pub pid: u32,
    /// The program that was started, without its path.
    pub program: String,
}

/// See [`TaskEvent::SessionPinned`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionPinned {
    /// The claim.
    pub generation: u32,
    /// The provider's own name for the session.
    pub session_id: String,
}

/// What was used of one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Usage {
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Tokens read, cached ones aside.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens written to it.
    pub cache_write_tokens: u64,
    /// Cost in 1e-10 US dollars, where the provider says it.
    pub cost_usd_ticks: Option<u64>,
}

/// See [`TaskEvent::UsageRecorded`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UsageRecorded {
    /// The claim.
    pub generation: u32,
    /// One entry for each model; a later event of the same claim replaces an earlier one.
    pub usage: Vec<Usage>,
}

/// See [`TaskEvent::CancelRequested`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CancelRequested {
    /// The claim that has to stop; none when no machine is at work for the task.
    pub generation: Option<u32>,
}

/// See [`TaskEvent::Cancelled`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cancelled {
    /// The failure reason, when the server cancelled it; none when a person did.
    pub reason: Option<String>,
}

/// See [`TaskEvent::ProcessExited`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessExited {
    /// The claim.
    pub generation: u32,
    /// The exit code; none when a signal ended it or it isn't known.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Further processes of the tree that had to be killed.
    pub killed: u32,
}

/// See [`TaskEvent::Finalized`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finalized {
    /// The claim.
    pub generation: u32,
    /// Git's state after the run, where there is a repository.
    pub git: Option<GitState>,
}

/// See [`TaskEvent::SidecarsLeft`] and [`TaskEvent::SidecarsRemoved`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sidecars {
    /// The claim whose files they are.
    pub generation: u32,
    /// The files, relative to the work directory.
    pub paths: Vec<String>,
}

/// See [`TaskEvent::CancelAcknowledged`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CancelAcknowledged {
    /// The claim.
    pub generation: u32,
    /// What went wrong while stopping, if anything did.
    pub reason: Option<String>,
}

/// What the machine knows at the end of a run, whatever the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ending {
    /// The provider's session.
    pub session_id: Option<String>,
    /// The work directory.
    #[cfg_attr(test, schemars(extend("x-private" = true)))]
    pub work_dir: Option<String>,
    /// The branch that was delivered.
    pub branch: Option<String>,
    /// Transcript messages the server had stored by then.
    pub transcript_messages: u64,
    /// Lower-case hexadecimal SHA-256 over them in order; none when there are none.
    pub transcript_sha256: Option<String>,
}

/// See [`TaskEvent::Completed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Completed {
    /// The claim.
    pub generation: u32,
    /// The agent's last word.
    pub output: Option<ContentRef>,
    /// What the machine knows.
    pub ending: Ending,
}

/// See [`TaskEvent::Failed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Failed {
    /// The claim; none when nothing was claimed.
    pub generation: Option<u32>,
    /// A code of [`crate::domain::task::failure::CATALOGUE`], or another one from a newer daemon.
    pub reason: String,
    /// What exactly went wrong.
    pub detail: Option<ContentRef>,
    /// What the machine knows.
    pub ending: Ending,
}

/// See [`TaskEvent::Retried`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Retried {
    /// The run that stands in its stead.
    pub by: TaskId,
}

/// See [`TaskEvent::LateReportRecorded`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LateReportRecorded {
    /// The claim it spoke of.
    pub generation: u32,
    /// complete, fail, start, …: the report's kind.
    pub kind: String,
    /// Its failure reason, if it had one.
    pub reason: Option<String>,
    /// Its text, if it had one.
    pub detail: Option<ContentRef>,
}
