//! What crosses HTTP: request, response, order, report and SSE types.
//!
//! Invariants: serde only; no rule and no default that decides something; a type that public clients also
//! speak has their field names (`wire.md`), ours only add fields. `None` that public clients expect as
//! `null` is written as `null`, optional extras disappear when absent.

pub mod api;
pub mod bundle;
pub mod daemon;
pub mod feed;
pub mod problem;
