//! The tests that need more than one part, or the real world.

mod agents;
mod cli;
mod daemon;
mod machine;
