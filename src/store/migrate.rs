//! Brings the schema up to date, as the owner, one process at a time.
//!
//! Invariants: an applied migration never changes (a differing file stops the start); the advisory lock
//! is held by the connection that migrates, so it ends with it.

use tokio_postgres::{Config, NoTls};

use super::StoreError;

mod files {
    refinery::embed_migrations!("migrations");
}

/// Applies what is missing. `owner` is the role that owns the schema, not the application's.
///
/// # Errors
/// [`StoreError::Migrate`], [`StoreError::Unavailable`].
pub async fn run(owner: &Config) -> Result<(), StoreError> {
    let (mut client, connection) = owner.connect(NoTls).await?;
    let driver = tokio::spawn(connection);
    client.batch_execute(include_str!("sql/lock_migrations.sql")).await?;
    let applied = files::migrations::runner()
        .run_async(&mut client)
        .await
        .map_err(|error| StoreError::Migrate(Box::new(error)));
    drop(client);
    driver.abort();
    applied.map(drop)
}
