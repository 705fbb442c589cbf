//! Sole spawner of git.
//!
//! Invariants: every call is made as the owner of the repository, with a cleared environment, without
//! hooks, monitors, prompts, signatures or housekeeping, and ends after a bounded time; names are bytes.
//! Reading takes no lock of the user's.

mod sample;
pub mod state;
mod tags;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::process::child::{Cwd, Exit, Output, Spawn, find_program};

/// What every call gets before its own arguments.
const HARDENED: [&str; 7] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgsign=false",
    "advice.addEmbeddedRepo=false",
    "core.untrackedCache=keep",
];

/// Why git couldn't be asked.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It isn't installed for this account.
    #[error("git can't be started")]
    Start(#[source] io::Error),
    /// Its output couldn't be read.
    #[error("git's answer can't be read")]
    Read(#[source] io::Error),
    /// It said no.
    #[error("git refused `{step}`")]
    Refused {
        /// The step.
        step: String,
    },
    /// It took too long.
    #[error("git took longer than {0:?}")]
    Timeout(Duration),
}

/// As whom and how git runs.
#[derive(Debug, Clone)]
pub struct Git {
    /// The account's home, where its configuration is.
    pub home: String,
    /// Where programs are found.
    pub path: String,
    /// The bound of one call.
    pub timeout: Duration,
}

/// What git answered, up to a bound.
#[derive(Debug)]
pub(crate) struct Answer {
    /// How it ended; none when it was cut off at the bound.
    pub exit: Option<Exit>,
    /// The head of its output.
    pub stdout: Vec<u8>,
}

impl Git {
    /// Asks git in a directory; reads at most `max` bytes.
    pub(crate) async fn read(
        &self,
        directory: &File,
        arguments: &[&str],
        max: usize,
    ) -> Result<Answer, GitError> {
        let spawn = self.spawn(directory, arguments).map_err(GitError::Start)?;
        let mut running = spawn.start().map_err(GitError::Start)?;
        let asked = async {
            let mut stdout = Vec::new();
            if let Some(pipe) = running.stdout.take() {
                // One byte more than asked for tells "all of it" from "cut off".
                let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
                pipe.take(limit).read_to_end(&mut stdout).await.map_err(GitError::Read)?;
            }
            if stdout.len() > max {
                stdout.truncate(max);
                return Ok(Answer { exit: None, stdout });
            }
            let exit = running.wait().await.map_err(GitError::Read)?;
            Ok(Answer { exit: Some(exit), stdout })
        };
        let answer = tokio::time::timeout(self.timeout, asked).await;
        answer.unwrap_or(Err(GitError::Timeout(self.timeout)))
    }

    fn spawn(&self, directory: &File, arguments: &[&str]) -> io::Result<Spawn> {
        let cwd = Cwd::Handle(directory.as_fd().try_clone_to_owned()?);
        let mut spawn = Spawn::new(find_program("git", &self.path)?, cwd);
        for setting in HARDENED {
            spawn.arguments.extend([OsString::from("-c"), OsString::from(setting)]);
        }
        spawn.arguments.extend(arguments.iter().map(OsString::from));
        let fixed = [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_EDITOR", "true"),
            ("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
            ("LC_ALL", "C"),
            ("HOME", &self.home),
            ("PATH", &self.path),
        ];
        spawn.environment = fixed.map(|(name, value)| (name.into(), value.into())).to_vec();
        spawn.stderr = Output::Null;
        spawn.bound = true;
        Ok(spawn)
    }
}
