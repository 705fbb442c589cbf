//! Locks of the operating system: on directories' own handles and on lock files.
//!
//! Invariants: a lock is non-blocking, excludes across processes, accounts and spellings of a path (it
//! lies on the inode), and ends with the last copy of its descriptor, however the process dies.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A lock that is held. Dropping it gives it up for every process that inherited the descriptor.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// What came of a try.
#[derive(Debug)]
pub enum Try {
    /// It is ours.
    Taken(Lock),
    /// Somebody else has it; the handle that was opened, to look at.
    Busy(File),
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holder {
    /// The process, where the kernel says it.
    pub pid: Option<u32>,
    /// Its program.
    pub program: Option<String>,
}

impl Lock {
    /// The handle, on which identity can be read.
    #[must_use]
    pub const fn handle(&self) -> &File {
        &self.file
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would leave it with any child that has a copy; a refusal leaves exactly that.
        let _ = self.file.unlock();
    }
}

/// Tries the lock on that handle.
///
/// # Errors
/// When the file system has no such locks.
pub fn try_handle(file: File) -> io::Result<Try> {
    match file.try_lock() {
        Ok(()) => Ok(Try::Taken(Lock { file })),
        Err(TryLockError::WouldBlock) => Ok(Try::Busy(file)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Opens a directory as itself (its path may hold symlinks).
///
/// # Errors
/// When it isn't there, isn't a directory, or can't be opened.
pub fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NONBLOCK).open(path)
}

/// Opens the same directory once more: an own description, on which a lock of its own can lie.
///
/// # Errors
/// When it can't be opened.
pub fn reopen(directory: &File) -> io::Result<File> {
    let flags = nix::fcntl::OFlag::O_DIRECTORY | nix::fcntl::OFlag::O_CLOEXEC;
    Ok(File::from(nix::fcntl::openat(directory, ".", flags, nix::sys::stat::Mode::empty())?))
}

/// Tries the lock on a directory.
///
/// # Errors
/// When it can't be opened, or its file system has no such locks.
pub fn try_directory(path: &Path) -> io::Result<Try> {
    try_handle(open_directory(path)?)
}

/// Tries the lock on a lock file, made if missing, never through a symlink.
///
/// # Errors
/// When it can't be opened or made.
pub fn try_file(path: &Path) -> io::Result<Try> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    try_handle(file)
}

/// Who holds the flock on that file, as far as the kernel tells.
#[must_use]
pub fn holder(file: &File) -> Holder {
    let Ok(meta) = file.metadata() else { return Holder::default() };
    let Ok(table) = fs::read_to_string("/proc/locks") else { return Holder::default() };
    let device = format!("{:02x}:{:02x}", libc::major(meta.dev()), libc::minor(meta.dev()));
    let pid = holder_in(&table, &device, meta.ino());
    Holder { pid, program: pid.and_then(super::identity::program) }
}

fn holder_in(table: &str, device: &str, inode: u64) -> Option<u32> {
    let mut same_inode = None;
    for line in table.lines().filter(|line| !line.contains("->")) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, pid, place, ..] = fields[..] else { continue };
        let Some((on, ino)) = place.rsplit_once(':') else { continue };
        if ino.parse() != Ok(inode) {
            continue;
        }
        let pid = pid.parse().ok().filter(|pid| *pid != 0);
        if on == device {
            return pid;
        }
        same_inode = same_inode.or(pid);
    }
    // Some file systems show another device to stat(2) than to the lock table.
    same_inode
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spellings_of_a_directory_are_one_lock() {
        let root = tempfile::tempdir().expect("tempdir");
        let real = root.path().join("real");
        fs::create_dir(&real).expect("mkdir");
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&real, &link).expect("symlink");
        let Try::Taken(first) = try_directory(&real).expect("try") else { panic!("free") };
        let Try::Busy(seen) = try_directory(&link.join(".")).expect("try") else { panic!("taken") };
        assert_eq!(holder(&seen).pid, Some(std::process::id()));
        drop(first);
        assert!(matches!(try_directory(&link).expect("try"), Try::Taken(_)));
    }

    #[test]
    fn a_waiter_in_the_lock_table_is_no_holder() {
        let table =
            "1: FLOCK  ADVISORY  WRITE 7 08:01:99 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 8 08:01:99 0 EOF\n";
        assert_eq!(holder_in(table, "08:01", 99), Some(7));
        assert_eq!(holder_in(table, "00:2b", 99), Some(7));
        assert_eq!(holder_in(table, "08:01", 98), None);
    }
}
