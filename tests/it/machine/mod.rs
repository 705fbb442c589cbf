//! The machine half with real processes, real directories and real deaths.

mod agents;
mod context;
mod deaths;
mod env_root;
mod locks;
mod paths;
mod providers;
mod world;
