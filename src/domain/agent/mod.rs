//! An agent: an identity bound to a runtime.
//!
//! ```text
//!           create       archive
//! none      created      ✗ not found
//! active    – / ✗ exists archived
//! archived  ✗ exists     –
//! ```
//! (– nothing happened; ✗ refused.)
//!
//! Invariants: provider `command` has a command line and no other provider does; an archived agent takes no
//! more tasks and frees its name.
//!
//! Not here: unique names and slots (`fold/reservations`).

pub mod command;
pub mod decide;
pub mod event;
pub mod evolve;
pub mod state;

#[cfg(test)]
mod tests;

pub use command::AgentCommand;
pub use event::*;
pub use state::Agent;
