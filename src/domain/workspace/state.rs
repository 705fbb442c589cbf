//! What a workspace is after its events.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::event::{Repo, Role, TokenHolder};
use crate::domain::ContentRef;
use crate::kernel::ids::{TokenId, UserId, WorkspaceId};

/// A member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The person's name.
    pub name: ContentRef,
    /// The person's address, where known.
    pub email: Option<ContentRef>,
    /// What they may do.
    pub role: Role,
}

/// A token's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is for.
    pub holder: TokenHolder,
    /// What its maker calls it.
    pub name: String,
    /// Lower-case hexadecimal SHA-256 of the token.
    pub sha256: String,
    /// When it ends, if ever.
    pub expires_at: Option<Timestamp>,
    /// Whether it was revoked.
    pub revoked: bool,
}

/// A workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its id.
    pub id: WorkspaceId,
    /// Lower-kebab name.
    pub slug: String,
    /// Display name.
    pub name: ContentRef,
    /// Prefix of issue keys.
    pub issue_prefix: String,
    /// Repositories that every project may use.
    pub repos: Vec<Repo>,
    /// Its members.
    pub members: BTreeMap<UserId, Member>,
    /// Its tokens, revoked ones too.
    pub tokens: BTreeMap<TokenId, Token>,
}

impl Workspace {
    /// What a person may do here; none for a stranger.
    #[must_use]
    pub fn role(&self, user: UserId) -> Option<Role> {
        self.members.get(&user).map(|member| member.role)
    }
}
