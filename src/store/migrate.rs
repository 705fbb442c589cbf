//! Brings the schema up to date, as the owner, one process at a time.
//!
//! Invariants: an applied migration never changes (a differing file stops the start); the advisory lock
//! is held by the connection that migrates, so it ends with it.

use tokio_postgres::Config;

use super::StoreError;
use super::pool::connect;
use crate::kernel::limits::Millis;

mod files {
    refinery::embed_migrations!("migrations");
}

/// Applies what is missing. `owner` is the role that owns the schema, not the application's; the database has to
/// answer within `wait`, the migrations themselves take as long as they take.
///
/// # Errors
/// [`StoreError::Migrate`], [`StoreError::Unavailable`], [`StoreError::TimedOut`].
pub async fn run(owner: &Config, wait: Millis) -> Result<(), StoreError> {
    let (mut client, _driver) = connect(owner, wait).await?;
    client.batch_execute(include_str!("sql/lock_migrations.sql")).await?;
    let applied = files::migrations::runner()
        .run_async(&mut client)
        .await
        .map_err(|error| StoreError::Migrate(Box::new(error)));
    applied.map(drop)
}
