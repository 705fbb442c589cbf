//! Moves bytes between the program and PostgreSQL: the log, its side tables, its server process.
//!
//! Invariants: everything but migrations runs as `multica_app`, which can read the log and execute the
//! functions of schema `es`, and change nothing in the log otherwise; a position that is missing is
//! corruption, never "in flight"; SQL stands only in `.sql` files.
//!
//! Not here: which events a command writes (`app`), what rows mean (`fold`, `readmodel`).

pub mod append;
pub mod embedded;
mod error;
pub mod event_types;
pub mod heartbeat;
pub mod lease;
pub mod listen;
pub mod migrate;
mod pool;
pub mod raw;
pub mod read;
pub mod refused;
pub mod reservations;
pub mod secrets;
mod shortage;
pub mod sign_in;
pub mod transcript;
pub mod upkeep;
pub mod verify;
pub mod webhooks;

pub use error::{Corruption, StoreError};
pub use pool::{AsOf, Durability, Store};
pub use shortage::Shortage;

/// The one log there is today; every key leads with it.
pub const LOG: i32 = 1;

/// How to reach a database.
pub use tokio_postgres::Config as Address;

/// Reads a database URL.
///
/// # Errors
/// [`StoreError::Address`].
pub fn address(url: &str) -> Result<Address, StoreError> {
    url.parse().map_err(|error: tokio_postgres::Error| StoreError::Address(Box::new(error)))
}
