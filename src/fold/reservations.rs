//! Rules over more than the streams a command writes, as keys that have one holder each.
//!
//! | key | class | taken by | freed by |
//! |---|---|---|---|
//! | `name/agent/<workspace>/<lower-case name>` | name | `agent.created`, a new name | `agent.archived`, a new name |
//! | `name/webhook/<workspace>/<lower-case name>` | name | `webhook.created`, a new name | `webhook.removed`, a new name |
//! | `name/workspace/<slug>` | name | `workspace.created` | never |
//! | `number/<workspace>/<n>` | number | `issue.created` | never |
//! | `run/<issue>/<n>` | run | `task.queued` | never |
//! | `pending/<issue>/<agent>` | pending | `task.queued` | start, park, end of the task |
//! | `conversation/<issue>/<agent>` | conversation | `task.claimed` | end of the claim or the task |
//! | `agent/<agent>/slot/<k>`, `daemon/<stream>/slot/<k>` | slot | claim, promotion | park, end of the claim or the task |
//!
//! Invariants: a key has at most one holder; changes come only from here; rebuilt = live.

use uuid::Uuid;

use crate::domain::agent::AgentEvent;
use crate::domain::issue::IssueEvent;
use crate::domain::task::TaskEvent;
use crate::domain::webhook::WebhookEvent;
use crate::domain::workspace::WorkspaceEvent;
use crate::domain::{Envelope, Event};
use crate::kernel::ids::{AgentId, IssueId, StreamId, WorkspaceId};

/// What kind of rule a key stands for; a holder frees all its keys of one class at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// A unique name.
    Name,
    /// An issue's number.
    Number,
    /// A run's number.
    Run,
    /// The one pending task of an issue and agent.
    Pending,
    /// The one claimed task of a conversation.
    Conversation,
    /// A slot of an agent or a daemon.
    Slot,
}

impl Class {
    /// The class as it stands in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Number => "number",
            Self::Run => "run",
            Self::Pending => "pending",
            Self::Conversation => "conversation",
            Self::Slot => "slot",
        }
    }
}

impl Class {
    /// Whether a holder ever frees keys of the class.
    #[must_use]
    pub const fn is_freed(self) -> bool {
        !matches!(self, Self::Number | Self::Run)
    }
}

/// One change to the reservations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The holder takes the key; somebody else having it is a conflict.
    Take {
        /// The key.
        key: String,
        /// Its class.
        class: Class,
        /// Who takes it.
        holder: Uuid,
    },
    /// The holder frees every key of a class that it has; having none is fine.
    Free {
        /// The class.
        class: Class,
        /// Who frees.
        holder: Uuid,
    },
}

/// The key of an agent's name.
#[must_use]
pub fn agent_name(workspace: WorkspaceId, name: &str) -> String {
    format!("name/agent/{workspace}/{}", name.to_lowercase())
}

/// What the keys of a workspace's webhooks' names begin with.
#[must_use]
pub fn webhook_names(workspace: WorkspaceId) -> String {
    format!("name/webhook/{workspace}/")
}

/// The key of a webhook's name.
#[must_use]
pub fn webhook_name(workspace: WorkspaceId, name: &str) -> String {
    format!("{}{}", webhook_names(workspace), name.to_lowercase())
}

/// The key of a workspace's slug.
#[must_use]
pub fn workspace_slug(slug: &str) -> String {
    format!("name/workspace/{slug}")
}

/// The key of an issue's number.
#[must_use]
pub fn issue_number(workspace: WorkspaceId, number: u32) -> String {
    format!("number/{workspace}/{number}")
}

/// The key of a run's number.
#[must_use]
pub fn issue_run(issue: IssueId, run: u32) -> String {
    format!("run/{issue}/{run}")
}

/// The key of the one pending task of an issue and agent.
#[must_use]
pub fn pending(issue: IssueId, agent: AgentId) -> String {
    format!("pending/{issue}/{agent}")
}

/// The key of the one claimed task of a conversation.
#[must_use]
pub fn conversation(issue: IssueId, agent: AgentId) -> String {
    format!("conversation/{issue}/{agent}")
}

/// What an agent's slots begin with; the slot's number follows.
#[must_use]
pub fn agent_slots(agent: AgentId) -> String {
    format!("agent/{agent}/slot/")
}

/// What a daemon's slots begin with; the slot's number follows.
#[must_use]
pub fn daemon_slots(workspace: WorkspaceId, daemon: &str) -> String {
    format!("daemon/{}/slot/", StreamId::of_daemon(workspace, daemon))
}

/// The changes that follow from an event, in order.
#[must_use]
pub fn changes(envelope: &Envelope) -> Vec<Change> {
    let holder = envelope.stream.id;
    let take = |class, key| Change::Take { key, class, holder };
    let free = |class| Change::Free { class, holder };
    match &envelope.event {
        Event::Workspace(WorkspaceEvent::Created(e)) => vec![take(Class::Name, workspace_slug(&e.slug))],
        Event::Agent(AgentEvent::Created(e)) => {
            vec![take(Class::Name, agent_name(envelope.workspace, &e.name))]
        }
        Event::Agent(AgentEvent::Updated(e)) => match &e.name {
            Some(name) => vec![free(Class::Name), take(Class::Name, agent_name(envelope.workspace, name))],
            None => Vec::new(),
        },
        Event::Agent(AgentEvent::Archived(_)) => vec![free(Class::Name)],
        Event::Issue(IssueEvent::Created(e)) => {
            vec![take(Class::Number, issue_number(envelope.workspace, e.number))]
        }
        Event::Task(event) => of_task(event, envelope.workspace, take, free),
        Event::Webhook(WebhookEvent::Created(e)) => {
            vec![take(Class::Name, webhook_name(envelope.workspace, &e.name))]
        }
        Event::Webhook(WebhookEvent::Updated(e)) => match &e.name {
            Some(name) => vec![free(Class::Name), take(Class::Name, webhook_name(envelope.workspace, name))],
            None => Vec::new(),
        },
        Event::Webhook(WebhookEvent::Removed(_)) => vec![free(Class::Name)],
        Event::Operation(_)
        | Event::Workspace(
            WorkspaceEvent::ReposReplaced(_)
            | WorkspaceEvent::MemberAdded(_)
            | WorkspaceEvent::TokenIssued(_)
            | WorkspaceEvent::TokenRevoked(_),
        )
        | Event::Project(_)
        | Event::Issue(
            IssueEvent::Updated(_)
            | IssueEvent::Assigned(_)
            | IssueEvent::StatusChanged(_)
            | IssueEvent::Commented(_),
        )
        | Event::Daemon(_)
        | Event::Directory(_)
        | Event::Webhook(
            WebhookEvent::Enabled(_)
            | WebhookEvent::Disabled(_)
            | WebhookEvent::SecretRotated(_)
            | WebhookEvent::DeadLettered(_)
            | WebhookEvent::RetryAsked(_)
            | WebhookEvent::ReplayAsked(_)
            | WebhookEvent::Tested(_),
        )
        | Event::Unknown(_) => Vec::new(),
    }
}

fn of_task(
    event: &TaskEvent,
    workspace: WorkspaceId,
    take: impl Fn(Class, String) -> Change,
    free: impl Fn(Class) -> Change,
) -> Vec<Change> {
    let slots = |agent, daemon: &str, agent_slot, daemon_slot| {
        [
            take(Class::Slot, format!("{}{agent_slot}", agent_slots(agent))),
            take(Class::Slot, format!("{}{daemon_slot}", daemon_slots(workspace, daemon))),
        ]
    };
    match event {
        TaskEvent::Queued(e) => {
            vec![take(Class::Run, issue_run(e.issue, e.run)), take(Class::Pending, pending(e.issue, e.agent))]
        }
        TaskEvent::Claimed(e) => {
            let mut changes = vec![take(Class::Conversation, conversation(e.issue, e.agent))];
            changes.extend(slots(e.agent, &e.daemon, e.agent_slot, e.daemon_slot));
            changes
        }
        TaskEvent::ClaimReleased(_) => vec![free(Class::Conversation), free(Class::Slot)],
        TaskEvent::Parked(_) => vec![free(Class::Pending), free(Class::Slot)],
        TaskEvent::Promoted(e) => slots(e.agent, &e.daemon, e.agent_slot, e.daemon_slot).into(),
        TaskEvent::Started(_) => vec![free(Class::Pending)],
        TaskEvent::Cancelled(_) | TaskEvent::Completed(_) | TaskEvent::Failed(_) => {
            vec![free(Class::Pending), free(Class::Conversation), free(Class::Slot)]
        }
        TaskEvent::ClaimReceived(_)
        | TaskEvent::DirectoryEntered(_)
        | TaskEvent::PrepareFailed(_)
        | TaskEvent::Prepared(_)
        | TaskEvent::ProcessStarted(_)
        | TaskEvent::SessionPinned(_)
        | TaskEvent::UsageRecorded(_)
        | TaskEvent::CancelRequested(_)
        | TaskEvent::CancelReceived(_)
        | TaskEvent::ProcessExited(_)
        | TaskEvent::Finalized(_)
        | TaskEvent::SidecarsLeft(_)
        | TaskEvent::SidecarsRemoved(_)
        | TaskEvent::CancelAcknowledged(_)
        | TaskEvent::Retried(_)
        | TaskEvent::LateReportRecorded(_) => Vec::new(),
    }
}
