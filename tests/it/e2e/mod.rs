//! The whole product: real PostgreSQL, server, daemon, supervisors, agents, CLI.

mod crowd;
mod demo;
pub mod installation;
mod kill;
mod steps;
mod story;
