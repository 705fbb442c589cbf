//! Why a use case gave no answer.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::Refusal;
use crate::readmodel::ReadModelError;
use crate::store::StoreError;

use super::writer::check::EventRefusal;

/// Why a command was not carried out, or a question not answered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppError {
    /// A rule says no. Stored: the same command gets the same answer again.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many commands wait (503).
    #[error("too many commands are waiting")]
    Overloaded {
        /// When to come back.
        retry_after: Duration,
    },
    /// The database doesn't answer; whether the command was carried out is unknown: send it again
    /// under the same key (503).
    #[error("the database is not available")]
    Unavailable {
        /// When to come back.
        retry_after: Duration,
        /// What it said.
        #[source]
        source: Arc<StoreError>,
    },
    /// It lost the race against others too often (409); nothing was done, the key is free.
    #[error("others kept changing the same things; nothing was done")]
    Conflict,
    /// The key belongs to a command with another body (422).
    #[error("the idempotency key was used for another request")]
    IdempotencyKeyReused,
    /// The log can't be read there.
    #[error("the log cannot be folded: {what}")]
    Corrupt {
        /// Which stream, and where.
        what: String,
    },
    /// An event that the command would have written isn't fit to be written.
    #[error("the command would write an event that may not stand in the log")]
    Event(#[from] EventRefusal),
    /// A read model failed.
    #[error("a read model failed")]
    ReadModel(#[source] Arc<ReadModelError>),
    /// The database refused.
    #[error("the database refused the command")]
    Store(#[source] Arc<StoreError>),
    /// The writer has ended: the server stops.
    #[error("the server is stopping")]
    Stopping,
}

impl AppError {
    /// Tells whether it is the log itself, or a table made from it, that is damaged there.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Corrupt { .. } => true,
            Self::Store(error) => error.is_damage(),
            Self::ReadModel(error) => error.is_damage(),
            _ => false,
        }
    }
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        if error.is_outage() {
            return Self::Unavailable { retry_after: Duration::from_secs(1), source: Arc::new(error) };
        }
        Self::Store(Arc::new(error))
    }
}

impl From<ReadModelError> for AppError {
    fn from(error: ReadModelError) -> Self {
        match error {
            ReadModelError::Store(error) => error.into(),
            other => Self::ReadModel(Arc::new(other)),
        }
    }
}
