//! The rules of the product, pure: one folder per stream family with its commands, events, state,
//! decide and evolve.
//!
//! Invariants: nothing here reads a clock, a random source, a file or a database; times and ids arrive
//! in the command. A family never imports another family's `decide`: a rule over several streams is
//! composed in `app`, which passes the needed facts in. `evolve` is total: it never panics, and a
//! stream that can't be folded is an [`Impossible`] with its name and version.
//!
//! Not here: how events are stored (`store`), when rules are asked (`app`), what people see (`http`, `web`).

pub mod agent;
pub mod codec;
pub mod daemon;
pub mod directory;
pub mod envelope;
mod folding;
pub mod issue;
pub mod operation;
pub mod project;
pub mod refusal;
pub mod replay;
pub mod resource;
pub mod schema_files;
pub mod sentence;
mod tagged;
pub mod task;
pub mod texts;
pub mod upcast;
pub mod webhook;
pub mod what_if;
pub mod workspace;

#[cfg(test)]
mod schema_freeze;
#[cfg(test)]
pub(crate) mod schemas;
#[cfg(test)]
pub(crate) mod spec;

pub use envelope::{
    Actor, ActorKind, ContentRef, Envelope, Event, Family, NewContent, StreamKey, UnknownEvent, Via,
};
pub use refusal::{Impossible, Refusal, RefusalKind};
