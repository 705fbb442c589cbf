//! The one integration test program.

mod agents;
mod law;
mod store;
mod support;
