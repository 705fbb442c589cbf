//! The whole product: real PostgreSQL, server, daemon, supervisors, agents, CLI.

mod accounts;
mod agents;
mod background;
mod bad_input;
mod crowd;
mod demo;
mod given_up;
pub mod installation;
mod kill;
mod readme;
mod starts;
mod steps;
mod story;
mod stranded;
mod up;
mod webhooks;
