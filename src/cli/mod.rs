//! The command line: parses, and runs every verb that is a client of the server.
//!
//! Invariants: every verb takes `--output table|json`; what a program reads goes to standard output, all
//! else to standard error; colours and bars appear only on a terminal; an error says what happened and what
//! to do next, and its exit code says whose move it is.
//!
//! Not here: the server and the daemon themselves: [`parse`] returns a [`Role`], the composition root runs it.

pub mod args;
pub mod demo;
pub mod error;
mod output;
mod run;
mod session;
mod story;
mod verb;

pub use args::{Cli, Common, DaemonStart, Role, ServerArgs, UpArgs};
pub use run::{ClientRole, daemon_config, daemon_may_start, fail, parse, report, run, wants_json};
