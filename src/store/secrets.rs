//! Sealed secrets by workspace and name. The key that opens them is not in the database.
//!
//! Not here: sealing and opening (whoever has the instance key), the events that tell of a change.

use std::time::Duration;

use super::{Store, StoreError};
use crate::kernel::ids::WorkspaceId;

/// A sealed secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Which key opens it.
    pub key_id: String,
    /// The sealed bytes.
    pub bytes: Vec<u8>,
}

/// Sets a secret, replacing an older one.
///
/// # Errors
/// [`StoreError`].
pub async fn set(
    store: &Store,
    workspace: WorkspaceId,
    name: &str,
    sealed: &Sealed,
) -> Result<(), StoreError> {
    let client = store.client().await?;
    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&workspace.0, &name, &sealed.key_id, &sealed.bytes];
    client.execute(include_str!("sql/set_secret.sql"), &parameters).await?;
    Ok(())
}

/// Reads a secret.
///
/// # Errors
/// [`StoreError`].
pub async fn get(store: &Store, workspace: WorkspaceId, name: &str) -> Result<Option<Sealed>, StoreError> {
    let client = store.client().await?;
    let row = client.query_opt(include_str!("sql/get_secret.sql"), &[&workspace.0, &name]).await?;
    row.map(|row| Ok(Sealed { key_id: row.try_get("key_id")?, bytes: row.try_get("sealed")? })).transpose()
}

/// Clears a secret; says whether there was one.
///
/// # Errors
/// [`StoreError`].
pub async fn clear(store: &Store, workspace: WorkspaceId, name: &str) -> Result<bool, StoreError> {
    let client = store.client().await?;
    Ok(client.execute(include_str!("sql/clear_secret.sql"), &[&workspace.0, &name]).await? > 0)
}

/// The names of a workspace's secrets that begin so and were set longer ago than `span`.
///
/// # Errors
/// [`StoreError`].
pub async fn names(
    store: &Store,
    workspace: WorkspaceId,
    head: &str,
    span: Duration,
) -> Result<Vec<String>, StoreError> {
    let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let client = store.client().await?;
    let rows = client.query(include_str!("sql/list_secrets.sql"), &[&workspace.0, &head, &millis]).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
