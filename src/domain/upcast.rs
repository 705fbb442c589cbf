//! What older versions of events are read as today.
//!
//! Invariants: an upcaster is pure, JSON → JSON, from one version to the next; an event type's versions are 1
//! to one more than it has upcasters, without a gap; stored events are never rewritten, and the newest version
//! passes by here untouched.
//!
//! To change a landed event: change its type, write the upcaster from the former version here, and run
//! `UPDATE_SCHEMAS=1 cargo nextest run schemas`. The former version's schema and sample stay for ever.

use serde_json::Value;

/// One step of one event type.
#[derive(Debug, Clone, Copy)]
pub struct Upcaster {
    /// `<family>.<name>`.
    pub event_type: &'static str,
    /// The version that it reads; what it makes is of the next.
    pub from: i16,
    /// The step itself.
    pub up: fn(Value) -> Value,
}

/// Every step there is, an event type's in the order of its versions.
pub const UPCASTERS: &[Upcaster] = &[];

/// The newest version of an event type.
#[must_use]
pub fn newest(upcasters: &[Upcaster], event_type: &str) -> i16 {
    of(upcasters, event_type).map(|upcaster| upcaster.from + 1).max().unwrap_or(1)
}

/// Brings a payload of an older version to the newest one.
#[must_use]
pub fn chain(upcasters: &[Upcaster], event_type: &str, version: i16, data: Value) -> Value {
    of(upcasters, event_type)
        .filter(|upcaster| upcaster.from >= version)
        .fold(data, |data, upcaster| (upcaster.up)(data))
}

fn of<'a>(upcasters: &'a [Upcaster], event_type: &str) -> impl Iterator<Item = &'a Upcaster> {
    upcasters.iter().filter(move |upcaster| upcaster.event_type == event_type)
}
