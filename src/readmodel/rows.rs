//! Rows of read models between memory and their tables.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::sql;
use super::{ReadModelError, Registered};
use crate::fold::{Row, RowText};
use crate::kernel::ids::WorkspaceId;

/// Rows sent to the database at once.
const CHUNK: usize = 2_000;

/// A row as it stands in its table.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRow {
    /// Its key.
    pub key: String,
    /// Whose it is, and its object.
    pub row: Row,
    /// The last event that changed it.
    pub position: i64,
    /// When that was recorded.
    pub recorded_at: jiff::Timestamp,
}

/// A change on its way into a table.
#[derive(Debug, Clone, Serialize)]
pub struct RowChange {
    /// The row's key.
    pub key: String,
    /// Whose it is; nil where it is deleted.
    pub workspace_id: Uuid,
    /// The event's position, or its ordinal in a batch.
    pub position: i64,
    /// Microseconds since 1970, or the batch's marker.
    pub recorded_at: Value,
    /// The object's text; none deletes.
    pub row: Option<Box<RawValue>>,
}

impl RowChange {
    /// The change of a row to a new object, or to nothing.
    #[must_use]
    pub fn new(key: String, row: Option<RowText>, position: i64, recorded_at: Value) -> Self {
        let workspace_id = row.as_ref().map_or(Uuid::nil(), |row| row.workspace.0);
        Self { key, workspace_id, position, recorded_at, row: row.map(|row| row.object) }
    }
}

/// Reads rows as they are now by key, from a table of the read model; one that isn't there is missing in the answer.
///
/// # Errors
/// [`ReadModelError::Store`].
pub async fn load(
    client: &impl GenericClient,
    registered: &Registered,
    table: &str,
    keys: &[String],
) -> Result<Vec<StoredRow>, ReadModelError> {
    let sql = sql::ROWS_BY_KEY.replace("{table}", &registered.current(table));
    client.query(&sql, &[&keys]).await?.iter().map(from_row).collect()
}

/// [`load`] from the table that answers for an inline read model, with the statement prepared once per
/// connection: what every append does.
///
/// # Errors
/// [`ReadModelError::Store`].
pub async fn load_cached(
    client: &deadpool_postgres::Object,
    registered: &Registered,
    keys: &[String],
) -> Result<Vec<StoredRow>, ReadModelError> {
    let sql = include_str!("sql/rows_by_function.sql").replace("{key}", registered.key());
    let statement = client.prepare_cached(&sql).await?;
    client.query(&statement, &[&keys]).await?.iter().map(from_row).collect()
}

/// Writes changes into a table of the read model, in chunks.
///
/// # Errors
/// [`ReadModelError::Store`].
pub async fn write(
    client: &impl GenericClient,
    registered: &Registered,
    table: &str,
    changes: &[RowChange],
) -> Result<(), ReadModelError> {
    let statement = sql::bare(&registered.sql().upsert)
        .replace("{table}", table)
        .replace("{changes}", &sql::bare(sql::CHANGES_ARRAYS))
        .replace("{base}", "0");
    for chunk in changes.chunks(CHUNK) {
        let keys: Vec<&str> = chunk.iter().map(|change| change.key.as_str()).collect();
        let workspaces: Vec<Uuid> = chunk.iter().map(|change| change.workspace_id).collect();
        let positions: Vec<i64> = chunk.iter().map(|change| change.position).collect();
        let times: Vec<i64> =
            chunk.iter().map(|change| change.recorded_at.as_i64().unwrap_or_default()).collect();
        let rows: Vec<Option<Json<&RawValue>>> =
            chunk.iter().map(|change| change.row.as_deref().map(Json)).collect();
        client.execute(&statement, &[&keys, &workspaces, &positions, &times, &rows]).await?;
    }
    Ok(())
}

pub(super) fn from_row(row: &tokio_postgres::Row) -> Result<StoredRow, ReadModelError> {
    Ok(StoredRow {
        key: row.try_get("key")?,
        row: Row { workspace: WorkspaceId(row.try_get("workspace_id")?), object: row.try_get("object")? },
        position: row.try_get("position")?,
        recorded_at: row.try_get("recorded_at")?,
    })
}
