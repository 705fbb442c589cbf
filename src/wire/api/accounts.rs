//! Who may do what: members and their tokens.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::workspace::Role;
use crate::kernel::ids::{TokenId, UserId, WorkspaceId};

/// A token, without what it opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// What it is for.
    pub name: String,
    /// member, daemon.
    pub kind: String,
    /// The daemon whose token it is.
    pub daemon_id: Option<String>,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// When it was used last.
    pub last_used_at: Option<Timestamp>,
    /// When it was issued.
    pub created_at: Option<Timestamp>,
    /// The token itself: in the answer to its creation, and nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// What it begins with: in the same answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_prefix: Option<String>,
}

/// A member of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The person.
    pub id: UserId,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// The same person, as public clients look for it.
    pub user_id: UserId,
    /// owner, admin, member.
    pub role: Role,
    /// When the person became one.
    pub created_at: Option<Timestamp>,
    /// What people call the person.
    pub name: String,
    /// The person's address.
    pub email: Option<String>,
    /// A picture.
    pub avatar_url: Option<String>,
}
