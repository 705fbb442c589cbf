//! The files of a daemon's state directory, and who may write them.
//!
//! ```text
//! daemon.lock                     held as long as the process lives: one daemon a profile
//! daemon.json   0600              pid, port and token of the local port
//! daemon.log                      when started in the background, with daemon.log.1 and older
//! daemon.err.log                  what such a start printed beside its log
//! tasks/<task>-<generation>.pending     a claim whose run isn't recorded yet: given back after a crash
//! tasks/<task>-<generation>.json        the run, written before it is started
//! tasks/<task>-<generation>.lock        held by its supervisor
//! tasks/<task>-<generation>.charge      what its recovery needs, without secrets
//! tasks/<task>-<generation>.log         what its supervisor had to say
//! tasks/<task>-<generation>.delivered   up to where the server has its reports and its transcript
//! ```

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::client::config::write_private_io;
use crate::kernel::ids::TaskId;
use crate::process::safe_file;

/// More than any file of the state has, bytes: an assignment fits one answer of the server.
const FILE_BYTES: u64 = 64 * 1_024 * 1_024;

/// `daemon.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalState {
    /// The process.
    pub pid: u32,
    /// Its local port.
    pub port: u16,
    /// What its control asks for.
    pub token: String,
    /// It runs inside `multica up`, whose other parts would end with it.
    #[serde(default)]
    pub part_of_up: bool,
}

/// `tasks/….delivered`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Delivered {
    /// The last report the server has.
    pub ordinal: u64,
    /// The last transcript message the server has.
    pub seq: i64,
    /// The server has the run's end.
    #[serde(default)]
    pub ended: bool,
    /// The server wants nothing more of this run.
    #[serde(default)]
    pub closed: bool,
}

/// One claim of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    /// The task.
    pub task: TaskId,
    /// Its claim.
    pub generation: u32,
}

/// The state directory.
#[derive(Debug, Clone)]
pub struct StateDir(pub PathBuf);

impl StateDir {
    pub fn lock_file(&self) -> PathBuf {
        self.0.join("daemon.lock")
    }

    pub fn local(&self) -> PathBuf {
        self.0.join("daemon.json")
    }

    pub fn log(&self) -> PathBuf {
        self.0.join("daemon.log")
    }

    pub fn error_log(&self) -> PathBuf {
        self.0.join("daemon.err.log")
    }

    pub fn tasks(&self) -> PathBuf {
        self.0.join("tasks")
    }

    /// A file of a run.
    pub fn of_run(&self, run: RunId, kind: &str) -> PathBuf {
        self.tasks().join(format!("{}-{}.{kind}", run.task, run.generation))
    }

    /// Removes copies that a killed daemon was still writing. They never counted.
    pub fn clear_unfinished(&self) {
        for path in unfinished(&self.0).chain(unfinished(&self.tasks())) {
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(file = %path.display(), error = %error, "can't remove an unfinished file");
            }
        }
    }

    /// The recorded runs, oldest first.
    pub fn runs(&self) -> io::Result<Vec<RunId>> {
        self.named(".json")
    }

    /// The claims whose runs aren't recorded yet, oldest first.
    pub fn pending(&self) -> io::Result<Vec<RunId>> {
        self.named(".pending")
    }

    fn named(&self, suffix: &str) -> io::Result<Vec<RunId>> {
        let entries = match std::fs::read_dir(self.tasks()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(error),
        };
        let mut runs = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            runs.extend(name.strip_suffix(suffix).and_then(RunId::parse));
        }
        runs.sort_unstable();
        Ok(runs)
    }

    /// Forgets a run: the record last, so that a crash on the way leaves it recorded.
    pub fn forget(&self, run: RunId) -> io::Result<()> {
        for kind in ["pending", "charge", "delivered", "log", "lock", "json"] {
            match std::fs::remove_file(self.of_run(run, kind)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

impl RunId {
    /// Reads it as its files are named: `<task>-<generation>`.
    pub fn parse(name: &str) -> Option<Self> {
        let (task, generation) = name.rsplit_once('-')?;
        Some(Self { task: task.parse().ok()?, generation: generation.parse().ok()? })
    }
}

/// What a kill in the middle of a write left in the folder; only its one writer may call this, before it
/// writes itself.
fn unfinished(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    // As `write_private` names them: `.<name>.<uuid>`.
    entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let unique = name.strip_prefix('.').and_then(|rest| rest.rsplit_once('.')).map(|(_, last)| last);
        unique.is_some_and(|last| last.len() == 32 && last.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}

/// Reads a JSON file; none where it is missing or can't be read as one.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&safe_file::read_own(path, FILE_BYTES).ok()?).ok()
}

/// Writes a JSON file whole and durably.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write_private_io(path, &serde_json::to_vec(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_runs_are_found_again_and_nothing_else_is_taken_for_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir(folder.path().to_owned());
        assert_eq!(state.runs().expect("read"), vec![]);
        let run = RunId { task: TaskId(uuid::Uuid::now_v7()), generation: 3 };
        write_json(&state.of_run(run, "json"), &1).expect("written");
        write_json(&state.of_run(run, "delivered"), &Delivered::default()).expect("written");
        std::fs::write(state.tasks().join("notes.json"), "x").expect("written");
        assert_eq!(state.runs().expect("read"), vec![run]);
        state.forget(run).expect("forgotten");
        assert_eq!(state.runs().expect("read"), vec![]);
    }

    #[test]
    fn what_a_kill_in_the_middle_of_a_write_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateDir(folder.path().to_owned());
        let run = RunId { task: TaskId(uuid::Uuid::now_v7()), generation: 1 };
        write_json(&state.of_run(run, "json"), &1).expect("written");
        let copy = |name: &str| format!(".{name}.{}", uuid::Uuid::now_v7().simple());
        std::fs::write(state.tasks().join(copy("x.delivered")), "{").expect("written");
        std::fs::write(folder.path().join(copy("daemon.json")), "{").expect("written");
        std::fs::write(folder.path().join(".keep.me"), "").expect("written");
        state.clear_unfinished();
        let left = |folder: &Path| std::fs::read_dir(folder).expect("read").count();
        assert_eq!((left(&state.tasks()), left(folder.path())), (1, 2));
        assert!(folder.path().join(".keep.me").exists());
    }
}
