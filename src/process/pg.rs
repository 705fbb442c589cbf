//! What running a database server of one's own takes: a session, signals, a look at what lives.
//!
//! Invariants: the server is in a session of its own (Ctrl-C reaches us, not it); a process counts as
//! the server of a data directory only by its executable and its working directory, never by a number.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How a server is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Ends sessions, writes a checkpoint (SIGINT).
    Fast,
    /// At once; the next start recovers from the write-ahead log (SIGQUIT).
    Immediate,
    /// As a crash would (SIGKILL).
    Kill,
}

/// What is known of a process id with respect to a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is the live server of that directory.
    Alive,
    /// No such process, a dead one that nobody has reaped yet, or another program.
    Gone,
}

/// Makes the child the leader of a session of its own.
pub fn own_session(command: &mut Command) {
    let detach = || nix::unistd::setsid().map(drop).map_err(io::Error::from);
    #[expect(unsafe_code, reason = "setsid is async-signal-safe and the closure allocates nothing")]
    // SAFETY: between fork and exec only setsid(2) runs.
    unsafe {
        command.pre_exec(detach);
    }
}

/// Sends the signal to that process.
///
/// # Errors
/// When there is no such process or it isn't ours.
pub fn stop(pid: i32, how: Stop) -> io::Result<()> {
    let signal = match how {
        Stop::Fast => Signal::SIGINT,
        Stop::Immediate => Signal::SIGQUIT,
        Stop::Kill => Signal::SIGKILL,
    };
    kill(Pid::from_raw(pid), signal).map_err(io::Error::from)?;
    // One that is stopped hears of it only when it goes on.
    kill(Pid::from_raw(pid), Signal::SIGCONT).map_err(io::Error::from)
}

/// Looks whether that process is the live server of that data directory.
#[must_use]
pub fn presence(pid: i32, data: &Path) -> Presence {
    let proc = Path::new("/proc").join(pid.to_string());
    let program = fs::read_link(proc.join("exe"));
    let is_server = program.is_ok_and(|exe| {
        exe.file_name()
            .is_some_and(|name| name.to_string_lossy().trim_end_matches(" (deleted)") == "postgres")
    });
    if is_server && !is_zombie(&proc) && works_in(&proc, data) { Presence::Alive } else { Presence::Gone }
}

/// Tells whether any process has that directory as its working directory (a backend left behind).
#[must_use]
pub fn anyone_works_in(data: &Path) -> bool {
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    entries.filter_map(Result::ok).any(|entry| {
        entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit())
            && works_in(&entry.path(), data)
    })
}

/// Waits until that process has ended. Returns at once when there is none.
///
/// # Errors
/// When the kernel can't watch processes.
pub fn wait_for_end(pid: i32) -> io::Result<()> {
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    #[expect(unsafe_code, reason = "nix has no pidfd_open")]
    // SAFETY: plain numbers in; the result is checked before it is taken for a descriptor.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let Ok(raw) = i32::try_from(opened) else { return Err(io::Error::other("no descriptor")) };
    if raw < 0 {
        let error = io::Error::last_os_error();
        return if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) };
    }
    #[expect(unsafe_code, reason = "a fresh descriptor of our own")]
    // SAFETY: pidfd_open has just returned it to us alone.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let mut polled = [nix::poll::PollFd::new(fd.as_fd(), nix::poll::PollFlags::POLLIN)];
    loop {
        match nix::poll::poll(&mut polled, nix::poll::PollTimeout::NONE) {
            Ok(_) => return Ok(()),
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn works_in(proc: &Path, data: &Path) -> bool {
    fs::read_link(proc.join("cwd")).is_ok_and(|cwd| cwd == data)
}

fn is_zombie(proc: &Path) -> bool {
    // The state follows the command's name, which is in parentheses and may hold anything.
    let stat = fs::read_to_string(proc.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}
