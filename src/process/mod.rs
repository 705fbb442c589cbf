//! Sole owner of operating system calls: children, sessions, signals, locks, accounts, safe file operations.
//!
//! Invariants: nix, libc and `unsafe` appear nowhere else. What a process is known by is never a number
//! alone; what a file is known by is an opened handle, never a path that somebody could swap.

pub mod cgroup;
pub mod child;
pub mod executable;
pub mod failpoint;
pub mod identity;
pub mod lines;
pub mod lock;
pub mod owner;
pub mod peer;
pub mod safe_file;
pub mod tree;
