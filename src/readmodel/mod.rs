//! Drives the folds: installs read models, follows the log, rebuilds, verifies, answers by key.
//!
//! Invariants: a table is `rm.<name>__v<version>`, with `_r<n>` after its n-th rebuild; which one answers stands
//! in `es.projections`; an inline model's rows are written by the append only (or under the head lock); a
//! follower's rows and its checkpoint change in one transaction; a rebuild gives the same rows as the live table;
//! what is asked as of a position comes from the row history, and never from the live table.
//!
//! Not here: what rows mean (`fold`), who reads them (`app`, `http`).

pub mod access;
pub mod activity;
pub mod agent_roster;
pub mod audit_trail;
pub mod counters;
pub mod daemon_orders;
pub mod directory_queue;
mod error;
mod folding;
pub mod follower;
pub mod found;
pub mod history;
pub mod install;
pub mod issue_board;
mod page;
pub mod project_resources;
pub mod query;
pub mod rebuild;
pub mod registry;
pub mod rows;
pub mod runtime_presence;
mod sql;
pub mod task_status;
pub mod timers;
pub mod verify;
pub mod webhooks;

pub use error::ReadModelError;
pub use registry::{Registered, Registry, Sql};
