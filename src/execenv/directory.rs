//! Looks at a `local_directory`: may agents work there, and what is it?
//!
//! Runs in a short process of its own (`__inspect-directory`), which becomes the directory's owner before
//! it opens anything: root only looks names up. The order of the checks is a contract, because it decides
//! which of several refusals people see.
//!
//! Invariants: no name ever appears in the directory; every refusal has a code, a sentence and a next step.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::domain::resource::local_directory::PathRefusal;
use crate::domain::resource::local_directory::path::{
    OwnFolder, PathFacts, check, check_real, protected_entries,
};
use crate::domain::task::GitState;
use crate::git::Git;
use crate::kernel::limits::Limits;
use crate::process::owner::Owner;
use crate::process::{identity, lock, owner, safe_file};

/// Accounts below this number are the system's.
const FIRST_PERSON: u32 = 1_000;

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspect {
    /// The path as attached.
    pub path: String,
    /// The daemon account's home.
    pub home: String,
    /// The daemon's own folders: work root, state, data, installation.
    pub own_folders: Vec<String>,
    /// Directories that the machine's configuration allows although the system's accounts own them.
    pub allowed_directories: Vec<String>,
    /// The bounds in force.
    pub limits: Limits,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Inspected {
    /// Agents may work there.
    Usable {
        /// The path as attached, cleaned: the agent's cwd.
        path: String,
        /// The real path; bytes that aren't UTF-8 are replaced.
        real_path: String,
        /// The real path's bytes, for the stream's id.
        real_path_bytes: Vec<u8>,
        /// Device of the inode.
        device: u64,
        /// The inode.
        inode: u64,
        /// The boot in which both were read.
        boot_id: String,
        /// As whom to work there; none when that is the daemon's own account.
        owner: Option<Owner>,
        /// Git's state, where there is a work tree.
        git: Option<GitState>,
        /// Whether runs can be isolated in worktrees.
        can_isolate: bool,
    },
    /// They may not.
    Refused {
        /// Stable code.
        code: String,
        /// The failure reason of a task that meets it.
        failure_reason: String,
        /// What is wrong.
        sentence: String,
        /// What to do now.
        next_step: String,
    },
}

/// What a look can end with besides an answer.
#[derive(Debug, thiserror::Error)]
enum LookError {
    /// The directory can't be used.
    #[error("{}", .0.sentence())]
    Refused(PathRefusal),
    /// The machine itself failed.
    #[error("the directory can't be inspected")]
    Machine(#[source] io::Error),
}

impl From<PathRefusal> for LookError {
    fn from(refusal: PathRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl LookError {
    fn answer(&self) -> Inspected {
        let (code, failure_reason, next_step) = match self {
            Self::Refused(refusal) => (refusal.code(), refusal.failure_reason(), refusal.next_step()),
            Self::Machine(_) => (
                "machine_error",
                "local_directory_error",
                "Look at the daemon's log on that machine.".to_owned(),
            ),
        };
        Inspected::Refused {
            code: code.to_owned(),
            failure_reason: failure_reason.to_owned(),
            sentence: crate::kernel::error_chain::Chain(self).to_string(),
            next_step,
        }
    }
}

/// Looks; as root, this process is the directory's owner afterwards, for good.
pub async fn inspect(request: &Inspect) -> Inspected {
    match look(request).await {
        Ok(found) => found,
        Err(error) => error.answer(),
    }
}

/// The hidden subcommand: [`Inspect`] as JSON in, [`Inspected`] as JSON out.
pub async fn main() -> ExitCode {
    let mut text = String::new();
    let request = io::stdin()
        .read_to_string(&mut text)
        .and_then(|_| serde_json::from_str::<Inspect>(&text).map_err(io::Error::from));
    let answer = match request {
        Ok(request) => inspect(&request).await,
        Err(source) => LookError::Machine(source).answer(),
    };
    match serde_json::to_writer(io::stdout(), &answer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

async fn look(request: &Inspect) -> Result<Inspected, LookError> {
    let mut facts = facts(request);
    let cleaned = check(&request.path, &facts)?;
    let path = PathBuf::from(&cleaned);
    let meta = fs::metadata(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => PathRefusal::DoesNotExist,
        // Something on the way is a file.
        io::ErrorKind::NotADirectory => PathRefusal::NotADirectory,
        _ => PathRefusal::StatFailed { errno: safe_file::errno_name(&error) },
    })?;
    if !meta.is_dir() {
        return Err(PathRefusal::NotADirectory.into());
    }
    let real = fs::canonicalize(&path)
        .map_err(|error| PathRefusal::SymlinkResolution { errno: safe_file::errno_name(&error) })?;
    let account = owner::find(meta.uid(), meta.gid());
    if account.uid >= FIRST_PERSON {
        facts.homes.extend(both(&account.home));
    }
    check_real(&request.path, &real.to_string_lossy(), &facts)?;
    let owner = take_owner(request, account, &real)?;
    let handle = open(&path, &meta)?;
    safe_file::probe_write(&handle).map_err(|_| PathRefusal::NotWritable)?;
    if let Err(error) = lock::reopen(&handle).and_then(lock::try_handle) {
        return Err(PathRefusal::NotLockable { errno: safe_file::errno_name(&error) }.into());
    }
    let boot_id = identity::boot_id().map_err(LookError::Machine)?;
    let home = owner.as_ref().map_or_else(|| request.home.clone(), |owner| owner.home.clone());
    let timeout = request.limits.git_timeout.duration();
    let git = Git { home, path: std::env::var("PATH").unwrap_or_default(), timeout };
    // A machine without git, or a repository git can't read in time, is a directory like any other.
    let tree = git.work_tree(&handle, request.limits.git_changed_paths).await.unwrap_or(None);
    Ok(Inspected::Usable {
        path: cleaned,
        real_path: real.display().to_string(),
        real_path_bytes: real.as_os_str().as_encoded_bytes().to_vec(),
        device: meta.dev(),
        inode: meta.ino(),
        boot_id,
        owner,
        can_isolate: tree.as_ref().is_some_and(|tree| tree.can_isolate),
        git: tree.map(|tree| tree.state),
    })
}

fn facts(request: &Inspect) -> PathFacts {
    let own = |folder: &String| {
        both(folder).into_iter().map(|path| OwnFolder { role: "multica", path }).collect::<Vec<_>>()
    };
    PathFacts {
        homes: both(&request.home),
        own_folders: request.own_folders.iter().flat_map(own).collect(),
        resolved_entries: protected_entries()
            .iter()
            .map(|entry| ((*entry).to_owned(), resolved(entry)))
            .filter(|(entry, leads_to)| entry != leads_to)
            .collect(),
    }
}

/// A path as it is spelled and as it resolves; nothing for one that says nothing (`/` is no home).
fn both(path: &str) -> Vec<String> {
    if !path.starts_with('/') || path == "/" {
        return Vec::new();
    }
    vec![path.to_owned(), resolved(path)]
}

fn resolved(path: &str) -> String {
    fs::canonicalize(path).map_or_else(|_| path.to_owned(), |real| real.display().to_string())
}

fn take_owner(request: &Inspect, account: Owner, real: &Path) -> Result<Option<Owner>, LookError> {
    if owner::current_uid() != 0 {
        return Ok(None);
    }
    if account.uid < FIRST_PERSON && !is_allowed(request, real) {
        let path = real.display().to_string();
        return Err(PathRefusal::OwnerNotAllowed { uid: account.uid, path }.into());
    }
    if account.uid == 0 {
        return Ok(None);
    }
    owner::become_account(account.uid, account.gid, &account.name)
        .map_err(|error| LookError::Machine(io::Error::other(error)))?;
    Ok(Some(account))
}

/// Entries as they are spelled come first: another one may lead to a file system that hangs, which is none of
/// this directory's business.
fn is_allowed(request: &Inspect, real: &Path) -> bool {
    let mut entries = request.allowed_directories.iter();
    entries.clone().any(|entry| real.starts_with(entry))
        || entries.any(|entry| real.starts_with(resolved(entry)))
}

fn open(path: &Path, seen: &fs::Metadata) -> Result<File, LookError> {
    let handle = lock::open_directory(path).map_err(|_| PathRefusal::NotReadable)?;
    if safe_file::device_and_inode(&handle).map_err(LookError::Machine)? != (seen.dev(), seen.ino()) {
        return Err(PathRefusal::Vanished.into());
    }
    // Listing is what "readable" means; one entry shows it.
    match fs::read_dir(path).map(|mut entries| entries.next()) {
        Ok(None | Some(Ok(_))) => Ok(handle),
        Ok(Some(Err(_))) | Err(_) => Err(PathRefusal::NotReadable.into()),
    }
}
