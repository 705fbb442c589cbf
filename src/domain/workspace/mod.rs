//! A workspace: the border of visibility, with its members, tokens and repositories.
//!
//! ```text
//!          create     add member     replace repos  issue token   revoke token
//! none     created    ✗ not found    ✗ not found    ✗ not found   ✗ not found
//! exists   – / ✗      added / –      replaced / –   issued / –    revoked / –
//! ```
//! (– nothing happened, the same was said before; ✗ refused.) Members and repositories are an admin's
//! matter; a token is its member's own, and an admin may revoke any.
//!
//! Invariants: a workspace has an owner from its first append on; a token is never stored, only its digest;
//! a revoked token stays revoked.
//!
//! Not here: who a request comes from (`http`), unique slugs (`fold/reservations`).

pub mod command;
pub mod decide;
pub mod event;
pub mod evolve;
pub mod state;

#[cfg(test)]
mod tests;

pub use command::WorkspaceCommand;
pub use event::*;
pub use state::{Member, Token, Workspace};
