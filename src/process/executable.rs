//! Copies of the own executable that every account can start.
//!
//! A build under somebody's private home can't be executed by the accounts that agents run as.
//!
//! Invariants: a copy is never changed once it has its name; one is removed only when nobody has its lock, no
//! process runs it and it has lain there for a while.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

/// The copy's name in its folder.
const NAME: &str = "multica";

/// A copy that stays where it is as long as this value lives.
#[derive(Debug)]
pub struct Published {
    /// Where it is.
    pub path: PathBuf,
    /// Shared by all who use it; who wants to remove it needs it alone.
    _lock: File,
}

/// Copies this process's executable to `<root>/<digest>/multica` unless it is there, and keeps it there.
///
/// # Errors
/// When it can't be read or written.
pub fn publish(root: &Path) -> io::Result<Published> {
    let name: String = Sha256::digest(fs::read("/proc/self/exe")?)
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let directory = root.join(name);
    let path = directory.join(NAME);
    loop {
        if !path.is_file() {
            copy(root, &directory, &path)?;
        }
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            // Another start has just taken it away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        lock.lock_shared()?;
        let there = fs::metadata(&path).is_ok_and(|seen| {
            lock.metadata().is_ok_and(|ours| (seen.dev(), seen.ino()) == (ours.dev(), ours.ino()))
        });
        if there {
            return Ok(Published { path, _lock: lock });
        }
    }
}

fn copy(root: &Path, directory: &Path, target: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o711).create(directory)?;
    for path in [root, directory] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o711))?;
    }
    let fresh = directory.join(format!(".multica-{}", std::process::id()));
    let mut copy = OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&fresh)?;
    io::copy(&mut File::open("/proc/self/exe")?, &mut copy)?;
    copy.set_permissions(fs::Permissions::from_mode(0o755))?;
    copy.sync_all()?;
    drop(copy);
    fs::rename(&fresh, target)?;
    File::open(directory)?.sync_all()
}

/// Removes the copies below `root` that nobody uses and that are older than `kept`; says how many there were.
///
/// A run keeps its copy by its supervisor, which runs it; a daemon by [`Published`].
///
/// # Errors
/// When the folder can't be read. A copy that can't be removed stays for the next time.
pub fn remove_unused(root: &Path, kept: Duration) -> io::Result<usize> {
    let mut removed = 0;
    // As the kernel names what a process runs.
    for entry in fs::read_dir(root.canonicalize()?)? {
        let directory = entry?.path();
        let path = directory.join(NAME);
        let Ok(file) = File::open(&path) else { continue };
        let old = file
            .metadata()
            .and_then(|meta| meta.modified())
            .is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age >= kept));
        // Held until it is gone: who publishes it meanwhile waits, then sees that it isn't there.
        if !old || file.try_lock().is_err() || is_run(&path) {
            continue;
        }
        if fs::remove_file(&path).is_ok() {
            removed += 1;
            // Not empty where somebody is just writing a new one: it stays then.
            drop(fs::remove_dir(&directory));
        }
    }
    Ok(removed)
}

/// Whether a process of this machine runs that file.
fn is_run(path: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .map(|process| process.path().join("exe"))
        .any(|exe| fs::read_link(exe).is_ok_and(|is| is == path))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A copy as an earlier version would have left it: any program does.
    fn old_copy(root: &Path, name: &str) -> PathBuf {
        let path = root.join(name).join(NAME);
        fs::create_dir_all(root.join(name)).expect("a folder");
        fs::copy("/bin/sleep", &path).expect("a copy");
        path
    }

    #[test]
    fn copies_that_nobody_uses_go_and_those_in_use_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("real");
        let (idle, running) = (old_copy(&root, "idle"), old_copy(&root, "running"));
        let ours = publish(&root).expect("published");
        let mut child =
            Command::new(&running).arg("60").stdin(Stdio::null()).spawn().expect("a supervisor's stand-in");

        assert_eq!(remove_unused(&root, Duration::from_secs(3_600)).expect("looked"), 0, "they are young");
        assert_eq!(remove_unused(&root, Duration::ZERO).expect("looked"), 1);
        assert!(!root.join("idle").exists() && !idle.exists());
        assert!(running.exists(), "a run would lose its program");
        assert!(ours.path.exists(), "a daemon would lose its program");

        child.kill().expect("stopped");
        child.wait().expect("gone");
        let path = ours.path.clone();
        drop(ours);
        assert_eq!(remove_unused(&root, Duration::ZERO).expect("looked"), 2);
        let again = publish(&root).expect("published again");
        assert!(again.path == path && path.exists());
    }
}
