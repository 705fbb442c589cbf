//! Why `multica up` fails, and what to do then.

use std::io;

use super::FIRST_PORT;
use crate::cli;
use crate::daemon;
use crate::daemon::up_seat::UpSeatError;
use crate::system::SystemError;
use crate::system::demo_place::DemoPlaceError;
use crate::system::file_error::FileError;

/// Why `multica up` can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The server.
    #[error("the server can't run")]
    System(#[from] SystemError),
    /// The profile's files.
    #[error("the profile can't be used")]
    Config(#[from] crate::client::config::ConfigError),
    /// The command line's part.
    #[error("the daemon can't be set up")]
    Cli(#[from] cli::error::CliError),
    /// The daemon.
    #[error("the daemon can't run")]
    Daemon(#[from] daemon::DaemonError),
    /// Its own server refused a call.
    #[error("the server refused its own first call")]
    Call(#[from] crate::client::error::ClientError),
    /// The demo.
    #[error("the demo can't be shown")]
    Demo(#[from] cli::demo::DemoError),
    /// The demo's folders.
    #[error("the demo has no place")]
    Place(#[from] DemoPlaceError),
    /// The profile is in use.
    #[error("the profile is in use")]
    Seat(#[from] UpSeatError),
    /// A file or folder.
    #[error(transparent)]
    File(#[from] FileError),
    /// Signals can't be heard.
    #[error("signals can't be listened to")]
    Signals(#[source] io::Error),
    /// Every port is taken.
    #[error("no port from {FIRST_PORT} on is free")]
    NoPort,
}

impl UpError {
    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::System(error) => error.next_step(),
            Self::Daemon(error) => error.next_step(),
            Self::Config(error) => error.next_step(),
            Self::Cli(error) => error.next_step(),
            Self::Place(error) => error.next_step(),
            Self::Seat(error) => error.next_step(),
            Self::NoPort => "Name a free one: `multica up --port PORT`.".to_owned(),
            Self::Signals(_) => "Start it again.".to_owned(),
            Self::File(error) => error.next_step(),
            Self::Call(_) | Self::Demo(_) => "Look in multica.log in the data directory.".to_owned(),
        }
    }
}
