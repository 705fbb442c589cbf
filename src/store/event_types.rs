//! The table of event types: what of `event-schemas/` is in force on this log, for whoever reads the
//! database without this program.
//!
//! Invariants: after a start every type of the starting build stands there with its schema's digest; types
//! of a newer build stay.
//!
//! Not here: what the schemas say (`app::writer::check`).

use tokio_postgres::Config;

use super::StoreError;
use super::pool::connect;
use crate::kernel::limits::Millis;

/// One version of one event's schema.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventType {
    /// `<family>.<name>`.
    pub event_type: String,
    /// The schema's version.
    pub schema_version: i16,
    /// SHA-256 of the schema file.
    pub sha256: [u8; 32],
}

/// Writes the catalogue down, as the owner; says how many rows are new or other ones. The database has to answer
/// within `wait`.
///
/// # Errors
/// [`StoreError`].
pub async fn fill(owner: &Config, wait: Millis, catalogue: &[EventType]) -> Result<u64, StoreError> {
    let types: Vec<&str> = catalogue.iter().map(|entry| entry.event_type.as_str()).collect();
    let versions: Vec<i16> = catalogue.iter().map(|entry| entry.schema_version).collect();
    let digests: Vec<&[u8]> = catalogue.iter().map(|entry| entry.sha256.as_slice()).collect();
    let (client, _driver) = connect(owner, wait).await?;
    let added =
        client.execute(include_str!("sql/add_event_types.sql"), &[&types, &versions, &digests]).await?;
    let differing: i64 = client
        .query_one(include_str!("sql/count_other_event_types.sql"), &[&types, &versions, &digests])
        .await?
        .try_get(0)?;
    // Schemas freeze at the first release; before that a version may change.
    let changed = if differing == 0 {
        0
    } else {
        client.execute(include_str!("sql/replace_event_types.sql"), &[&types, &versions, &digests]).await?
    };
    Ok(added + changed)
}
