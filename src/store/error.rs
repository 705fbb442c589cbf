//! What can go wrong between the program and PostgreSQL.

use uuid::Uuid;

use super::Shortage;
use crate::domain::codec::CodecError;

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database can't be reached, or the connection was lost: whether a write happened is unknown.
    #[error("the database cannot be reached")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database answers that it can't work now, and why.
    #[error("{shortage}")]
    Short {
        /// What it lacks.
        shortage: Shortage,
        /// What it said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An answer did not come in time: whether a write happened is unknown.
    #[error("the database did not answer within {waited_ms} ms")]
    TimedOut {
        /// How long it was waited for.
        waited_ms: u64,
    },
    /// The database refused a statement.
    #[error("the database refused a statement")]
    Sql(#[source] tokio_postgres::Error),
    /// The log isn't what it must be.
    #[error("the log is corrupt")]
    Corrupt(#[from] Corruption),
    /// The log holds an event that this build doesn't know.
    #[error("event at position {position} cannot be read")]
    Undecodable {
        /// Its position.
        position: i64,
        /// Why.
        #[source]
        source: CodecError,
    },
    /// Another build's read models are installed: this one may not append.
    #[error("another build of the program has installed its read models on this log")]
    Superseded,
    /// The pool's role has more rights than the application may have.
    #[error("database role {role} {excess}")]
    RoleTooMighty {
        /// The role.
        role: String,
        /// Which right it has.
        excess: &'static str,
    },
    /// The cluster gives up durability.
    #[error("the database runs with {setting} = {value}: acknowledged work could be lost")]
    NotDurable {
        /// The setting.
        setting: String,
        /// Its value.
        value: String,
    },
    /// A migration can't be applied.
    #[error("the database's schema cannot be brought up to date")]
    Migrate(#[source] Box<refinery::Error>),
    /// A URL or a pool setting that can't be used.
    #[error("the database address cannot be used")]
    Address(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// How the log is broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Corruption {
    /// A position is missing.
    #[error("position {expected} is missing (found {found} instead)")]
    Hole {
        /// The missing position.
        expected: i64,
        /// What came instead; the head when nothing came.
        found: i64,
    },
    /// A stream's version is missing.
    #[error("stream {stream} lacks version {expected}")]
    Version {
        /// The stream.
        stream: Uuid,
        /// The missing version.
        expected: i32,
    },
    /// A column holds a word that no build ever wrote.
    #[error("event at position {position} has {column} {value}")]
    Word {
        /// The position.
        position: i64,
        /// The column.
        column: &'static str,
        /// What it holds.
        value: String,
    },
}

impl StoreError {
    /// Tells whether trying the same again later, under the same ids, is right.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Short { .. } | Self::TimedOut { .. })
    }

    /// Tells whether it may well be over within seconds, so that waiting for it is worth it.
    #[must_use]
    pub const fn passes(&self) -> bool {
        match self {
            Self::Short { shortage, .. } => shortage.passes(),
            _ => self.is_outage(),
        }
    }

    /// Tells whether it is the log itself that is damaged, there where it was read.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Undecodable { .. } | Self::Corrupt(_))
    }

    /// What an operator does now, as a sentence, where there is something.
    #[must_use]
    pub const fn next_step(&self) -> Option<&'static str> {
        match self {
            Self::Unavailable(_) | Self::TimedOut { .. } => {
                Some("Check that PostgreSQL runs and DATABASE_URL is right.")
            }
            Self::Short { shortage, .. } => Some(shortage.next_step()),
            Self::Corrupt(_) => Some("Run `multica verify`; restore from a backup or a sealed archive."),
            Self::Superseded => Some("Stop this server and start the newer build."),
            Self::RoleTooMighty { .. } => {
                Some("Let DATABASE_URL name the role multica_app, and MULTICA_MIGRATE_URL the owner.")
            }
            Self::NotDurable { .. } => {
                Some("Turn fsync, full_page_writes and synchronous_commit on and restart PostgreSQL.")
            }
            Self::Migrate(_) => Some("Start the build that this database was made by, or a newer one."),
            Self::Address(_) => Some("Write it as postgres://multica_app:password@host/multica."),
            Self::Undecodable { .. } => Some("Start a newer build: this log was written by one."),
            Self::Sql(_) => None,
        }
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        // The server's own word comes first: a connection that it refuses is closed, too.
        match error.code() {
            Some(state) if state.code() == "MC002" => Self::Superseded,
            Some(state) => match Shortage::of(state) {
                Some(shortage) => Self::Short { shortage, source: Box::new(error) },
                // 08 connection: not the statement's fault.
                None if state.code().starts_with("08") => Self::Unavailable(Box::new(error)),
                None => Self::Sql(error),
            },
            None if error.is_closed() || is_broken_link(&error) => Self::Unavailable(Box::new(error)),
            None => Self::Sql(error),
        }
    }
}

impl From<deadpool_postgres::PoolError> for StoreError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => error.into(),
            other => Self::Unavailable(Box::new(other)),
        }
    }
}

/// No answer of the server at all: the link broke, unless a value could not be encoded.
fn is_broken_link(error: &tokio_postgres::Error) -> bool {
    use std::error::Error as _;
    error.source().is_some_and(|source| source.is::<std::io::Error>())
}
