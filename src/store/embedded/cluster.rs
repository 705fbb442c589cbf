//! The cluster's files: folders, account, `initdb`, who may connect.
//!
//! Invariants: `pg/data` exists only whole (made in `pg/data.new`, renamed); everything under `pg/`
//! belongs to the account that the server runs as and is 0700.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::error::EmbeddedError;
use super::find::Programs;
use crate::kernel::digest::{hex, sha256_plain};
use crate::process::account::{self, Account};

/// The longest path of a unix socket that the kernel takes.
const SOCKET_PATH_MAX: usize = 107;

/// Where a cluster's files are.
#[derive(Debug, Clone)]
pub struct Layout {
    /// `pg`: everything that belongs to the account.
    pub root: PathBuf,
    /// `pg/data`.
    pub data: PathBuf,
    /// `pg/server.log`.
    pub log: PathBuf,
    /// The folder of the socket: `pg/run`, or one under /tmp where that path is too long.
    pub run: PathBuf,
}

impl Layout {
    /// The files below `data_dir`, for a server that runs as `uid`.
    #[must_use]
    pub fn new(data_dir: &Path, uid: u32) -> Self {
        let root = data_dir.join("pg");
        let mut run = root.join("run");
        if run.join(".s.PGSQL.5432").as_os_str().len() > SOCKET_PATH_MAX {
            let digest = hex(&sha256_plain(data_dir.as_os_str().as_encoded_bytes()));
            run = PathBuf::from(format!("/tmp/multica-{uid}-{}", &digest[..12]));
        }
        Self { data: root.join("data"), log: root.join("server.log"), root, run }
    }
}

/// The account that the server runs as: ourselves, or as root an ordinary one.
///
/// # Errors
/// [`EmbeddedError::NoAccount`] when there is none.
pub fn server_account(wanted: Option<&str>) -> Result<Account, EmbeddedError> {
    let uid = account::effective_uid();
    if uid != 0 {
        return account::by_uid(uid)?.ok_or_else(|| EmbeddedError::NoAccount {
            tried: format!("uid {uid} has no entry in the account database, which initdb needs"),
        });
    }
    let names: Vec<&str> = wanted.map_or_else(|| vec!["postgres", "_postgres", "nobody"], |name| vec![name]);
    for name in &names {
        if let Some(found) = account::by_name(name)?
            && found.uid != 0
        {
            return Ok(found);
        }
    }
    Err(EmbeddedError::NoAccount { tried: names.join(", ") })
}

/// Takes the lock that makes this process the one that runs the cluster. It holds until dropped.
///
/// # Errors
/// [`EmbeddedError::InUse`] when another process keeps it for longer than `patience`.
pub async fn take_lock(lock: &Path, patience: Duration) -> Result<File, EmbeddedError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(lock)
        .map_err(|source| EmbeddedError::File { action: "open", path: lock.to_owned(), source })?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // A server that was killed holds it for some 100 ms more.
            Err(TryLockError::WouldBlock) if started.elapsed() < patience => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(TryLockError::WouldBlock) => return Err(EmbeddedError::InUse { lock: lock.to_owned() }),
            Err(TryLockError::Error(source)) => {
                return Err(EmbeddedError::File { action: "lock", path: lock.to_owned(), source });
            }
        }
    }
}

/// Makes the folders, and checks that the account can walk to them.
///
/// # Errors
/// [`EmbeddedError::NotWalkable`], [`EmbeddedError::File`].
pub fn make_folders(layout: &Layout, owner: &Account) -> Result<(), EmbeddedError> {
    for folder in [&layout.root, &layout.run] {
        make_private(folder, owner)?;
        check_walkable(folder, owner)?;
    }
    Ok(())
}

/// Removes what a killed `initdb` left, and makes the cluster when there is none.
///
/// # Errors
/// [`EmbeddedError::InitDb`], [`EmbeddedError::File`].
pub fn initialise(
    layout: &Layout,
    programs: &Programs,
    owner: &Account,
    durable: bool,
) -> Result<(), EmbeddedError> {
    if layout.data.join("PG_VERSION").is_file() {
        return write_access(&layout.data, owner);
    }
    let fresh = layout.root.join("data.new");
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(file("remove", &fresh))?;
    }
    let mut command = as_account(&programs.bin.join("initdb"), owner);
    command.arg("-D").arg(&fresh).args([
        "--username=multica",
        "--encoding=UTF8",
        "--lc-collate=C",
        "--lc-ctype=C.UTF-8",
        "--lc-messages=C",
        "--data-checksums",
        "--auth-local=peer",
        "--auth-host=reject",
    ]);
    if !durable {
        command.arg("--no-sync");
    }
    let output = command.output().map_err(file("run initdb for", &fresh))?;
    if !output.status.success() {
        return Err(EmbeddedError::InitDb { said: tail(&output.stderr) });
    }
    write_access(&fresh, owner)?;
    fs::rename(&fresh, &layout.data).map_err(file("put in place", &layout.data))?;
    if durable {
        File::open(&layout.root).and_then(|folder| folder.sync_all()).map_err(file("sync", &layout.root))?;
    }
    Ok(())
}

/// The major version of an existing cluster.
#[must_use]
pub fn existing_major(data: &Path) -> Option<u32> {
    fs::read_to_string(data.join("PG_VERSION")).ok()?.trim().split('.').next()?.parse().ok()
}

/// A command that runs as the account, in a folder that everybody may enter, without our environment.
#[must_use]
pub fn as_account(program: &Path, owner: &Account) -> Command {
    let mut command = Command::new(program);
    if account::effective_uid() == 0 {
        // The ids change before the working directory does, so that must be one open to all.
        command.uid(owner.uid).gid(owner.gid);
    }
    command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Both of us, the caller and the server's account, may be both roles; nobody else may be anything.
fn write_access(data: &Path, owner: &Account) -> Result<(), EmbeddedError> {
    let mut users = vec![owner.name.clone()];
    if let Some(us) = account::by_uid(account::effective_uid())?
        && us.name != owner.name
    {
        users.push(us.name);
    }
    let ident: String =
        users.iter().map(|user| format!("multica {user} multica\nmultica {user} multica_app\n")).collect();
    let access = "# Written by multica at each start.\nlocal all multica,multica_app peer map=multica\n";
    for (name, text) in [("pg_hba.conf", access), ("pg_ident.conf", ident.as_str())] {
        let path = data.join(name);
        if fs::read_to_string(&path).is_ok_and(|present| present == text) {
            continue;
        }
        fs::write(&path, text).map_err(file("write", &path))?;
        give(&path, owner, 0o600)?;
    }
    Ok(())
}

fn make_private(folder: &Path, owner: &Account) -> Result<(), EmbeddedError> {
    fs::create_dir_all(folder).map_err(file("make", folder))?;
    let found = fs::symlink_metadata(folder).map_err(file("look at", folder))?;
    // Under /tmp the name could be another account's trap.
    if !found.is_dir() || (found.uid() != owner.uid && found.uid() != account::effective_uid()) {
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        return Err(EmbeddedError::File { action: "own", path: folder.to_owned(), source });
    }
    give(folder, owner, 0o700)
}

fn give(path: &Path, owner: &Account, mode: u32) -> Result<(), EmbeddedError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(file("set the mode of", path))?;
    if account::effective_uid() == 0 {
        chown(path, Some(owner.uid), Some(owner.gid)).map_err(file("give away", path))?;
    }
    Ok(())
}

fn check_walkable(folder: &Path, owner: &Account) -> Result<(), EmbeddedError> {
    for ancestor in folder.ancestors().skip(1).filter(|a| !a.as_os_str().is_empty()) {
        let found = fs::metadata(ancestor).map_err(file("look at", ancestor))?;
        let needed = if found.uid() == owner.uid {
            0o100
        } else if found.gid() == owner.gid {
            0o010
        } else {
            0o001
        };
        if found.mode() & needed == 0 {
            let account = owner.name.clone();
            return Err(EmbeddedError::NotWalkable { account, folder: ancestor.to_owned() });
        }
    }
    Ok(())
}

/// The last lines of what a program wrote.
#[must_use]
pub fn tail(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}

fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> EmbeddedError + use<> {
    let path = path.to_owned();
    move |source| EmbeddedError::File { action, path, source }
}
