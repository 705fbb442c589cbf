//! The one integration test program.

mod agents;
mod law;
mod machine;
mod store;
mod support;
