//! The env root: `{work root}/{workspace}/{task key}`, all that belongs to one task and to nobody else.
//!
//! Invariants: the lock decides who has it, not the existence of a directory; what is there goes only for
//! the task that owns it, and never `.task_owner`, `.task_lock` or `runs/`; content without an owner stays.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::kernel::ids::TaskId;
use crate::process::lock::{self, Lock, Try};
use crate::process::safe_file;

const OWNER: &str = ".task_owner";
/// The file on which an env root's lock lies.
pub(super) const LOCK: &str = ".task_lock";
const RUNS: &str = "runs";

/// Why an env root can't be had.
#[derive(Debug, thiserror::Error)]
pub enum EnvRootError {
    /// A live execution has it.
    #[error("a live execution (pid {}) owns the env root", .pid.map_or("unknown".to_owned(), |pid| pid.to_string()))]
    Busy {
        /// Its process, where known.
        pid: Option<u32>,
    },
    /// Another task owns it.
    #[error("the env root belongs to task {owner}")]
    Foreign {
        /// That task.
        owner: String,
    },
    /// It has content and no owner is recorded.
    #[error("the env root holds files and no owner is recorded")]
    NoOwner,
    /// The system refused.
    #[error("cannot {what} {}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A claimed env root; dropping it gives it up.
#[derive(Debug)]
pub struct EnvRoot {
    path: PathBuf,
    _lock: Lock,
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> EnvRootError {
    let path = path.to_path_buf();
    move |source| EnvRootError::Io { what, path, source }
}

/// Makes an env root for another account, as root: the directories above stay root's.
///
/// # Errors
/// [`EnvRootError::Io`].
pub fn make_for(path: &Path, uid: u32, gid: u32) -> Result<(), EnvRootError> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o711).create(parent).map_err(io("make", parent))?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => safe_file::give_to(path, uid, gid).map_err(io("give away", path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(io("make", path)(error)),
    }
}

impl EnvRoot {
    /// Takes it for a run: what an earlier run left is cleared.
    ///
    /// # Errors
    /// [`EnvRootError`].
    pub fn claim(path: &Path, task: TaskId) -> Result<Self, EnvRootError> {
        let claimed = Self::reclaim(path, task)?;
        claimed.clear()?;
        Ok(claimed)
    }

    /// Takes it for recovery: nothing is cleared. A run that died before it owned anything is adopted.
    ///
    /// # Errors
    /// [`EnvRootError`].
    pub fn reclaim(path: &Path, task: TaskId) -> Result<Self, EnvRootError> {
        DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(io("make", path))?;
        let claimed = Self::lock(path)?;
        match read_owner(path)? {
            Some(owner) if owner == task.to_string() => {}
            Some(owner) => return Err(EnvRootError::Foreign { owner }),
            None if is_bare(path)? => {
                let file = path.join(OWNER);
                safe_file::write_atomic(&file, task.to_string().as_bytes(), 0o644)
                    .map_err(io("write", &file))?;
            }
            None => return Err(EnvRootError::NoOwner),
        }
        Ok(claimed)
    }

    fn lock(path: &Path) -> Result<Self, EnvRootError> {
        let file = path.join(LOCK);
        match lock::try_file(&file).map_err(io("lock", &file))? {
            Try::Taken(lock) => Ok(Self { path: path.to_path_buf(), _lock: lock }),
            Try::Busy(seen) => Err(EnvRootError::Busy { pid: lock::holder(&seen).pid }),
        }
    }

    fn clear(&self) -> Result<(), EnvRootError> {
        for entry in fs::read_dir(&self.path).map_err(io("list", &self.path))? {
            let entry = entry.map_err(io("list", &self.path))?;
            if is_bookkeeping(&entry.file_name().to_string_lossy()) {
                continue;
            }
            let path = entry.path();
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(io("remove", &path))?;
        }
        Ok(())
    }

    /// Makes its folders.
    ///
    /// # Errors
    /// [`EnvRootError::Io`].
    pub fn lay_out(&self, managed: bool) -> Result<(), EnvRootError> {
        let mut folders = vec![("output", 0o755), ("logs", 0o755), ("multica-config", 0o700), ("tmp", 0o700)];
        if managed {
            folders.push(("workdir", 0o755));
        }
        for (name, mode) in folders {
            let path = self.path.join(name);
            DirBuilder::new().recursive(true).mode(mode).create(&path).map_err(io("make", &path))?;
            // One that is there already keeps its mode, and a narrow umask takes from the others'.
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))
                .map_err(io("set the mode of", &path))?;
        }
        Ok(())
    }

    /// The folder of one claim's journal and reports, made if missing.
    ///
    /// # Errors
    /// [`EnvRootError::Io`].
    pub fn run_folder(&self, generation: u32) -> Result<PathBuf, EnvRootError> {
        let path = self.path.join(RUNS).join(generation.to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(io("make", &path))?;
        safe_file::sync_directory(&self.path.join(RUNS)).map_err(io("sync", &path))?;
        Ok(path)
    }

    /// The folders of all claims.
    ///
    /// # Errors
    /// [`EnvRootError::Io`].
    pub fn run_folders(&self) -> Result<Vec<PathBuf>, EnvRootError> {
        let runs = self.path.join(RUNS);
        let Ok(entries) = fs::read_dir(&runs) else { return Ok(Vec::new()) };
        entries.map(|entry| entry.map(|e| e.path()).map_err(io("list", &runs))).collect()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn is_bookkeeping(name: &str) -> bool {
    name == OWNER || name == LOCK || name == RUNS || name.starts_with("..task_owner.")
}

fn is_bare(path: &Path) -> Result<bool, EnvRootError> {
    for entry in fs::read_dir(path).map_err(io("list", path))? {
        let name = entry.map_err(io("list", path))?.file_name();
        let name = name.to_string_lossy();
        if name == RUNS || !is_bookkeeping(&name) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A missing and a torn owner file are the same: nobody is recorded.
fn read_owner(path: &Path) -> Result<Option<String>, EnvRootError> {
    let file = path.join(OWNER);
    match safe_file::read_bounded(&file, 4_096) {
        Ok(bytes) => {
            Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|text| !text.is_empty()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io("read", &file)(error)),
    }
}
