//! The one integration test program.

mod agents;
mod http;
mod law;
mod machine;
mod store;
mod support;
