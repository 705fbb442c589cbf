//! A directory: the queue of one real path on one machine.
//!
//! Invariants: at most one holder; the queue is in order of arrival (`ticket`), and a task that returns to
//! it keeps its ticket; a task is holder, or waits, or neither; a repeated command writes nothing.
//!
//! Not here: who may be promoted (slots and presence are facts that `app` passes in), the operating
//! system's lock (`supervisor`).

pub mod decide;
pub mod event;
pub mod state;

#[cfg(test)]
pub(crate) mod tests;

pub use decide::DirectoryCommand;
pub use event::*;
pub use state::{Directory, Holder, Waiting};
