//! File operations that survive a crash and can't be led astray.
//!
//! Invariants: what [`write_atomic`] replaced is either the old or the new whole, also after power loss;
//! [`Beneath`] never leaves its directory and follows no link, whatever stands in the path.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstatat, mkdirat};
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, unlinkat};

/// The flag that keeps an open from following a link at the end of a path.
pub const NOFOLLOW: i32 = libc::O_NOFOLLOW;

/// Replaces a file: written beside it, synced, renamed over it, its directory synced.
///
/// # Errors
/// When any step fails; the old content stands then.
pub fn write_atomic(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let fresh = parent.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    sync_directory(parent)
}

/// Makes a directory's entries last.
///
/// # Errors
/// When the file system refuses.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Reads a regular file of at most `max` bytes without following a link at its end.
///
/// # Errors
/// When it isn't there, is no regular file, is longer, or can't be read.
pub fn read_bounded(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    bounded(file, max)
}

/// The same for a file of one's own, which may be a link to elsewhere: a FIFO or a device that stands there
/// is refused, never waited for.
///
/// # Errors
/// As [`read_bounded`].
pub fn read_own(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    bounded(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?, max)
}

fn bounded(file: File, max: u64) -> io::Result<Vec<u8>> {
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if meta.len() > max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What stands at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Missing,
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// Anything else: a link, a FIFO, a socket, a device.
    Other,
}

/// An opened directory, and what is strictly inside it.
#[derive(Debug)]
pub struct Beneath {
    directory: OwnedFd,
}

impl Beneath {
    /// Everything inside that opened directory.
    ///
    /// # Errors
    /// When the handle can't be copied.
    pub fn of(directory: &File) -> io::Result<Self> {
        Ok(Self { directory: directory.as_fd().try_clone_to_owned()? })
    }

    fn open(&self, path: &str, flags: OFlag, mode: u32) -> io::Result<File> {
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
            .mode(Mode::from_bits_truncate(mode))
            .resolve(
                ResolveFlag::RESOLVE_BENEATH
                    | ResolveFlag::RESOLVE_NO_MAGICLINKS
                    | ResolveFlag::RESOLVE_NO_SYMLINKS,
            );
        Ok(File::from(openat2(&self.directory, path, how)?))
    }

    fn parent<'a>(&self, path: &'a str) -> io::Result<(File, &'a str)> {
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY;
        Ok((self.open(parent, flags, 0)?, name))
    }

    fn stat(&self, path: &str) -> io::Result<Option<FileStat>> {
        let (parent, name) = match self.parent(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// What stands at that relative path.
    ///
    /// # Errors
    /// When a part of the way is no directory, or is a link.
    pub fn entry(&self, path: &str) -> io::Result<Entry> {
        Ok(match self.stat(path)? {
            None => Entry::Missing,
            Some(stat) => match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
                SFlag::S_IFDIR => Entry::Directory,
                SFlag::S_IFREG => Entry::File,
                _ => Entry::Other,
            },
        })
    }

    /// Reads a regular file of at most `max` bytes.
    ///
    /// # Errors
    /// As [`read_bounded`], and when the way leads out or over a link.
    pub fn read(&self, path: &str, max: u64) -> io::Result<Vec<u8>> {
        bounded(self.open(path, OFlag::O_RDONLY | OFlag::O_NOFOLLOW, 0)?, max)
    }

    /// Makes a file that doesn't exist yet, with that content, synced.
    ///
    /// # Errors
    /// `AlreadyExists` for an entry of any type; anything else the system says.
    pub fn create(&self, path: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let mut file = self.open(path, flags, mode)?;
        fchmod(&file, Mode::from_bits_truncate(mode))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Changes an existing regular file in place: mode, owner and links stay.
    ///
    /// # Errors
    /// When it is no regular file or can't be written.
    pub fn open_existing(&self, path: &str) -> io::Result<File> {
        let file = self.open(path, OFlag::O_RDWR | OFlag::O_NOFOLLOW, 0)?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Opens a directory.
    ///
    /// # Errors
    /// When it is none, isn't there, or the way leads out or over a link.
    pub fn open_directory(&self, path: &str) -> io::Result<File> {
        self.open(path, OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_NOFOLLOW, 0)
    }

    /// Makes a directory that doesn't exist yet.
    ///
    /// # Errors
    /// `AlreadyExists` for an entry of any type; anything else the system says.
    pub fn make_directory(&self, path: &str, mode: u32) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        mkdirat(&parent, name, Mode::from_bits_truncate(mode))?;
        Ok(())
    }

    /// Removes a file or link; whether it was there.
    ///
    /// # Errors
    /// When it is a directory or can't be removed.
    pub fn remove_file(&self, path: &str) -> io::Result<bool> {
        self.remove(path, UnlinkatFlags::NoRemoveDir)
    }

    /// Removes an empty directory; whether it was there and empty.
    ///
    /// # Errors
    /// Anything but "not there" and "not empty".
    pub fn remove_directory(&self, path: &str) -> io::Result<bool> {
        match self.remove(path, UnlinkatFlags::RemoveDir) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) =>
            {
                Ok(false)
            }
            other => other,
        }
    }

    fn remove(&self, path: &str, how: UnlinkatFlags) -> io::Result<bool> {
        let (parent, name) = match self.parent(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        match unlinkat(&parent, name, how) {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Whether this account may write into that directory, found out without leaving a name in it.
///
/// # Errors
/// What the system says against it.
pub fn probe_write(directory: &File) -> io::Result<()> {
    let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    match nix::fcntl::openat(directory, ".", flags, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(_) => Ok(()),
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => {
            let wanted = AccessFlags::W_OK | AccessFlags::X_OK;
            Ok(faccessat(directory, ".", wanted, AtFlags::AT_EACCESS)?)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// The operating system's word for an error (`EACCES`).
#[must_use]
pub fn errno_name(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.kind().to_string(), |raw| format!("{:?}", Errno::from_raw(raw)))
}

/// Device and inode: what a file is, whatever it is called.
///
/// # Errors
/// When the system doesn't say.
pub fn device_and_inode(file: &File) -> io::Result<(u64, u64)> {
    let meta = file.metadata()?;
    Ok((meta.dev(), meta.ino()))
}

/// Gives a file or directory to an account (only root can).
///
/// # Errors
/// When the system refuses.
pub fn give_to(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(uid), Some(gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_beneath_a_directory_leads_out_of_it() {
        let root = tempfile::tempdir().expect("tempdir");
        let inside = root.path().join("inside");
        fs::create_dir(&inside).expect("mkdir");
        fs::write(root.path().join("secret"), "s").expect("write");
        std::os::unix::fs::symlink("..", inside.join("up")).expect("symlink");
        let beneath = Beneath::of(&File::open(&inside).expect("open")).expect("beneath");
        for path in ["../secret", "up/secret", "/etc/passwd"] {
            assert!(beneath.read(path, 100).is_err(), "{path}");
            assert!(beneath.create(path, b"x", 0o644).is_err(), "{path}");
            assert!(beneath.remove_file(path).is_err(), "{path}");
        }
        assert_eq!(fs::read_to_string(root.path().join("secret")).expect("read"), "s");
    }

    #[test]
    fn a_fifo_or_a_device_is_refused_and_not_waited_for() {
        let root = tempfile::tempdir().expect("tempdir");
        let fifo = root.path().join("fifo");
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).expect("mkfifo");
        for path in [fifo.as_path(), Path::new("/dev/zero"), root.path()] {
            assert!(read_own(path, 100).is_err() && read_bounded(path, 100).is_err(), "{}", path.display());
        }
        fs::write(root.path().join("file"), "text").expect("write");
        std::os::unix::fs::symlink("file", root.path().join("link")).expect("symlink");
        assert_eq!(read_own(&root.path().join("link"), 100).expect("read"), b"text");
        assert!(read_own(&root.path().join("link"), 3).is_err(), "longer than allowed");
    }

    #[test]
    fn a_write_probe_leaves_no_name() {
        let root = tempfile::tempdir().expect("tempdir");
        probe_write(&File::open(root.path()).expect("open")).expect("writable");
        assert_eq!(fs::read_dir(root.path()).expect("list").count(), 0);
    }

    #[test]
    fn creating_refuses_whatever_stands_there() {
        let root = tempfile::tempdir().expect("tempdir");
        std::os::unix::fs::symlink("nowhere", root.path().join("dangling")).expect("symlink");
        let beneath = Beneath::of(&File::open(root.path()).expect("open")).expect("beneath");
        assert_eq!(beneath.entry("dangling").expect("entry"), Entry::Other);
        let error = beneath.create("dangling", b"x", 0o644).expect_err("refused");
        assert!(matches!(error.raw_os_error(), Some(libc::ELOOP | libc::EEXIST)), "{error}");
    }
}
