//! The one integration test program.

mod law;
mod store;
mod support;
