//! Vocabulary that anyone may import: ids, clock values, limits, redaction, the error chain.
//!
//! Invariants: no policy, no I/O, no clock and no randomness of its own; whoever needs a time or an
//! id receives it, or holds a [`world::World`] that was made in the composition root.
//!
//! Not here: rules (they are in `domain`), anything that waits.

pub mod digest;
pub mod error_chain;
pub mod ids;
pub mod json;
pub mod limits;
pub mod mac;
pub mod moment;
pub mod redact;
pub mod text;
pub mod world;
