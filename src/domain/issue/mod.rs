//! An issue: a unit of work that people and agents talk about and hand to each other.
//!
//! ```text
//!          create     update        assign         change status   comment
//! none     created    ✗ not found   ✗ not found    ✗ not found     ✗ not found
//! exists   ✗ exists   updated / –   assigned / –   changed / –     commented / –
//! ```
//! (– nothing happened, the same was said before; ✗ refused.)
//!
//! Invariants: number and key never change; a comment answers a comment of the same issue; changing status
//! or assignee cancels no task.
//!
//! Not here: which number is next (`fold/counters`), whether an assignment queues a task (`app`).

pub mod command;
pub mod decide;
pub mod event;
pub mod evolve;
pub mod state;

#[cfg(test)]
mod tests;

pub use command::IssueCommand;
pub use event::*;
pub use state::{Comment, Issue};
