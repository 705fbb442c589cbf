//! The one integration test program.

mod agents;
mod cli;
mod daemon;
mod http;
mod law;
mod machine;
mod store;
mod support;
