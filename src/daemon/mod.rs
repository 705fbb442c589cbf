//! The daemon: claims tasks, starts a supervisor for each, relays what they report.
//!
//! Invariants: no side effect before the server has accepted the receipt of that very claim; a run is
//! recorded durably before it is started, and forgotten only when the server has all of its reports; every
//! recorded run is taken up again (attached or recovered) before any directory is entered; without a server
//! everything waits and nothing is lost; no agent outlives a clean stop.
//!
//! Not here: preparing and running (`supervisor`, `execenv`, `agent`), what a report means (the server).

mod claim;
mod config;
pub mod control;
mod conversation;
mod drain;
mod elsewhere;
mod enter;
mod health;
mod heartbeat;
pub mod host;
mod inspect;
mod lives;
pub mod log_file;
mod orders;
mod outbox;
mod providers;
mod register;
mod run;
mod standing;
mod start;
mod state;
mod supervisors;
mod unreadable;
pub mod up_seat;
mod waiter;

pub use config::{DaemonConfig, DaemonError, Ended, Shutdown};
pub use run::run;
