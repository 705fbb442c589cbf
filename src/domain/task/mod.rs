//! A task: one run of one agent.
//!
//! ```text
//!              claim      receive   park      promote     start      cancel     complete   fail     release claim
//! queued       dispatched ✗         ✗         ✗           ✗          cancelled  ✗          failed¹  –
//! dispatched   ✗ claimed  –         parked    ✗           running    cancelled  ✗²         failed   queued³
//! parked       ✗ claimed  –         –         dispatched  ✗          cancelled  ✗          failed   –
//! running      ✗ claimed  –         ✗         ✗           –          cancelled  completed  failed   ✗
//! ended        ✗ ended    –         –         ✗           late       –          late       late     –
//! ```
//! (– nothing happened; ✗ refused; late: kept beside the outcome, once. ¹ by the server only: expiry, a lost
//! machine; a daemon has no live claim on it. ² a daemon never completes what it didn't start. ³ a claim; a
//! promotion that isn't answered is parked again at its old place instead.)
//!
//! Invariants: an ended task never changes its outcome, whatever comes, in any order, any number of times;
//! reports of a claim that isn't the live one are refused as `stale_generation`, except on an ended task,
//! where they are kept as late reports; the generation is the count of `task.claimed` in the stream.
//!
//! Not here: which directory is free (`domain/directory`), slots (`fold/reservations`), when to retry by
//! the clock (`app/policy`).

pub mod command;
pub mod decide;
pub mod event;
pub mod evolve;
pub mod explain;
pub mod failure;
pub mod state;
pub mod usual;
pub mod wait;

#[cfg(test)]
pub(crate) mod tests;

pub use command::TaskCommand;
pub use event::*;
pub use state::{Claim, Outcome, Phase, Status, Task};
