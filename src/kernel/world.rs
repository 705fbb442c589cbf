//! What differs from run to run: the clock, fresh ids, random bytes.
//!
//! The real one is made in `system.rs`; tests bring their own. `domain` and `fold` never see it:
//! they get values.

use jiff::Timestamp;
use uuid::Uuid;

/// The source of time and of randomness.
pub trait World: Send + Sync + 'static {
    /// The wall clock, rounded down to microseconds, the database's precision.
    fn now(&self) -> Timestamp;
    /// A fresh version 7 id.
    fn uuid_v7(&self) -> Uuid;
    /// A fresh version 4 id.
    fn uuid_v4(&self) -> Uuid;
    /// Thirty-two random bytes from the operating system.
    fn random(&self) -> [u8; 32];
}
