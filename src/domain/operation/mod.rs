//! The installation's own stream: starts, rebuilds, skips, verifications, seals.
//!
//! ```text
//!          start               record rebuild   record skip    record verified, sealed
//! none     started             ✗ not found      ✗ not found    ✗ not found
//! exists   started / ✗ key     recorded         recorded / –   recorded
//! ```
//! (– nothing happened; ✗ refused.)
//!
//! Invariants: every server that runs on this log has the same instance key.
//!
//! Not here: the key itself, which never leaves the server's files.

use uuid::Uuid;

pub mod command;
pub mod decide;
pub mod event;
pub mod evolve;
pub mod state;

#[cfg(test)]
pub(crate) mod tests;

pub use command::OperationCommand;
pub use event::*;
pub use state::Operation;

/// The one stream of this family; its workspace is the nil workspace.
pub const STREAM: Uuid = Uuid::from_u128(1);
