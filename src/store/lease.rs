//! Leases: which process runs a loop, judged by the database's clock.

use std::time::Duration;

use uuid::Uuid;

use super::{Store, StoreError};

/// Takes or renews a lease. Says whether we have it now.
///
/// # Errors
/// [`StoreError`].
pub async fn acquire(store: &Store, name: &str, holder: Uuid, span: Duration) -> Result<bool, StoreError> {
    let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let client = store.client().await?;
    let row = client.query_opt(include_str!("sql/acquire_lease.sql"), &[&name, &holder, &millis]).await?;
    Ok(row.is_some())
}

/// Lets a lease go, if we have it.
///
/// # Errors
/// [`StoreError`].
pub async fn release(store: &Store, name: &str, holder: Uuid) -> Result<(), StoreError> {
    store.client().await?.execute(include_str!("sql/release_lease.sql"), &[&name, &holder]).await?;
    Ok(())
}
