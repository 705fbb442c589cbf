//! Errors on the wire: RFC 9457 problem documents that public clients can read too.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An `application/problem+json` body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Always `about:blank`: the code says what it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status' name.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A sentence.
    pub detail: String,
    /// The same sentence, where public clients look for it.
    pub error: String,
    /// Stable snake_case code.
    pub code: String,
    /// What to do now.
    pub next_step: String,
    /// Further members of single codes.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}
