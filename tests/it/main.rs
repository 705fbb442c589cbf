//! The one integration test program.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test says no by panicking, and tells its story on the terminal"
)]

mod agents;
mod bench;
mod browser;
mod cli;
mod daemon;
mod e2e;
mod http;
mod law;
mod machine;
mod store;
mod support;
