//! Use cases: what a command reads, which rules it asks, what it writes.
//!
//! Not here: the rules themselves (`domain`), bytes in the database (`store`), HTTP (`http`).

pub mod decision;
mod error;
pub mod writer;

pub use error::AppError;
