//! Speaking to the server over HTTP, for people's commands and for the daemon.
//!
//! Invariants: one constructor of HTTP clients ([`http::http_client`]); every write carries an
//! `Idempotency-Key`, so that whoever sends it again is answered and nothing happens twice; a token is
//! never printed, not even in an error.
//!
//! Not here: what is asked (`cli`, `daemon`), what it means (`domain`).

pub mod api;
pub mod config;
pub mod download;
pub mod error;
pub mod feed;
pub mod http;
pub mod in_task;
mod verify;
