//! Sign-in codes and sessions, by hash, judged by the database's clock.
//!
//! Invariants: a code opens one session, once; neither the code nor the session's token is stored.

use std::time::Duration;

use super::{Store, StoreError};
use crate::kernel::ids::{UserId, WorkspaceId};

/// Whose a code or a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedIn {
    /// The person.
    pub user: UserId,
    /// The workspace.
    pub workspace: WorkspaceId,
}

/// Stores a code's hash.
///
/// # Errors
/// [`StoreError`].
pub async fn put_code(
    store: &Store,
    hash: &[u8; 32],
    whose: SignedIn,
    span: Duration,
) -> Result<(), StoreError> {
    put(store, include_str!("sql/put_sign_in_code.sql"), hash, whose, span).await
}

/// Uses a code up; none when it is unknown, used or too old.
///
/// # Errors
/// [`StoreError`].
pub async fn take_code(store: &Store, hash: &[u8; 32]) -> Result<Option<SignedIn>, StoreError> {
    whose(store, include_str!("sql/take_sign_in_code.sql"), hash).await
}

/// Stores a session's hash.
///
/// # Errors
/// [`StoreError`].
pub async fn put_session(
    store: &Store,
    hash: &[u8; 32],
    whose: SignedIn,
    span: Duration,
) -> Result<(), StoreError> {
    put(store, include_str!("sql/put_session.sql"), hash, whose, span).await
}

/// Whose the session is; none when it is unknown or too old.
///
/// # Errors
/// [`StoreError`].
pub async fn session(store: &Store, hash: &[u8; 32]) -> Result<Option<SignedIn>, StoreError> {
    whose(store, include_str!("sql/read_session.sql"), hash).await
}

/// Ends a session.
///
/// # Errors
/// [`StoreError`].
pub async fn end_session(store: &Store, hash: &[u8; 32]) -> Result<(), StoreError> {
    store.client().await?.execute(include_str!("sql/end_session.sql"), &[&hash.as_slice()]).await?;
    Ok(())
}

async fn put(
    store: &Store,
    sql: &str,
    hash: &[u8; 32],
    whose: SignedIn,
    span: Duration,
) -> Result<(), StoreError> {
    let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let client = store.client().await?;
    client.execute(sql, &[&hash.as_slice(), &whose.user.0, &whose.workspace.0, &millis]).await?;
    Ok(())
}

async fn whose(store: &Store, sql: &str, hash: &[u8; 32]) -> Result<Option<SignedIn>, StoreError> {
    let row = store.client().await?.query_opt(sql, &[&hash.as_slice()]).await?;
    row.map(|row| {
        Ok(SignedIn {
            user: UserId(row.try_get("user_id")?),
            workspace: WorkspaceId(row.try_get("workspace_id")?),
        })
    })
    .transpose()
}
