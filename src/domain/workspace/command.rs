//! What can be asked of a workspace.

use jiff::Timestamp;

use super::event::{MemberAdded, Repo, TokenHolder};
use crate::domain::ContentRef;
use crate::kernel::ids::{TokenId, UserId};

/// A command on one workspace's stream. `by` is the member who asks; none when the installation does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceCommand {
    /// Bring it into being, with its owner.
    Create {
        /// Lower-kebab name.
        slug: String,
        /// Display name.
        name: ContentRef,
        /// Prefix of issue keys; the slug's first four letters or digits when none is given.
        issue_prefix: Option<String>,
        /// The first member; becomes the owner whatever role is given.
        owner: MemberAdded,
    },
    /// Add a member.
    AddMember {
        /// Who asks.
        by: Option<UserId>,
        /// Who is added.
        member: MemberAdded,
    },
    /// Replace the repositories as a whole.
    ReplaceRepos {
        /// Who asks.
        by: Option<UserId>,
        /// The new list.
        repos: Vec<Repo>,
    },
    /// Issue a token. The token itself never comes here.
    IssueToken {
        /// Who asks.
        by: Option<UserId>,
        /// Its record.
        token: TokenId,
        /// What it is for.
        holder: TokenHolder,
        /// What its maker calls it.
        name: String,
        /// Lower-case hexadecimal SHA-256 of the token.
        sha256: String,
        /// When it ends, if ever.
        expires_at: Option<Timestamp>,
    },
    /// End a token.
    RevokeToken {
        /// Who asks.
        by: Option<UserId>,
        /// Its record.
        token: TokenId,
        /// `by_member`, `replaced`.
        reason: String,
    },
}
