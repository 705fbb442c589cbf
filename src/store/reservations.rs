//! Reads reservations: keys that have one holder each.
//!
//! Not here: changing them (only an append does), what a key means (`fold::reservations`).

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{LOG, Store, StoreError};

/// A held key's class and holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its class, as [`crate::fold::reservations::Class::name`].
    pub class: String,
    /// Who holds it.
    pub holder: Uuid,
}

/// Every held key that begins with `prefix`.
///
/// # Errors
/// [`StoreError`].
pub async fn with_prefix(store: &Store, prefix: &str) -> Result<BTreeMap<String, Held>, StoreError> {
    let client = store.client().await?;
    with_prefix_in(&**client, prefix).await
}

/// [`with_prefix`], in the snapshot of a transaction.
///
/// # Errors
/// [`StoreError`].
pub async fn with_prefix_in(
    client: &impl tokio_postgres::GenericClient,
    prefix: &str,
) -> Result<BTreeMap<String, Held>, StoreError> {
    held(&client.query(include_str!("sql/read_reservations.sql"), &[&LOG, &prefix]).await?)
}

/// Which of these keys are held; one that isn't is missing in the answer.
///
/// # Errors
/// [`StoreError`].
pub async fn of_keys(store: &Store, keys: &[String]) -> Result<BTreeMap<String, Held>, StoreError> {
    let client = store.client().await?;
    let statement = client.prepare_cached(include_str!("sql/read_reserved_keys.sql")).await?;
    held(&client.query(&statement, &[&LOG, &keys]).await?)
}

fn held(rows: &[tokio_postgres::Row]) -> Result<BTreeMap<String, Held>, StoreError> {
    rows.iter()
        .map(|row| {
            let held = Held { class: row.try_get("class")?, holder: row.try_get("holder")? };
            Ok((row.try_get("key")?, held))
        })
        .collect()
}
