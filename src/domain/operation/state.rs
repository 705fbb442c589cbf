//! What the installation is after its events.

use std::collections::{BTreeMap, BTreeSet};

/// The installation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operation {
    /// The id of the instance key that all its servers have.
    pub instance_key_id: String,
    /// The version that started last.
    pub version: String,
    /// How often a server started.
    pub starts: u64,
    /// Events that a read model passed over since its last rebuild: it counts as degraded.
    pub skipped: BTreeMap<String, BTreeSet<i64>>,
    /// The last position that was verified.
    pub verified_up_to: i64,
    /// How many things were wrong then.
    pub found: u64,
    /// The first of them.
    pub findings: Vec<String>,
    /// The last position that was sealed.
    pub sealed_up_to: i64,
    /// How often a part of the audit trail was given out.
    pub exports: u64,
    /// How many texts were erased.
    pub erased: u64,
    /// How many transcripts were removed because they were old.
    pub transcripts_removed: u64,
}
