//! Going on in the work directory of an earlier run of the same conversation, where it was in an env root.
//!
//! Invariants: only a directory that was made for the same agent, issue and workspace, beside the run's own
//! env root and reached without a link; its env root is locked as long as the run has it; whatever doesn't
//! fit means a fresh directory, never a failed run.
//!
//! Not here: directories of people (`directory`), which are never looked for but granted.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::env_root::LOCK;
use crate::kernel::ids::{AgentId, IssueId, WorkspaceId};
use crate::process::lock::{self, Lock, Try};
use crate::process::safe_file::{Beneath, write_atomic};
use crate::wire::daemon::Assignment;

/// Says in an env root whose conversation its work directory belongs to.
const ORIGIN: &str = ".managed_env.json";
const MANAGED_BY: &str = "multica-daemon-managed-env";
const WORK_DIRECTORY: &str = "workdir";
/// The longest such file, bytes.
const ORIGIN_BYTES: u64 = 4_096;

/// Whose conversation a work directory belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    managed_by: String,
    workspace_id: WorkspaceId,
    issue_id: IssueId,
    agent_id: AgentId,
}

impl Origin {
    /// That of an assignment.
    #[must_use]
    pub fn of(assignment: &Assignment) -> Self {
        Self {
            managed_by: MANAGED_BY.to_owned(),
            workspace_id: assignment.workspace_id,
            issue_id: assignment.issue_id,
            agent_id: assignment.agent_id,
        }
    }

    /// Notes it in the env root whose work directory it is.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn note(&self, env_root: &Path) -> io::Result<()> {
        write_atomic(&env_root.join(ORIGIN), &serde_json::to_vec(self)?, 0o644)
    }
}

/// The work directory of an earlier run, and its env root's lock.
#[derive(Debug)]
pub struct Prior {
    path: PathBuf,
    handle: File,
    _lock: Lock,
}

impl Prior {
    /// Takes it for a run with that env root of its own; none when anything about it doesn't fit.
    #[must_use]
    pub fn take(path: &Path, env_root: &Path, origin: &Origin) -> Option<Self> {
        let root = path.parent()?;
        let beside = env_root.parent()?;
        let key = root.file_name()?.to_str()?;
        if path.file_name()? != WORK_DIRECTORY || root.parent()? != beside || root == env_root {
            return None;
        }
        // One handle leads to the lock, the note and the directory, whatever becomes of names meanwhile.
        let all = Beneath::of(&lock::open_directory(beside).ok()?).ok()?;
        let root = Beneath::of(&all.open_directory(key).ok()?).ok()?;
        let Try::Taken(lock) = lock::try_handle(root.open_existing(LOCK).ok()?).ok()? else { return None };
        let noted = root.read(ORIGIN, ORIGIN_BYTES).ok()?;
        if serde_json::from_slice::<Origin>(&noted).ok()? != *origin {
            return None;
        }
        let handle = root.open_directory(WORK_DIRECTORY).ok()?;
        Some(Self { path: path.to_path_buf(), handle, _lock: lock })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It, opened once more.
    ///
    /// # Errors
    /// When it can't be.
    pub fn open(&self) -> io::Result<File> {
        lock::reopen(&self.handle)
    }
}
