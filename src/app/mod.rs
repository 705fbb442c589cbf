//! Use cases: what a command reads, which rules it asks, what it writes.
//!
//! Not here: the rules themselves (`domain`), bytes in the database (`store`), HTTP (`http`).

pub mod agent_write;
pub mod daemon_register;
pub mod daemon_write;
pub mod decision;
pub mod directory_promote;
pub mod draft;
pub mod erase;
mod error;
pub mod issue_write;
pub mod load;
pub mod operation_write;
pub mod policy;
pub mod private;
pub mod project_write;
pub mod seals;
pub mod secrets;
pub mod set_aside;
pub mod task_cancel;
pub mod task_claim;
pub mod task_enter_directory;
pub mod task_outcome;
pub mod task_queue;
pub mod task_receipt;
pub mod task_report;
pub mod task_sweep;
pub mod verify;
pub mod webhook_write;
pub mod webhooks;
pub mod workspace_write;
pub mod writer;

pub use error::AppError;
