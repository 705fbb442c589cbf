//! What was done with the log itself: the installation's stream of starts, rebuilds, skips, verifications and
//! seals, and beside it one for each workspace, of what its people took away.
//!
//! ```text
//!          start               record rebuild   record skip    record verified, sealed   record export   erase, remove transcripts
//! none     started             ✗ not found      ✗ not found    ✗ not found               recorded        recorded / –
//! exists   started / ✗ key     recorded         recorded / –   recorded                  recorded        recorded / –
//! ```
//! (– nothing happened; ✗ refused.)
//!
//! Invariants: every server that runs on this log has the same instance key; a stream's events are all of one
//! workspace, the installation's of none.
//!
//! Not here: the key itself, which never leaves the server's files.

use uuid::Uuid;

use crate::kernel::ids::WorkspaceId;

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

/// The installation's stream; its workspace is [`NOWHERE`].
pub const STREAM: Uuid = Uuid::from_u128(1);

/// The workspace of the installation's own events: none.
pub const NOWHERE: WorkspaceId = WorkspaceId(Uuid::nil());
