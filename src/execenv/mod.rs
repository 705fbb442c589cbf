//! The place a run works in: its env root, the directory, context files, environment, brief and prompt.
//!
//! Invariants: before the first byte goes into somebody's directory, what will be written is on disk in the
//! run's own folder; removing it again restores every byte of theirs. Names are judged on opened handles.
//!
//! Not here: when these things happen (`supervisor`), who may (the server's grants).

pub mod brief;
pub mod brief_block;
pub mod context;
pub mod directory;
pub mod env_root;
pub mod environment;
pub mod identity;
pub mod lock_probe;
pub mod prior;
pub mod prompt;
pub mod quote;
pub mod sidecars;
