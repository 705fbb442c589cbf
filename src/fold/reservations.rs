//! Rules over more than the streams a command writes, as keys that have one holder each.
//!
//! | key | class | taken by | freed by |
//! |---|---|---|---|
//! | `name/agent/<workspace>/<lower-case name>` | name | `agent.created` | `agent.archived` |
//! | `number/<workspace>/<n>` | number | `issue.created` | never |
//! | `run/<issue>/<n>` | run | `task.queued` | never |
//! | `pending/<issue>/<agent>` | pending | `task.queued` | start, park, end of the task |
//! | `conversation/<issue>/<agent>` | conversation | `task.claimed` | end of the claim or the task |
//! | `agent/<agent>/slot/<k>`, `daemon/<stream>/slot/<k>` | slot | claim, promotion | park, end of the claim or the task |
//!
//! Invariants: a key has at most one holder; changes come only from here; rebuilt = live.

use uuid::Uuid;

use crate::domain::Envelope;
use crate::domain::Event;

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

/// The changes that follow from an event, in order.
#[must_use]
pub fn changes(envelope: &Envelope) -> Vec<Change> {
    match &envelope.event {
        Event::Operation(_)
        | Event::Workspace(_)
        | Event::Project(_)
        | Event::Issue(_)
        | Event::Agent(_)
        | Event::Daemon(_)
        | Event::Task(_)
        | Event::Directory(_) => Vec::new(),
    }
}
