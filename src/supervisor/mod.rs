//! One supervisor per task: prepare → run → finalize, outliving the daemon.
//!
//! Invariants: a step that changes anything outside the run's own folder is journalled before; the agent
//! starts only after the server has accepted the start; the directory's lock is given up after the process
//! tree is empty and the context files are gone, and before the terminal report exists. Killed at any
//! point, `--recover` leads to the same end.
//!
//! Not here: talking to the server (`daemon` relays what is in the spool), choosing what runs (the server).

pub mod frame;
pub mod journal;
pub mod records;
pub mod recover;
pub mod remote;
pub mod socket;
pub mod spool;

mod agent_run;
mod entry;
mod finalize;
mod prepare;
mod run;
mod temporary;

pub use entry::{ENV_ROOT_TAKEN, RETRY_LATER, main};
