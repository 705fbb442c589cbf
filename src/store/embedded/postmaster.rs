//! The server process: is it alive, start it, stop it.
//!
//! Invariants: `postmaster.pid` is removed only by the holder of our lock, when its process is no live
//! server of this directory and nobody works in the directory any more.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tokio_postgres::{Config, NoTls};

use super::cluster::{self, Layout};
use super::error::EmbeddedError;
use super::find::Programs;
use crate::process::account::Account;
use crate::process::pg::{self, Presence, Stop};

/// A clean stop may take this long; then sessions are cut.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks at a server that starts or stops.
const LOOK: Duration = Duration::from_millis(10);

/// The process id of the live server of that data directory.
#[must_use]
pub fn alive(data: &Path) -> Option<i32> {
    let pid = recorded(data)?;
    (pg::presence(pid, data) == Presence::Alive).then_some(pid)
}

fn recorded(data: &Path) -> Option<i32> {
    fs::read_to_string(data.join("postmaster.pid")).ok()?.lines().next()?.trim().parse().ok()
}

/// Stops the server of that data directory; `reap` is called while it ends.
///
/// # Errors
/// [`EmbeddedError::File`] when it can't be signalled.
pub async fn stop(data: &Path, reap: impl Fn()) -> Result<(), EmbeddedError> {
    let Some(pid) = alive(data) else { return Ok(()) };
    let failed = |source| EmbeddedError::File { action: "stop the server of", path: data.to_owned(), source };
    pg::stop(pid, Stop::Fast).map_err(failed)?;
    let started = Instant::now();
    let mut cut = false;
    loop {
        reap();
        if pg::presence(pid, data) == Presence::Gone {
            return Ok(());
        }
        if !cut && started.elapsed() > STOP_PATIENCE {
            cut = true;
            pg::stop(pid, Stop::Immediate).map_err(failed)?;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// One start.
pub struct Start<'a> {
    /// Its files.
    pub layout: &'a Layout,
    /// Its programs.
    pub programs: &'a Programs,
    /// Its account.
    pub account: &'a Account,
    /// Whether acknowledged means on disk.
    pub durable: bool,
    /// How long it may take until it answers.
    pub patience: Duration,
    /// A connection that shows that it answers.
    pub probe: Config,
    /// Reaps an earlier child of ours: as a zombie it would still look like a running server.
    pub reap: &'a (dyn Fn() + Sync),
}

impl Start<'_> {
    /// Brings the server up; the child when it is a new one, and whether a living one was reused.
    ///
    /// # Errors
    /// [`EmbeddedError::NoAnswer`] after the patience, with the end of the log.
    pub async fn run(&self) -> Result<(Option<Child>, bool), EmbeddedError> {
        let deadline = Instant::now() + self.patience;
        let data = &self.layout.data;
        let mut child: Option<Child> = None;
        let mut reused = true;
        loop {
            (self.reap)();
            if child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
                // It ended at once: its lock file or shared memory still looks taken.
                child = None;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            if child.is_none() && alive(data).is_none() {
                self.clear_stale()?;
                child = Some(self.spawn()?);
                reused = false;
            }
            if self.answers().await && alive(data).is_some() {
                return Ok((child, reused));
            }
            if Instant::now() > deadline {
                return Err(EmbeddedError::NoAnswer {
                    log: self.layout.log.clone(),
                    said: cluster::tail(&fs::read(&self.layout.log).unwrap_or_default()),
                });
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Removes what a dead server left where another process' number, or a zombie's, would keep it valid.
    fn clear_stale(&self) -> Result<(), EmbeddedError> {
        if recorded(&self.layout.data).is_none() || pg::anyone_works_in(&self.layout.data) {
            return Ok(());
        }
        let socket_lock = self.layout.run.join(".s.PGSQL.5432.lock");
        for path in [self.layout.data.join("postmaster.pid"), socket_lock] {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(EmbeddedError::File { action: "remove", path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn spawn(&self) -> Result<Child, EmbeddedError> {
        let log_failed =
            |source| EmbeddedError::File { action: "write", path: self.layout.log.clone(), source };
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.layout.log)
            .map_err(log_failed)?;
        let errors = log.try_clone().map_err(log_failed)?;
        let mut command = cluster::as_account(&self.programs.bin.join("postgres"), self.account);
        command.arg("-D").arg(&self.layout.data).arg("-k").arg(&self.layout.run);
        for setting in self.settings() {
            command.arg("-c").arg(setting);
        }
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        pg::own_session(&mut command);
        command.spawn().map_err(|source| EmbeddedError::File {
            action: "run",
            path: self.programs.bin.join("postgres"),
            source,
        })
    }

    fn settings(&self) -> Vec<&'static str> {
        let mut settings = vec![
            "listen_addresses=",
            "unix_socket_permissions=0700",
            "timezone=UTC",
            "log_timezone=UTC",
            "max_connections=200",
        ];
        if self.durable {
            settings.extend(["fsync=on", "full_page_writes=on", "synchronous_commit=on"]);
        } else {
            // A commit still reaches the kernel before it is acknowledged: what a power failure would lose,
            // a killed server must not.
            settings.extend(["fsync=off", "full_page_writes=off", "synchronous_commit=on", "autovacuum=off"]);
        }
        settings
    }

    async fn answers(&self) -> bool {
        let connected = tokio::time::timeout(Duration::from_secs(5), self.probe.connect(NoTls)).await;
        matches!(connected, Ok(Ok(_)))
    }
}
