//! Why a server can't be started or go on, and what to do then.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::app::AppError;
use crate::app::writer::check::BadSchema;
use crate::client::http::HttpSetupError;
use crate::readmodel::ReadModelError;
use crate::seal::SealError;
use crate::store::StoreError;
use crate::store::embedded::EmbeddedError;
use crate::webhook::address::NoRule;

/// Why a server can't be started or go on.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// An environment variable is missing.
    #[error("{name} is not set")]
    Missing {
        /// Its name.
        name: &'static str,
    },
    /// A number of days that is none.
    #[error("{name} is a number of days from 1 on, not `{text}`")]
    Days {
        /// The variable's name.
        name: &'static str,
        /// What it holds.
        text: String,
    },
    /// `MULTICA_LIMITS` isn't JSON of limits.
    #[error("MULTICA_LIMITS cannot be read")]
    Limits(#[source] serde_json::Error),
    /// The instance key's file can't be used.
    #[error("the instance key {path} cannot be used")]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The instance key's file isn't a key.
    #[error("the instance key {path} has {bytes} bytes and mode {mode:o}, not 32 and 600")]
    KeyForm {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: usize,
        /// Its mode.
        mode: u32,
    },
    /// The database.
    #[error("the database cannot be used")]
    Store(#[from] StoreError),
    /// The private database.
    #[error("the private database cannot be started")]
    Embedded(#[from] EmbeddedError),
    /// Where seals are to go.
    #[error("the log cannot be sealed there")]
    SealPlace(#[from] SealError),
    /// Whom webhooks are to be delivered to.
    #[error("webhooks cannot be delivered so")]
    WebhookTo(#[from] NoRule),
    /// The way out to webhooks.
    #[error("webhooks cannot be delivered")]
    Outside(#[from] HttpSetupError),
    /// The read models.
    #[error("the read models cannot be installed")]
    ReadModel(#[from] ReadModelError),
    /// The schemas that are built in.
    #[error("the event schemas cannot be used")]
    Schemas(#[from] BadSchema),
    /// A first command was refused or failed.
    #[error("the server cannot write its first events")]
    App(#[from] AppError),
    /// The address.
    #[error("cannot listen on {address}")]
    Listen {
        /// It.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The listener or the signals failed.
    #[error("serving failed")]
    Serve(#[source] std::io::Error),
    /// A part of the process ended by a panic.
    #[error("a part of the program stopped unexpectedly")]
    Stopped,
}

impl SystemError {
    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::Missing { name } => format!("Set {name} and start again."),
            Self::Days { name, .. } => format!("Correct {name}, or unset it: transcripts are kept then."),
            Self::Limits(_) => "Correct MULTICA_LIMITS, or unset it.".to_owned(),
            Self::KeyFile { .. } | Self::KeyForm { .. } => {
                "Bring the key file back from a backup: the log was begun with it.".to_owned()
            }
            Self::Embedded(error) => error.next_step(),
            Self::SealPlace(error) => error.next_step(),
            Self::WebhookTo(_) => "Correct --webhook-to (MULTICA_WEBHOOK_TO), or leave it out.".to_owned(),
            Self::Outside(_) => "See that the system's certificates can be read (ca-certificates).".to_owned(),
            Self::Listen { .. } => "Name a free port: `--port PORT`.".to_owned(),
            Self::Store(_) | Self::ReadModel(_) | Self::Schemas(_) | Self::App(_) | Self::Serve(_) | Self::Stopped => {
                "Look in multica.log in the data directory, then start again: nothing that was accepted is lost."
                    .to_owned()
            }
        }
    }
}
