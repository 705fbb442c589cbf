//! Read model `access`: who may come in, and what a workspace is.
//!
//! Rows: `token/<sha256>`, a [`TokenRow`]; `member/<workspace>/<user>`, a [`MemberRow`];
//! `workspace/<id>`, a [`WorkspaceRow`].

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{At, FoldError, Mode, ReadModel, Rows};
use crate::domain::workspace::{Repo, Role, TokenHolder, WorkspaceEvent};
use crate::domain::{ContentRef, Envelope, Event};
use crate::kernel::ids::{TokenId, UserId, WorkspaceId};

const NAME: &str = "access";

/// See the module.
pub struct Access;

/// A token's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRow {
    /// Its id.
    pub id: TokenId,
    /// What it is for.
    pub holder: TokenHolder,
    /// The member it is for, or whose daemon it is for.
    pub user: UserId,
    /// What its maker calls it.
    pub name: String,
    /// Lower-case hexadecimal SHA-256 of the token.
    pub sha256: String,
    /// When it ends, microseconds since 1970.
    pub expires_at: Option<i64>,
    /// Whether it was revoked.
    pub revoked: bool,
    /// When it was issued.
    pub created_at: At,
}

/// A member of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRow {
    /// The person.
    pub user: UserId,
    /// The person's name.
    pub name: ContentRef,
    /// The person's address.
    pub email: Option<ContentRef>,
    /// What they may do.
    pub role: Role,
    /// Since when.
    pub created_at: At,
}

/// A workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceRow {
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
    /// When it was created.
    pub created_at: At,
    /// When it changed last.
    pub updated_at: At,
}

/// The key of a token's row.
#[must_use]
pub fn token_key(sha256: &str) -> String {
    format!("token/{sha256}")
}

/// The key of a member's row.
#[must_use]
pub fn member_key(workspace: WorkspaceId, user: UserId) -> String {
    format!("member/{workspace}/{user}")
}

/// The key of a workspace's row.
#[must_use]
pub fn workspace_key(workspace: WorkspaceId) -> String {
    format!("workspace/{workspace}")
}

impl ReadModel for Access {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> u32 {
        1
    }

    fn mode(&self) -> Mode {
        Mode::Inline
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        let Event::Workspace(happened) = &event.event else { return Vec::new() };
        let workspace = WorkspaceId(event.stream.id);
        vec![match happened {
            WorkspaceEvent::Created(_) | WorkspaceEvent::ReposReplaced(_) => workspace_key(workspace),
            WorkspaceEvent::MemberAdded(e) => member_key(workspace, e.user),
            WorkspaceEvent::TokenIssued(e) => token_key(&e.sha256),
            WorkspaceEvent::TokenRevoked(e) => token_key(&e.sha256),
        }]
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let Event::Workspace(happened) = &event.event else { return Ok(()) };
        let id = WorkspaceId(event.stream.id);
        let at = At::now(rows);
        match happened {
            WorkspaceEvent::Created(e) => {
                let row = WorkspaceRow {
                    id,
                    slug: e.slug.clone(),
                    name: e.name.clone(),
                    issue_prefix: e.issue_prefix.clone(),
                    repos: Vec::new(),
                    created_at: at.clone(),
                    updated_at: at,
                };
                rows.put(&workspace_key(id), event.workspace, row);
                Ok(())
            }
            WorkspaceEvent::ReposReplaced(e) => {
                let before: WorkspaceRow = rows.need(NAME, &workspace_key(id))?;
                let row = WorkspaceRow { repos: e.repos.clone(), updated_at: at, ..before };
                rows.put(&workspace_key(id), event.workspace, row);
                Ok(())
            }
            WorkspaceEvent::MemberAdded(e) => {
                let row = MemberRow {
                    user: e.user,
                    name: e.name.clone(),
                    email: e.email.clone(),
                    role: e.role,
                    created_at: at,
                };
                rows.put(&member_key(id, e.user), event.workspace, row);
                Ok(())
            }
            WorkspaceEvent::TokenIssued(e) => {
                let (TokenHolder::Member { user } | TokenHolder::Daemon { user, .. }) = &e.holder;
                let row = TokenRow {
                    id: e.token,
                    holder: e.holder.clone(),
                    user: *user,
                    name: e.name.clone(),
                    sha256: e.sha256.clone(),
                    expires_at: e.expires_at.map(Timestamp::as_microsecond),
                    revoked: false,
                    created_at: at,
                };
                rows.put(&token_key(&e.sha256), event.workspace, row);
                Ok(())
            }
            WorkspaceEvent::TokenRevoked(e) => {
                let before: TokenRow = rows.need(NAME, &token_key(&e.sha256))?;
                rows.put(&token_key(&e.sha256), event.workspace, TokenRow { revoked: true, ..before });
                Ok(())
            }
        }
    }
}
