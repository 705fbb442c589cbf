//! A project: what issues belong to, and the resources that their runs get.
//!
//! ```text
//!          create     update        delete      attach           update resource   detach
//! none     created    ✗ not found   ✗ not found ✗ not found      ✗ not found       ✗ not found
//! exists   ✗ exists   updated / –   deleted     attached / – / ✗ updated / – / ✗   detached / –
//! deleted  ✗ exists   ✗ not found   –           ✗ not found      ✗ not found       ✗ not found
//! ```
//! (– nothing happened; ✗ refused.)
//!
//! Invariants: one `local_directory` for each daemon (whatever an exclusive key of a type says), no two
//! resources alike, both settled by this stream's version; a resource's type never changes; a reference is
//! stored normalised, with the keys this build doesn't know.
//!
//! Not here: what a reference of a type looks like (`domain/resource`), what is on the disk (the daemon's probe).

pub mod command;
pub mod decide;
pub mod event;
pub mod evolve;
pub mod state;

#[cfg(test)]
mod tests;

pub use command::{NewResource, ProjectCommand};
pub use event::*;
pub use state::{Project, Resource};
