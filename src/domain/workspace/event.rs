//! What can happen to a workspace.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::ContentRef;
use crate::kernel::ids::{TokenId, UserId};

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads and works.
    Member,
    /// Also manages members, tokens, agents.
    Admin,
    /// Also deletes.
    Owner,
}

/// What a token is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TokenHolder {
    /// A member's token (`mul_`).
    Member {
        /// Whose.
        user: UserId,
    },
    /// A daemon's token (`mdt_`): this workspace and this daemon only.
    Daemon {
        /// The daemon's id.
        daemon: String,
        /// The member who made it.
        user: UserId,
    },
}

/// What happened to a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum WorkspaceEvent {
    /// It was created; the first member follows in the same append.
    Created(Created),
    /// Its repositories were replaced as a whole.
    ReposReplaced(ReposReplaced),
    /// Somebody became a member.
    MemberAdded(MemberAdded),
    /// A token was issued. The token itself is nowhere.
    TokenIssued(TokenIssued),
    /// A token stopped working.
    TokenRevoked(TokenRevoked),
}

/// See [`WorkspaceEvent::Created`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Created {
    /// Lower-kebab name, unique in the installation.
    pub slug: String,
    /// Display name.
    pub name: ContentRef,
    /// Upper-case prefix of issue keys.
    pub issue_prefix: String,
}

/// A repository that every project of the workspace may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Repo {
    /// Where it is cloned from; without credentials.
    pub url: String,
}

/// See [`WorkspaceEvent::ReposReplaced`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReposReplaced {
    /// The new list.
    pub repos: Vec<Repo>,
}

/// See [`WorkspaceEvent::MemberAdded`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemberAdded {
    /// Who.
    pub user: UserId,
    /// The person's name.
    pub name: ContentRef,
    /// The person's address, where known.
    pub email: Option<ContentRef>,
    /// What they may do.
    pub role: Role,
}

/// See [`WorkspaceEvent::TokenIssued`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TokenIssued {
    /// The token's record.
    pub token: TokenId,
    /// What it is for.
    pub holder: TokenHolder,
    /// What its maker calls it.
    pub name: String,
    /// Lower-case hexadecimal SHA-256 of the token.
    pub sha256: String,
    /// When it ends, if ever.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub expires_at: Option<Timestamp>,
}

/// See [`WorkspaceEvent::TokenRevoked`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TokenRevoked {
    /// The token's record.
    pub token: TokenId,
    /// The digest under which it was issued.
    pub sha256: String,
    /// Why, as a code: `by_member`, `replaced`.
    pub reason: String,
}
