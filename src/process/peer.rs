//! Unix sockets whose peer is known, at paths of any length.
//!
//! A socket's address holds 107 bytes; both sides go through `/proc/self/fd/<directory>/<name>` instead.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use super::lock::open_directory;

fn through(directory: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

/// Listens at `<directory>/<name>`; a socket that an earlier process left there is replaced.
///
/// # Errors
/// When the directory can't be opened or the socket not be bound.
pub fn listen(directory: &Path, name: &str) -> io::Result<UnixListener> {
    let directory = open_directory(directory)?;
    let path = through(&directory, name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = StdListener::bind(&path)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Connects to `<directory>/<name>`.
///
/// # Errors
/// When nobody listens there.
pub fn connect(directory: &Path, name: &str) -> io::Result<UnixStream> {
    let directory = open_directory(directory)?;
    let stream = StdStream::connect(through(&directory, name))?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Whether the other end runs as one of those accounts.
#[must_use]
pub fn is_one_of(stream: &UnixStream, uids: &[u32]) -> bool {
    stream.peer_cred().is_ok_and(|peer| uids.contains(&peer.uid()))
}
