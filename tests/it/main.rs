//! The tests that need more than one part, or the real world.

mod agents;
