//! Rows with their types.

use serde::de::DeserializeOwned;

use super::rows::StoredRow;
use super::{ReadModelError, Registered, query};
use crate::kernel::ids::WorkspaceId;
use crate::store::Store;

/// A row of a read model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<T> {
    /// Whose.
    pub workspace: WorkspaceId,
    /// The last event that changed it.
    pub position: i64,
    /// The row.
    pub row: T,
}

/// Reads rows as their type.
///
/// # Errors
/// [`ReadModelError::Shape`] when one isn't of that type.
pub fn typed<T: DeserializeOwned>(rows: Vec<StoredRow>) -> Result<Vec<Found<T>>, ReadModelError> {
    rows.into_iter()
        .map(|stored| {
            let shape = |source| ReadModelError::Shape { key: stored.key.clone(), source };
            let row = serde_json::from_value(stored.row.object).map_err(shape)?;
            Ok(Found { workspace: stored.row.workspace, position: stored.position, row })
        })
        .collect()
}

/// Runs a statement and reads its rows as their type; see [`query::answer`].
///
/// # Errors
/// [`ReadModelError`].
pub async fn select<T: DeserializeOwned>(
    store: &Store,
    registered: &Registered,
    sql: &str,
    parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
) -> Result<Vec<Found<T>>, ReadModelError> {
    typed(query::answer(store, registered, sql, parameters).await?)
}

/// One row by its key.
///
/// # Errors
/// [`ReadModelError`].
pub async fn one<T: DeserializeOwned>(
    store: &Store,
    registered: &Registered,
    key: &str,
) -> Result<Option<Found<T>>, ReadModelError> {
    let row = query::by_key(store, registered, key).await?;
    Ok(typed(row.into_iter().collect())?.pop())
}

/// Rows by their keys; one that isn't there is missing in the answer.
///
/// # Errors
/// [`ReadModelError`].
pub async fn several<T: DeserializeOwned>(
    store: &Store,
    registered: &Registered,
    keys: &[String],
) -> Result<Vec<Found<T>>, ReadModelError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    typed(query::by_keys(store, registered, keys).await?)
}
