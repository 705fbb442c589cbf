//! Speaking to the daemon of a profile from another process: is it there, start it, stop it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use secrecy::SecretString;
use serde_json::{Value, json};

use super::state::{LocalState, StateDir, read_json};
use crate::client::api::{Api, Connection, Past, Written};
use crate::client::error::ClientError;
use crate::kernel::limits::Limits;
use crate::process::child::{Cwd, Output, Spawn};
use crate::process::lock;

/// The local daemon can't be reached, started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It doesn't answer.
    #[error("the local daemon doesn't answer")]
    Call(#[source] ClientError),
    /// It can't be started.
    #[error("can't start the daemon")]
    Start(#[source] std::io::Error),
    /// A file of its state can't be used.
    #[error("can't use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It lives, and its local port doesn't answer.
    #[error("the daemon (pid {pid}) doesn't answer yet")]
    Silent {
        /// Its process.
        pid: u32,
    },
    /// It ended instead of starting.
    #[error("the daemon ended at once{why}", why = .last_line.as_deref().map(|line| format!(" ({line})")).unwrap_or_default())]
    EndedAtOnce {
        /// The last line of its log.
        last_line: Option<String>,
        /// The log.
        log: PathBuf,
    },
    /// It runs already.
    #[error("the daemon runs already (pid {pid})")]
    Runs {
        /// Its process.
        pid: u32,
    },
    /// It lives, and what it has written down for us can't be read.
    #[error("a daemon runs{process}, but {path} can't be read", process = .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Unreadable {
        /// Its process, where the kernel says it.
        pid: Option<u32>,
        /// The file.
        path: PathBuf,
    },
    /// Server and database would end with it.
    #[error("this daemon is part of `multica up` (pid {pid}), which would end with it")]
    PartOfUp {
        /// Its process.
        pid: u32,
    },
    /// Its server would start with `multica up`, which it would keep from starting.
    #[error("this profile's daemon and server belong to `multica up`, which doesn't run")]
    BelongsToUp {
        /// The line that starts all of it.
        command: String,
    },
    /// It is still there.
    #[error("the daemon (pid {pid}) is still stopping")]
    StillStopping {
        /// Its process.
        pid: u32,
    },
}

impl ControlError {
    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::Call(_) | Self::Silent { .. } => "Look at its log: `multica daemon logs`.".to_owned(),
            Self::Start(_) | Self::File { .. } => "Check the path and its permissions.".to_owned(),
            Self::EndedAtOnce { log, .. } => format!("Its log says why: {}", log.display()),
            Self::Unreadable { pid, .. } => {
                let pid = pid.map_or_else(|| "its process id".to_owned(), |pid| pid.to_string());
                format!(
                    "Stop it with `kill {pid}`, as Ctrl-C would; then start it again: `multica daemon start`."
                )
            }
            Self::Runs { .. } => "Look at it: `multica daemon status`.".to_owned(),
            Self::PartOfUp { pid } => {
                format!("Stop all of it: Ctrl-C in its terminal, or `kill -INT {pid}`.")
            }
            Self::BelongsToUp { command } => format!("Start all of it: `{command}`."),
            Self::StillStopping { .. } => {
                "Ask again, or don't wait for its tasks: `multica daemon stop --now`.".to_owned()
            }
        }
    }
}

/// A daemon that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Its process and port.
    pub local: LocalState,
    /// Whether the server knows of it; otherwise it goes on trying.
    pub registered: bool,
}

/// The log of a daemon started in the background.
#[must_use]
pub fn log_path(state_dir: &Path) -> PathBuf {
    StateDir(state_dir.to_owned()).log()
}

/// What the daemon says of itself; none when it doesn't run.
///
/// # Errors
/// When it runs and doesn't answer.
pub async fn status(state_dir: &Path, limits: &Limits) -> Result<Option<Value>, ControlError> {
    let Some(local) = found(state_dir, limits).await? else { return Ok(None) };
    let api = local_api(&local)?;
    api.get("/health").await.map(Some).map_err(ControlError::Call)
}

/// Asks the daemon to stop and waits until it is gone. False: it wasn't there.
///
/// # Errors
/// When it is part of `multica up`, doesn't answer, or takes longer than its drain allows.
pub async fn stop(state_dir: &Path, now: bool, limits: &Limits) -> Result<bool, ControlError> {
    let Some(local) = found(state_dir, limits).await? else { return Ok(false) };
    if local.part_of_up {
        return Err(ControlError::PartOfUp { pid: local.pid });
    }
    let answer: Value = match local_api(&local)?.post("/shutdown", &json!({"now": now})).await {
        Ok(answer) => answer,
        Err(_) if !is_held(state_dir) => return Ok(true),
        Err(error) => return Err(ControlError::Call(error)),
    };
    let patience = Duration::from_millis(answer["at_most_ms"].as_u64().unwrap_or(120_000));
    let gone = async {
        while is_held(state_dir) {
            tokio::time::sleep(limits.look.duration()).await;
        }
    };
    match tokio::time::timeout(patience, gone).await {
        Ok(()) => Ok(true),
        Err(_) => Err(ControlError::StillStopping { pid: local.pid }),
    }
}

/// Starts this program again as a daemon, apart from this terminal, and waits until it answers.
///
/// # Errors
/// When it runs already, can't be started, or ends at once.
pub async fn start_background(
    state_dir: &Path,
    arguments: Vec<String>,
    limits: &Limits,
) -> Result<Started, ControlError> {
    if let Some(local) = found(state_dir, limits).await? {
        return Err(ControlError::Runs { pid: local.pid });
    }
    let said = StateDir(state_dir.to_owned()).error_log();
    let file_error = |source| ControlError::File { path: said.clone(), source };
    std::fs::create_dir_all(state_dir).map_err(file_error)?;
    // Fresh with each start: its log is another file, which it opens itself.
    let printed = File::create(&said).map_err(file_error)?;
    let program = std::env::current_exe().map_err(ControlError::Start)?;
    let mut spawn = Spawn::new(program, Cwd::Path(PathBuf::from("/")));
    spawn.arguments = arguments.into_iter().map(Into::into).collect();
    spawn.environment = std::env::vars_os().collect();
    spawn.stdout = Output::File(printed.try_clone().map_err(file_error)?);
    spawn.stderr = Output::File(printed);
    let mut child = spawn.start().map_err(ControlError::Start)?;
    let pid = child.pid;
    let answers = async {
        let mut first = None;
        loop {
            if let Some(local) = running(state_dir).filter(|local| local.pid == pid)
                && let Ok(health) = local_api(&local)?.get::<Value>("/health").await
            {
                let registered = health["workspaces"].as_array().is_some_and(|list| !list.is_empty());
                if registered
                    || first.get_or_insert_with(Instant::now).elapsed() > limits.introduction.duration()
                {
                    return Ok(Started { local, registered });
                }
            }
            tokio::time::sleep(limits.look.duration()).await;
        }
    };
    let ended = || {
        let text = std::fs::read_to_string(&said).unwrap_or_default();
        let error = text.lines().find_map(|line| line.strip_prefix("error: "));
        let why = error.or_else(|| text.lines().last()).map(str::to_owned);
        let log = if why.is_some() { said.clone() } else { log_path(state_dir) };
        ControlError::EndedAtOnce { last_line: why, log }
    };
    tokio::select! {
        started = answers => started,
        _ = child.wait() => Err(ended()),
        () = tokio::time::sleep(limits.http_timeout.duration()) => Err(ControlError::Silent { pid }),
    }
}

/// The daemon's local state; none when none runs.
async fn found(state_dir: &Path, limits: &Limits) -> Result<Option<LocalState>, ControlError> {
    let since = Instant::now();
    while is_held(state_dir) {
        if let Some(local) = running(state_dir) {
            return Ok(Some(local));
        }
        // At its very start, and at its very end, it has its lock and no file.
        if since.elapsed() > limits.settle_in.duration() {
            let state = StateDir(state_dir.to_owned());
            let pid = File::open(state.lock_file()).ok().and_then(|lock| lock::holder(&lock).pid);
            return Err(ControlError::Unreadable { pid, path: state.local() });
        }
        tokio::time::sleep(limits.look.duration()).await;
    }
    Ok(None)
}

/// The running daemon's local state; none when its lock is free or its file can't be read.
fn running(state_dir: &Path) -> Option<LocalState> {
    is_held(state_dir).then(|| read_json(&StateDir(state_dir.to_owned()).local()))?
}

fn is_held(state_dir: &Path) -> bool {
    let Ok(lock) = File::open(StateDir(state_dir.to_owned()).lock_file()) else { return false };
    // A shared try, so that two who look don't take each other for the daemon.
    matches!(lock.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
}

fn local_api(local: &LocalState) -> Result<Api, ControlError> {
    Api::new(&Connection {
        server_url: format!("http://127.0.0.1:{}", local.port),
        token: Some(SecretString::from(local.token.clone())),
        workspace: None,
        platform: "cli",
        run: None,
        limits: Limits::default(),
        written: Written::default(),
        past: Past::default(),
    })
    .map_err(ControlError::Call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::limits::Millis;

    #[tokio::test]
    async fn a_daemon_whose_file_is_damaged_is_not_called_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        let limits = Limits { settle_in: Millis(200), ..Limits::default() };
        assert!(matches!(status(folder.path(), &limits).await, Ok(None)));
        let state = StateDir(folder.path().to_owned());
        let lock = File::create(state.lock_file()).expect("a lock");
        lock.try_lock().expect("taken");
        std::fs::write(state.local(), "{\"pid\":").expect("written");
        let looked = status(folder.path(), &limits).await.map(drop);
        for answer in [looked, stop(folder.path(), true, &limits).await.map(drop)] {
            let error = answer.expect_err("it runs");
            assert!(matches!(error, ControlError::Unreadable { pid: Some(_), .. }), "{error:?}");
            assert!(error.next_step().contains(&format!("`kill {}`", std::process::id())));
        }
        drop(lock);
        assert!(matches!(stop(folder.path(), true, &limits).await, Ok(false)));
    }

    #[tokio::test]
    async fn a_daemon_inside_up_is_not_stopped_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir(folder.path().to_owned());
        let lock = File::create(state.lock_file()).expect("a lock");
        lock.try_lock().expect("taken");
        let local = LocalState { pid: 7, port: 1, token: String::new(), part_of_up: true };
        std::fs::write(state.local(), serde_json::to_vec(&local).expect("JSON")).expect("written");
        let error = stop(folder.path(), true, &Limits::default()).await.expect_err("it is refused");
        assert!(matches!(error, ControlError::PartOfUp { pid: 7 }), "{error:?}");
        assert!(error.next_step().contains("`kill -INT 7`"));
    }
}
