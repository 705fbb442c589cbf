//! What can go wrong with a read model.

use crate::fold::FoldError;
use crate::store::StoreError;

/// A failure of a read model.
#[derive(Debug, thiserror::Error)]
pub enum ReadModelError {
    /// The database.
    #[error("read models cannot reach their tables")]
    Store(#[from] StoreError),
    /// An event that can't be folded.
    #[error("an event at position {position} cannot be folded")]
    Fold {
        /// Its position.
        position: i64,
        /// Why.
        #[source]
        source: FoldError,
    },
    /// A row that isn't of its type.
    #[error("row {key} is not of its type")]
    Shape {
        /// Its key.
        key: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A name that can't be a table's.
    #[error("{name} cannot name a read model: lower-case letters, digits and _ only")]
    Name {
        /// The name.
        name: String,
    },
    /// The folder with its SQL is missing or says another version.
    #[error("projections/{name}/{file} {problem}")]
    Folder {
        /// The read model.
        name: String,
        /// The file.
        file: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Nothing by that name.
    #[error("no read model named {name}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It isn't installed (yet).
    #[error("read model {name} is not installed")]
    NotInstalled {
        /// The name.
        name: String,
    },
    /// It keeps no row history: what it showed at an earlier moment can't be said.
    #[error("read model {name} keeps no history")]
    NoHistory {
        /// The name.
        name: String,
    },
    /// It is being rebuilt by somebody.
    #[error("read model {name} is being rebuilt already")]
    Rebuilding {
        /// The name.
        name: String,
    },
    /// The table of before its last rebuild can't be dropped yet.
    #[error("the former table of read model {name} is still being read")]
    TableInUse {
        /// The name.
        name: String,
    },
    /// Another build's read models were installed meanwhile.
    #[error("another build of the program has installed its own {name} meanwhile")]
    Replaced {
        /// The name.
        name: String,
    },
    /// It hasn't come as far as the reader needs, in time.
    #[error("read model {name} stands at {checkpoint}, {wanted} was asked for")]
    Behind {
        /// The name.
        name: String,
        /// How far it is.
        checkpoint: i64,
        /// How far it should be.
        wanted: i64,
    },
}

impl From<tokio_postgres::Error> for ReadModelError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Store(error.into())
    }
}

impl ReadModelError {
    /// Whether the log or a table itself is damaged: a finding for whoever verifies them, not a failure.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Fold { .. } | Self::Shape { .. } => true,
            Self::Store(error) => error.is_damage(),
            _ => false,
        }
    }

    /// The position of the event that can't be folded, where that is what is wrong.
    #[must_use]
    pub const fn poison(&self) -> Option<i64> {
        match self {
            Self::Fold { position, .. } | Self::Store(StoreError::Undecodable { position, .. }) => {
                Some(*position)
            }
            _ => None,
        }
    }
}
