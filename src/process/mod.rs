//! Sole owner of operating system calls: accounts, sessions, signals.
//!
//! Invariants: nix, libc and `unsafe` appear nowhere else.

pub mod account;
pub mod pg;
pub mod stop;
