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
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::domain::task::GitState;
use crate::git::Git;
use crate::kernel::limits::Limits;
use crate::process::owner::Owner;
use crate::process::{identity, lock, owner, safe_file};

const PROTECTED: [&str; 10] =
    ["/", "/Users", "/Users/Shared", "/home", "/root", "/var", "/etc", "/tmp", "/usr", "/opt"];

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

/// Why a directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryRefusal {
    /// No path.
    #[error("the path is empty")]
    Empty,
    /// A relative path.
    #[error("the path {path} is not absolute")]
    NotAbsolute {
        /// As typed.
        path: String,
    },
    /// It would not survive JSON, or the kernel.
    #[error("the path holds a NUL character")]
    Nul,
    /// A protected directory.
    #[error("{entry} is a protected directory of the system")]
    ProtectedRoot {
        /// The protected entry.
        entry: String,
    },
    /// The home directory or one above it.
    #[error("{path} is the home directory or holds it")]
    HomeDirectory {
        /// As typed.
        path: String,
    },
    /// One of our own folders, or around or inside one.
    #[error("{path} lies in, or holds, multica's own folder {folder}")]
    OwnFolder {
        /// The real path.
        path: String,
        /// That folder.
        folder: String,
    },
    /// Nothing there.
    #[error("{path} does not exist")]
    DoesNotExist {
        /// As typed.
        path: String,
    },
    /// It can't be looked up.
    #[error("{path} can't be looked up")]
    StatFailed {
        /// As typed.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file, a FIFO, a device.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// As typed.
        path: String,
    },
    /// Its links can't be resolved.
    #[error("the links of {path} can't be resolved")]
    SymlinkResolution {
        /// As typed.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A link to a protected directory.
    #[error("{path} leads to {target}, which is protected")]
    ProtectedViaSymlink {
        /// As typed.
        path: String,
        /// Where it leads.
        target: String,
    },
    /// Another name of a protected directory.
    #[error("{path} is another name of a protected directory")]
    ProtectedCanonical {
        /// As typed.
        path: String,
    },
    /// It belongs to an account that agents may not run as.
    #[error("{path} belongs to account {account}, as which agents may not run")]
    OwnerNotAllowed {
        /// The real path.
        path: String,
        /// The account.
        account: String,
    },
    /// It can't be listed.
    #[error("{path} can't be read")]
    NotReadable {
        /// As typed.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It can't be written.
    #[error("{path} can't be written")]
    NotWritable {
        /// As typed.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Its file system has no locks.
    #[error("the file system of {path} has no locks on directories")]
    NotLockable {
        /// As typed.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The machine itself failed.
    #[error("the directory can't be inspected")]
    Machine {
        /// What went wrong.
        #[source]
        source: io::Error,
    },
}

impl DirectoryRefusal {
    /// Its stable code and what to do now.
    #[must_use]
    pub const fn code_and_next_step(&self) -> (&'static str, &'static str) {
        match self {
            Self::Empty => ("path_empty", "Name a directory."),
            Self::NotAbsolute { .. } => ("path_not_absolute", "Name it from the root on."),
            Self::Nul => ("path_invalid", "Name it without control characters."),
            Self::ProtectedRoot { .. } => ("protected_root", "Attach a directory inside it."),
            Self::HomeDirectory { .. } => ("home_directory", "Attach a directory inside your home."),
            Self::OwnFolder { .. } => ("own_folder", "Attach a directory elsewhere."),
            Self::DoesNotExist { .. } => ("does_not_exist", "Create it or correct the path."),
            Self::StatFailed { .. } => ("stat_failed", "Look at the permissions on its way."),
            Self::NotADirectory { .. } => ("not_a_directory", "Attach the directory that holds it."),
            Self::SymlinkResolution { .. } => ("symlink_resolution", "Mend the links on its way."),
            Self::ProtectedViaSymlink { .. } => {
                ("protected_via_symlink", "Attach a directory inside its target.")
            }
            Self::ProtectedCanonical { .. } => ("protected_canonical", "Attach a directory inside it."),
            Self::OwnerNotAllowed { .. } => (
                "owner_not_allowed",
                "Add its real path to `allowed_directories` in the daemon's configuration file.",
            ),
            Self::NotReadable { .. } => ("not_readable", "Give its owner the right to list it."),
            Self::NotWritable { .. } => ("not_writable", "Give its owner the right to write it."),
            Self::NotLockable { .. } => ("not_lockable", "Move it to a local file system."),
            Self::Machine { .. } => ("machine_error", "Look at the daemon's log."),
        }
    }

    fn answer(&self) -> Inspected {
        let (code, next_step) = self.code_and_next_step();
        let reason = if code == "owner_not_allowed" { code } else { "local_directory_error" };
        Inspected::Refused {
            code: code.to_owned(),
            failure_reason: reason.to_owned(),
            sentence: crate::kernel::error_chain::Chain(self).to_string(),
            next_step: next_step.to_owned(),
        }
    }
}

/// Looks; as root, this process is the directory's owner afterwards, for good.
pub async fn inspect(request: &Inspect) -> Inspected {
    match look(request).await {
        Ok(found) => found,
        Err(refusal) => refusal.answer(),
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
        Err(source) => DirectoryRefusal::Machine { source }.answer(),
    };
    match serde_json::to_writer(io::stdout(), &answer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

async fn look(request: &Inspect) -> Result<Inspected, DirectoryRefusal> {
    let path = lexical(request)?;
    let shown = path.display().to_string();
    let meta = fs::metadata(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => DirectoryRefusal::DoesNotExist { path: shown.clone() },
        _ => DirectoryRefusal::StatFailed { path: shown.clone(), source },
    })?;
    if !meta.is_dir() {
        return Err(DirectoryRefusal::NotADirectory { path: shown });
    }
    let real = fs::canonicalize(&path)
        .map_err(|source| DirectoryRefusal::SymlinkResolution { path: shown.clone(), source })?;
    canonical(request, &path, &real)?;
    let owner = take_owner(request, &meta, &real)?;
    let handle =
        open(&path, &meta).map_err(|source| DirectoryRefusal::NotReadable { path: shown.clone(), source })?;
    safe_file::probe_write(&handle)
        .map_err(|source| DirectoryRefusal::NotWritable { path: shown.clone(), source })?;
    if let Err(source) = handle.try_clone().and_then(lock::try_handle) {
        return Err(DirectoryRefusal::NotLockable { path: shown, source });
    }
    let boot_id = identity::boot_id().map_err(|source| DirectoryRefusal::Machine { source })?;
    let home = owner.as_ref().map_or_else(|| request.home.clone(), |owner| owner.home.clone());
    let git = Git {
        home,
        path: std::env::var("PATH").unwrap_or_default(),
        timeout: request.limits.git_timeout.duration(),
    };
    // A machine without git, or a repository git can't read in time, is a directory like any other.
    let tree = git.work_tree(&handle, request.limits.git_changed_paths).await.unwrap_or(None);
    Ok(Inspected::Usable {
        path: shown,
        real_path: real.display().to_string(),
        real_path_bytes: std::os::unix::ffi::OsStrExt::as_bytes(real.as_os_str()).to_vec(),
        device: meta.dev(),
        inode: meta.ino(),
        boot_id,
        owner,
        can_isolate: tree.as_ref().is_some_and(|tree| tree.can_isolate),
        git: tree.map(|tree| tree.state),
    })
}

fn lexical(request: &Inspect) -> Result<PathBuf, DirectoryRefusal> {
    let typed = request.path.trim();
    if typed.is_empty() {
        return Err(DirectoryRefusal::Empty);
    }
    if !typed.starts_with('/') {
        return Err(DirectoryRefusal::NotAbsolute { path: typed.to_owned() });
    }
    if typed.contains('\0') {
        return Err(DirectoryRefusal::Nul);
    }
    let path = clean(typed);
    if let Some(entry) = PROTECTED.iter().find(|entry| Path::new(entry) == path) {
        return Err(DirectoryRefusal::ProtectedRoot { entry: (*entry).to_owned() });
    }
    if holds_home(&path, &request.home) {
        return Err(DirectoryRefusal::HomeDirectory { path: path.display().to_string() });
    }
    Ok(path)
}

fn canonical(request: &Inspect, path: &Path, real: &Path) -> Result<(), DirectoryRefusal> {
    let resolved = |entry: &str| fs::canonicalize(entry).unwrap_or_else(|_| PathBuf::from(entry));
    let protected = PROTECTED.iter().any(|entry| Path::new(entry) == real || resolved(entry) == real)
        || holds_home(real, &request.home)
        || holds_home(real, &resolved(&request.home).display().to_string());
    if protected {
        let path = path.display().to_string();
        return Err(if Path::new(&path) == real {
            DirectoryRefusal::ProtectedCanonical { path }
        } else {
            DirectoryRefusal::ProtectedViaSymlink { path, target: real.display().to_string() }
        });
    }
    for folder in &request.own_folders {
        let own = resolved(folder);
        if own.starts_with(real) || real.starts_with(&own) {
            return Err(DirectoryRefusal::OwnFolder {
                path: real.display().to_string(),
                folder: folder.clone(),
            });
        }
    }
    Ok(())
}

fn holds_home(path: &Path, home: &str) -> bool {
    home.starts_with('/') && home != "/" && clean(home).starts_with(path)
}

/// Removes `.`, `..` and doubled or trailing separators, by the text alone.
fn clean(path: &str) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    out
}

fn take_owner(
    request: &Inspect,
    meta: &fs::Metadata,
    real: &Path,
) -> Result<Option<Owner>, DirectoryRefusal> {
    if owner::current_uid() != 0 {
        return Ok(None);
    }
    let found = owner::find(meta.uid(), meta.gid());
    let allowed = request.allowed_directories.iter().any(|entry| {
        let entry = fs::canonicalize(entry).unwrap_or_else(|_| PathBuf::from(entry));
        real.starts_with(entry)
    });
    if found.uid < FIRST_PERSON && !allowed {
        let path = real.display().to_string();
        return Err(DirectoryRefusal::OwnerNotAllowed { path, account: found.name });
    }
    if found.uid == 0 {
        return Ok(None);
    }
    owner::become_account(found.uid, found.gid, &found.name)
        .map_err(|error| DirectoryRefusal::Machine { source: io::Error::other(error) })?;
    Ok(Some(found))
}

fn open(path: &Path, seen: &fs::Metadata) -> io::Result<File> {
    let handle = lock::open_directory(path)?;
    if safe_file::device_and_inode(&handle)? != (seen.dev(), seen.ino()) {
        return Err(io::Error::other("another directory took its place meanwhile"));
    }
    // Listing is what "readable" means; one entry shows it.
    if let Some(entry) = fs::read_dir(path)?.next() {
        entry?;
    }
    Ok(handle)
}
