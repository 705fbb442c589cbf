//! A daemon: one machine's process that claims tasks, with the runtimes it found there.
//!
//! ```text
//!              register     came back   went offline  declare dead  drain          deregister    probe request  probed
//! none         registered   ✗           ✗             ✗             ✗              ✗             ✗              ✗
//! online       changes / –  –           offline       dead          started, ended deregistered  requested      probed / –
//! offline      changes      back        –             dead          started, ended deregistered  ✗ offline      probed / –
//! superseded¹  ✗            ✗           –             –             ✗              ✗             –              –
//! ```
//! (– nothing happened; ✗ refused. ¹ the call names an incarnation that another one has replaced:
//! `daemon_superseded`.)
//!
//! Invariants: a new incarnation supersedes the one before for ever; the same one that registers again says
//! only what changed; a runtime's id follows from workspace, daemon and provider and stays; a probe is
//! answered once; it belongs to the member who registered it first.
//!
//! Not here: heartbeats (rows, judged by the database's clock), who holds which slot (`fold/reservations`).

pub mod command;
pub mod decide;
pub mod event;
pub mod evolve;
pub mod state;

#[cfg(test)]
pub(crate) mod tests;

pub use command::{DaemonCommand, FoundRuntime, Registration};
pub use event::*;
pub use state::{Daemon, Probe, Runtime, may_speak, runtime_id};
