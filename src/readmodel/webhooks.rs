//! Webhooks.

use super::found::{Found, one, select};
use super::{ReadModelError, Registry};
use crate::fold::webhooks::{WebhookRow, key};
use crate::kernel::ids::{WebhookId, WorkspaceId};
use crate::store::Store;

const NAME: &str = "webhooks";

/// The webhooks of a workspace, oldest first; those that are gone aside.
///
/// # Errors
/// [`ReadModelError`].
pub async fn of_workspace(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
) -> Result<Vec<Found<WebhookRow>>, ReadModelError> {
    select(store, registry.get(NAME)?, include_str!("sql/webhooks_of_workspace.sql"), &[&workspace.0]).await
}

/// Every webhook of the installation, those that are gone too.
///
/// # Errors
/// [`ReadModelError`].
pub async fn all(store: &Store, registry: &Registry) -> Result<Vec<Found<WebhookRow>>, ReadModelError> {
    select(store, registry.get(NAME)?, include_str!("sql/webhooks_all.sql"), &[]).await
}

/// One webhook of a workspace, also one that is gone.
///
/// # Errors
/// [`ReadModelError`].
pub async fn of(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    id: WebhookId,
) -> Result<Option<WebhookRow>, ReadModelError> {
    let found: Option<Found<WebhookRow>> = one(store, registry.get(NAME)?, &key(id)).await?;
    Ok(found.filter(|found| found.workspace == workspace).map(|found| found.row))
}
