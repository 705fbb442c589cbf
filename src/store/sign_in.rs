//! Sign-in codes and sessions: rows, not events; what is stored is a digest, never the code or cookie.
//!
//! Invariants: a code works once, within its time by the database's clock.

use std::time::Duration;

use super::{Store, StoreError};
use crate::kernel::ids::{UserId, WorkspaceId};

/// Who a code or a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedIn {
    /// The person.
    pub user: UserId,
    /// The workspace it was made in.
    pub workspace: WorkspaceId,
}

/// Stores a code's digest; says when it ends.
///
/// # Errors
/// [`StoreError`].
pub async fn offer(
    store: &Store,
    hash: &[u8],
    who: SignedIn,
    span: Duration,
) -> Result<jiff::Timestamp, StoreError> {
    let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let client = store.client().await?;
    let row = client
        .query_one(include_str!("sql/offer_sign_in.sql"), &[&hash, &who.user.0, &who.workspace.0, &millis])
        .await?;
    Ok(row.try_get(0)?)
}

/// Uses a code up; none when it isn't there or too old.
///
/// # Errors
/// [`StoreError`].
pub async fn redeem(store: &Store, hash: &[u8]) -> Result<Option<SignedIn>, StoreError> {
    let client = store.client().await?;
    let row = client.query_opt(include_str!("sql/redeem_sign_in.sql"), &[&hash]).await?;
    row.as_ref().map(read).transpose()
}

/// Opens a session.
///
/// # Errors
/// [`StoreError`].
pub async fn open(store: &Store, hash: &[u8], who: SignedIn, span: Duration) -> Result<(), StoreError> {
    let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let client = store.client().await?;
    client
        .execute(include_str!("sql/open_session.sql"), &[&hash, &who.user.0, &who.workspace.0, &millis])
        .await?;
    Ok(())
}

/// Who a session is for; none when there is no such one, or it is over.
///
/// # Errors
/// [`StoreError`].
pub async fn session(store: &Store, hash: &[u8]) -> Result<Option<SignedIn>, StoreError> {
    let client = store.client().await?;
    let row = client.query_opt(include_str!("sql/read_session.sql"), &[&hash]).await?;
    row.as_ref().map(read).transpose()
}

/// Ends a session.
///
/// # Errors
/// [`StoreError`].
pub async fn close(store: &Store, hash: &[u8]) -> Result<(), StoreError> {
    store.client().await?.execute(include_str!("sql/close_session.sql"), &[&hash]).await?;
    Ok(())
}

fn read(row: &tokio_postgres::Row) -> Result<SignedIn, StoreError> {
    Ok(SignedIn {
        user: UserId(row.try_get("user_id")?),
        workspace: WorkspaceId(row.try_get("workspace_id")?),
    })
}
