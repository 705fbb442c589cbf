//! What a daemon is told at its start, and how it can fail.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use crate::client::config::Environment;
use crate::client::error::ClientError;
use crate::kernel::limits::Limits;

/// How a daemon runs.
#[derive(Debug, Clone)]
pub struct DaemonConfig {
    /// The server.
    pub server_url: String,
    /// A member's or a daemon's token.
    pub token: SecretString,
    /// The workspace, by id or slug; the token's first one otherwise.
    pub workspace: Option<String>,
    /// Its own id.
    pub daemon_id: String,
    /// What the machine is called.
    pub device_name: String,
    /// The profile, for people.
    pub profile: String,
    /// Its local state: `<profile folder>/daemon`.
    pub state_dir: PathBuf,
    /// Where runs get their env roots.
    pub work_root: PathBuf,
    /// Where server and database of the same installation keep their files; known under `multica up`.
    pub data_dir: Option<PathBuf>,
    /// Tasks at once.
    pub slots: u32,
    /// The local port asked for; the next free one is taken if it is in use.
    pub health_port: Option<u16>,
    /// How long a clean stop waits for running tasks.
    pub drain: Duration,
    /// Directories that agents may work in although their owner is root or a system account.
    pub allowed_directories: Vec<PathBuf>,
    /// The environment, where programs are looked for.
    pub environment: Environment,
    /// The bounds in force.
    pub limits: Limits,
}

/// What a daemon's surroundings want of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Shutdown {
    /// Go on.
    #[default]
    None,
    /// No new claims; wait for what runs, up to the drain.
    Drain,
    /// Stop what runs.
    Now,
}

/// How a daemon ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Stopped {
        /// Runs that were interrupted.
        interrupted: usize,
        /// Runs whose last reports the server doesn't have yet; the next start delivers them.
        undelivered: usize,
    },
    /// A newer process of the same daemon has registered.
    Superseded,
}

/// A daemon can't go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Another process has its state directory.
    #[error("another daemon of this profile runs (pid {pid})", pid = .pid.map_or_else(|| "unknown".to_owned(), |p| p.to_string()))]
    AlreadyRunning {
        /// Which, where it is known.
        pid: Option<u32>,
    },
    /// Its state directory can't be used.
    #[error("can't use {path}")]
    State {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// No local port is free.
    #[error("no local port from {first} on is free")]
    Port {
        /// The first one tried.
        first: u16,
        /// Why the last one wasn't.
        #[source]
        source: std::io::Error,
    },
    /// The own executable can't be found or copied.
    #[error("can't make the executable available to other accounts")]
    Executable(#[source] std::io::Error),
    /// The server refuses the daemon for good.
    #[error("the server refuses this daemon")]
    Refused(#[source] ClientError),
    /// The workspace asked for isn't one of the token's.
    #[error("workspace `{0}` isn't one that this token can use")]
    Workspace(String),
    /// The token has no workspace.
    #[error("this token has no workspace")]
    NoWorkspace,
}

impl DaemonError {
    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::AlreadyRunning { .. } => {
                "Look at it: `multica daemon status`; stop it: `multica daemon stop`."
            }
            Self::State { .. } => "Check the path and its permissions.",
            Self::Port { .. } => "Name a free one: `multica daemon start --health-port PORT`.",
            Self::Executable(_) => {
                return format!("Check that {} can be written.", super::host::system_dir().display());
            }
            Self::Refused(ClientError::Refused(refused)) if !refused.next_step.is_empty() => {
                &refused.next_step
            }
            Self::Refused(_) => "Sign in again: `multica login --token TOKEN`.",
            Self::Workspace(_) | Self::NoWorkspace => "List them: `multica workspace list`.",
        }
        .to_owned()
    }
}
