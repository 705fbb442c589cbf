//! Who may do what: tokens, members, workspaces.

use jiff::Timestamp;

use super::found::{Found, one, select};
use super::{ReadModelError, Registry};
use crate::domain::workspace::{Role, TokenHolder};
use crate::fold::access::{MemberRow, TokenRow, WorkspaceRow, member_key, token_key, workspace_key};
use crate::kernel::ids::{TokenId, UserId, WorkspaceId};
use crate::store::Store;

const NAME: &str = "access";

/// A token as a request needs it.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its record.
    pub token: TokenId,
    /// What it is for.
    pub holder: TokenHolder,
    /// Where it was issued.
    pub workspace: WorkspaceId,
    /// When it ends, if ever.
    pub expires_at: Option<Timestamp>,
    /// Whether it was revoked.
    pub revoked: bool,
}

/// The token with that digest.
///
/// # Errors
/// [`ReadModelError`].
pub async fn token(
    store: &Store,
    registry: &Registry,
    sha256: &str,
) -> Result<Option<Token>, ReadModelError> {
    let found = one::<TokenRow>(store, registry.get(NAME)?, &token_key(sha256)).await?;
    Ok(found.map(|found| Token {
        token: found.row.id,
        holder: found.row.holder,
        workspace: found.workspace,
        expires_at: found.row.expires_at.and_then(|end| Timestamp::from_microsecond(end).ok()),
        revoked: found.row.revoked,
    }))
}

/// What a person may do in a workspace; none for a stranger.
///
/// # Errors
/// [`ReadModelError`].
pub async fn role(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Option<Role>, ReadModelError> {
    Ok(member(store, registry, workspace, user).await?.map(|found| found.row.role))
}

/// A member.
///
/// # Errors
/// [`ReadModelError`].
pub async fn member(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Option<Found<MemberRow>>, ReadModelError> {
    one(store, registry.get(NAME)?, &member_key(workspace, user)).await
}

/// The members of a workspace.
///
/// # Errors
/// [`ReadModelError`].
pub async fn members(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
) -> Result<Vec<Found<MemberRow>>, ReadModelError> {
    select(store, registry.get(NAME)?, include_str!("sql/access_members.sql"), &[&workspace.0]).await
}

/// A workspace.
///
/// # Errors
/// [`ReadModelError`].
pub async fn workspace(
    store: &Store,
    registry: &Registry,
    id: WorkspaceId,
) -> Result<Option<Found<WorkspaceRow>>, ReadModelError> {
    one(store, registry.get(NAME)?, &workspace_key(id)).await
}

/// The workspace of that slug.
///
/// # Errors
/// [`ReadModelError`].
pub async fn workspace_by_slug(
    store: &Store,
    registry: &Registry,
    slug: &str,
) -> Result<Option<WorkspaceId>, ReadModelError> {
    let sql = include_str!("sql/access_by_slug.sql");
    let found: Vec<Found<WorkspaceRow>> = select(store, registry.get(NAME)?, sql, &[&slug]).await?;
    Ok(found.first().map(|found| found.row.id))
}

/// The workspaces that a person is a member of, oldest first.
///
/// # Errors
/// [`ReadModelError`].
pub async fn workspaces_of(
    store: &Store,
    registry: &Registry,
    user: UserId,
) -> Result<Vec<Found<WorkspaceRow>>, ReadModelError> {
    select(store, registry.get(NAME)?, include_str!("sql/access_workspaces_of.sql"), &[&user.0]).await
}

/// A person's tokens in a workspace, revoked ones aside.
///
/// # Errors
/// [`ReadModelError`].
pub async fn tokens_of(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    user: UserId,
) -> Result<Vec<Found<TokenRow>>, ReadModelError> {
    let sql = include_str!("sql/access_tokens_of.sql");
    select(store, registry.get(NAME)?, sql, &[&workspace.0, &user.0]).await
}
