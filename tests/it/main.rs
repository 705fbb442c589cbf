//! The one integration test program.

mod law;
