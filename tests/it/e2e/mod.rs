//! The whole product: real PostgreSQL, server, daemon, supervisors, agents, CLI.

mod agents;
mod crowd;
mod demo;
pub mod installation;
mod kill;
mod story;
