//! When the database recorded something, as a field of a row.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rows;

/// The database's clock, microseconds since 1970. While an inline append is on its way it holds the
/// batch's marker, which the append replaces by the number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct At(Value);

impl At {
    /// The time of the event that is being folded.
    #[must_use]
    pub fn now(rows: &Rows) -> Self {
        Self(rows.recorded_at())
    }

    /// The number; none while it is the marker.
    #[must_use]
    pub fn micros(&self) -> Option<i64> {
        self.0.as_i64()
    }

    /// The same as a [`Timestamp`].
    #[must_use]
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.micros().and_then(|micros| Timestamp::from_microsecond(micros).ok())
    }
}
