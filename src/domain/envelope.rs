//! What surrounds every event: where it stands, who caused it, both clocks.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{agent, daemon, directory, issue, operation, project, task, webhook, workspace};
use crate::kernel::ids::{CommandId, ContentId, CorrelationId, EventId, WorkspaceId};

/// A family of streams: the things that are decided together with their like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// The installation itself.
    Operation,
    /// A workspace: members, tokens, repositories.
    Workspace,
    /// A project with its resources.
    Project,
    /// An issue with its comments.
    Issue,
    /// An agent.
    Agent,
    /// A daemon with its runtimes.
    Daemon,
    /// One run of one agent.
    Task,
    /// The queue of one real directory on one machine.
    Directory,
    /// An address of somebody else's to which events are delivered.
    Webhook,
    /// A family of a newer build.
    Unknown,
}

impl Family {
    /// Every family that this build knows.
    pub const ALL: [Self; 9] = [
        Self::Operation,
        Self::Workspace,
        Self::Project,
        Self::Issue,
        Self::Agent,
        Self::Daemon,
        Self::Task,
        Self::Directory,
        Self::Webhook,
    ];

    /// The family's name, as it stands before the dot of an event type.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operation => "operation",
            Self::Workspace => "workspace",
            Self::Project => "project",
            Self::Issue => "issue",
            Self::Agent => "agent",
            Self::Daemon => "daemon",
            Self::Task => "task",
            Self::Directory => "directory",
            Self::Webhook => "webhook",
            Self::Unknown => "unknown",
        }
    }

    /// The family of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }
}

/// Names one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StreamKey {
    /// The stream's family.
    pub family: Family,
    /// The stream's id, unique over all families.
    pub id: Uuid,
}

impl StreamKey {
    /// Names the stream of `family` with that id.
    pub fn new(family: Family, id: impl Into<Uuid>) -> Self {
        Self { family, id: id.into() }
    }
}

/// What kind of somebody acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A person; `id` is a user id.
    Member,
    /// An agent in a task of its own; `id` is an agent id.
    Agent,
    /// A machine's daemon; `id` is a daemon id.
    Daemon,
    /// The installation itself: policies, timers, the operator's commands; `id` names the part.
    System,
}

/// The way by which a command came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The command line client.
    Cli,
    /// The web UI.
    Web,
    /// The HTTP API, by any other client.
    Api,
    /// The daemon protocol.
    Daemon,
    /// A loop of the server.
    Policy,
    /// The process that starts the installation.
    Up,
}

/// Who did it, and by which way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Actor {
    /// The kind of actor.
    #[serde(rename = "type")]
    pub kind: ActorKind,
    /// The actor's id; see [`ActorKind`] for which.
    pub id: String,
    /// The way the command came in.
    pub via: Via,
}

/// Refers to free text or personal data that stands in `contents`, never in the event.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ContentRef {
    /// Where the text stands.
    pub id: ContentId,
    /// Its length in bytes.
    pub bytes: u64,
    /// Lower-case hexadecimal SHA-256 of salt followed by the bytes.
    pub sha256: String,
}

/// A piece of content on its way into the same append as the event that refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewContent {
    /// What the event holds.
    pub reference: ContentRef,
    /// Sixteen or more random bytes, so that equal texts don't show as equal.
    pub salt: [u8; 32],
    /// The text itself.
    pub text: String,
}

impl NewContent {
    /// Makes the content and its reference from a text, a fresh id and fresh salt.
    #[must_use]
    pub fn new(id: ContentId, salt: [u8; 32], text: String) -> Self {
        let mut salted = salt.to_vec();
        salted.extend_from_slice(text.as_bytes());
        let reference = ContentRef {
            id,
            bytes: text.len() as u64,
            sha256: crate::kernel::digest::hex(&crate::kernel::digest::sha256_plain(&salted)),
        };
        Self { reference, salt, text }
    }
}

/// An event of any family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// See [`operation::OperationEvent`].
    Operation(operation::OperationEvent),
    /// See [`workspace::WorkspaceEvent`].
    Workspace(workspace::WorkspaceEvent),
    /// See [`project::ProjectEvent`].
    Project(project::ProjectEvent),
    /// See [`issue::IssueEvent`].
    Issue(issue::IssueEvent),
    /// See [`agent::AgentEvent`].
    Agent(agent::AgentEvent),
    /// See [`daemon::DaemonEvent`].
    Daemon(daemon::DaemonEvent),
    /// See [`task::TaskEvent`].
    Task(task::TaskEvent),
    /// See [`directory::DirectoryEvent`].
    Directory(directory::DirectoryEvent),
    /// See [`webhook::WebhookEvent`].
    Webhook(webhook::WebhookEvent),
    /// An event of a newer build: kept as it is, ignored by folds, refused by the append.
    Unknown(UnknownEvent),
}

/// What this build can say of an event that a newer one wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownEvent {
    /// The family of its stream; [`Family::Unknown`] where that is new too.
    pub family: Family,
    /// Its type, as it stands in the log.
    pub event_type: String,
    /// Its schema's version.
    pub schema_version: i16,
}

impl Event {
    /// The family whose stream holds this event.
    #[must_use]
    pub const fn family(&self) -> Family {
        match self {
            Self::Unknown(event) => event.family,
            Self::Operation(_) => Family::Operation,
            Self::Workspace(_) => Family::Workspace,
            Self::Project(_) => Family::Project,
            Self::Issue(_) => Family::Issue,
            Self::Agent(_) => Family::Agent,
            Self::Daemon(_) => Family::Daemon,
            Self::Task(_) => Family::Task,
            Self::Directory(_) => Family::Directory,
            Self::Webhook(_) => Family::Webhook,
        }
    }
}

macro_rules! from_family {
    ($($family:ident($event:ty)),* $(,)?) => {$(
        impl From<$event> for Event {
            fn from(event: $event) -> Self {
                Self::$family(event)
            }
        }
    )*};
}

from_family! {
    Operation(operation::OperationEvent),
    Workspace(workspace::WorkspaceEvent),
    Project(project::ProjectEvent),
    Issue(issue::IssueEvent),
    Agent(agent::AgentEvent),
    Daemon(daemon::DaemonEvent),
    Task(task::TaskEvent),
    Directory(directory::DirectoryEvent),
    Webhook(webhook::WebhookEvent),
}

/// An event with everything that is recorded about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The log's position, dense from 1. `None` while the event is on its way into the log.
    pub position: Option<i64>,
    /// Whose event it is.
    pub workspace: WorkspaceId,
    /// The stream it belongs to.
    pub stream: StreamKey,
    /// Its number in that stream, dense from 1.
    pub version: i32,
    /// The event's own id.
    pub event_id: EventId,
    /// The command that wrote it.
    pub command_id: CommandId,
    /// The user's intent it follows from.
    pub correlation: CorrelationId,
    /// The position of the event that caused the command, where one did.
    pub causation: Option<i64>,
    /// Who did it.
    pub actor: Actor,
    /// The actor's clock.
    pub occurred_at: Timestamp,
    /// The database's clock; one value for all events of a batch. `None` while on its way.
    pub recorded_at: Option<Timestamp>,
    /// What happened.
    pub event: Event,
}
