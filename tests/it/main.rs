//! The one integration test program.

mod agents;
mod cli;
mod browser;
mod daemon;
mod e2e;
mod http;
mod law;
mod machine;
mod store;
mod support;
