//! The identifiers of the product, one type each, so that a task's id can't be passed for an issue's.
//!
//! Invariants: an id is a UUID in lower-case hyphenated form wherever it is text; issue ids are
//! version 4 (their heads name folders), all minted others version 7 (their order is their age);
//! derived ids (machine, directory) are digests shaped as UUIDs and stable for ever.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::digest::sha256;

/// Says that a text is no id, and which kind was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {kind} id: expected a UUID")]
pub struct NotAnId {
    /// The kind of id that was asked for, as people say it.
    pub kind: &'static str,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $kind:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;
            fn from_str(text: &str) -> Result<Self, NotAnId> {
                Uuid::parse_str(text).map(Self).map_err(|_| NotAnId { kind: $kind })
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Uuid {
                id.0
            }
        }
    )*};
}

ids! {
    /// A workspace: the border of visibility.
    WorkspaceId = "workspace";
    /// A person of the installation.
    UserId = "user";
    /// An access token's record (never the token itself).
    TokenId = "token";
    /// A project: what issues and resources belong to.
    ProjectId = "project";
    /// A resource attached to a project.
    ResourceId = "resource";
    /// An issue: a unit of work.
    IssueId = "issue";
    /// A comment on an issue.
    CommentId = "comment";
    /// An agent: an identity bound to a provider.
    AgentId = "agent";
    /// A runtime: one daemon's installation of one provider.
    RuntimeId = "runtime";
    /// A task: one run of one agent.
    TaskId = "task";
    /// A machine, see [`MachineId::from_machine_file`].
    MachineId = "machine";
    /// A directory: the queue of one real path on one machine, see [`DirectoryId::of`].
    DirectoryId = "directory";
    /// An event.
    EventId = "event";
    /// A command: what makes a repeated request the same request.
    CommandId = "command";
    /// One user's intent; it follows a task to the machine and back.
    CorrelationId = "correlation";
    /// A piece of free text or personal data kept apart from the events.
    ContentId = "content";
    /// One order from the server to a daemon.
    OrderId = "order";
    /// One start of one daemon process.
    Incarnation = "incarnation";
    /// A webhook.
    WebhookId = "webhook";
    /// A secret's place in the table of secrets (never the secret itself).
    SecretId = "secret";
    /// A stream of events that are decided together.
    StreamId = "stream";
}

impl TaskId {
    /// The last twelve hexadecimal digits: the name of its env root.
    ///
    /// The head of a version 7 id advances once in 65 seconds, so a leading prefix collides.
    #[must_use]
    pub fn key(self) -> String {
        let hex = self.0.simple().to_string();
        hex[hex.len() - 12..].to_owned()
    }

    /// The last eight digits, for tables and log lines only.
    #[must_use]
    pub fn short(self) -> String {
        let hex = self.0.simple().to_string();
        hex[hex.len() - 8..].to_owned()
    }
}

impl MachineId {
    /// Derives the machine's id from the text of its machine-id file (surrounding blanks don't count).
    #[must_use]
    pub fn from_machine_file(text: &str) -> Self {
        Self(digest_uuid(&[b"multica-machine", text.trim().as_bytes()]))
    }
}

impl DirectoryId {
    /// Derives a directory's stream id from what it is: a real path (bytes) on a machine, seen from a workspace.
    #[must_use]
    pub fn of(workspace: WorkspaceId, machine: MachineId, real_path: &[u8]) -> Self {
        Self(digest_uuid(&[b"multica-directory", workspace.0.as_bytes(), machine.0.as_bytes(), real_path]))
    }
}

impl StreamId {
    /// Derives the stream of a daemon: its id is any text, unique within a workspace.
    #[must_use]
    pub fn of_daemon(workspace: WorkspaceId, daemon: &str) -> Self {
        Self(digest_uuid(&[b"multica-daemon", workspace.0.as_bytes(), daemon.as_bytes()]))
    }
}

/// The first 128 bits of a SHA-256 over length-prefixed parts, shaped as a version 8 UUID.
#[must_use]
pub fn digest_uuid(parts: &[&[u8]]) -> Uuid {
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&sha256(parts)[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}
