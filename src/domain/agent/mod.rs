//! An agent: an identity bound to a runtime.
//!
//! ```text
//!           create       update       archive
//! none      created      ✗ not found  ✗ not found
//! active    – / ✗ exists updated / –  archived
//! archived  ✗ exists     ✗ archived   –
//! ```
//! (– nothing happened; ✗ refused.)
//!
//! Invariants: provider `command` has a command line and no other provider does; an agent keeps its provider and
//! its owner; an archived agent takes no more tasks and frees its name; what was claimed before a change runs as
//! it was claimed (the claim names the version that it was built from).
//!
//! Not here: unique names and slots (`fold/reservations`).

pub mod command;
pub mod decide;
pub mod event;
pub mod evolve;
pub mod state;

#[cfg(test)]
pub(crate) mod tests;

pub use command::{AgentCommand, Home};
pub use event::*;
pub use state::Agent;
