//! Starts children: own session, cleared environment, known descriptors.
//!
//! Invariants: a child sees only the environment given, standard descriptors, and the descriptors named;
//! everything else is closed at its exec, whoever opened it without saying so.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// What a child reads from standard input.
#[derive(Debug, Default)]
pub enum Input {
    /// Nothing.
    #[default]
    Null,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
}

/// Where a child's output goes.
#[derive(Debug, Default)]
pub enum Output {
    /// Nowhere.
    Null,
    /// Through a pipe to us.
    #[default]
    Piped,
    /// Into a file.
    File(File),
}

/// Where a child works.
#[derive(Debug)]
pub enum Cwd {
    /// At a path.
    Path(PathBuf),
    /// In the directory behind that handle, whatever its path leads to by now.
    Handle(OwnedFd),
}

/// A child to be started.
#[derive(Debug)]
pub struct Spawn {
    /// Its program, absolute.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it works.
    pub cwd: Cwd,
    /// Its standard input.
    pub stdin: Input,
    /// Its standard output.
    pub stdout: Output,
    /// Its standard error.
    pub stderr: Output,
    /// Whether it leads a session of its own.
    pub own_session: bool,
    /// The door of a control group that it enters, see [`super::cgroup::make`].
    pub cgroup: Option<File>,
    /// Descriptors that it inherits under their numbers.
    pub inherited: Vec<OwnedFd>,
    /// Whether it is killed, with its session's first group, when its [`Running`] is dropped before its
    /// end was seen, and by itself when this process dies: for questions, which nobody needs answered any
    /// more once the asker is gone.
    pub bound: bool,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        Self { code: status.code(), signal: status.signal() }
    }
}

/// A child that runs.
#[derive(Debug)]
pub struct Running {
    /// Its number.
    pub pid: u32,
    /// Its standard output, when piped.
    pub stdout: Option<ChildStdout>,
    /// Its standard error, when piped.
    pub stderr: Option<ChildStderr>,
    child: Child,
    bound: bool,
}

impl Running {
    /// Waits until it has ended. Cancel safe.
    ///
    /// # Errors
    /// When the system can't say.
    pub async fn wait(&mut self) -> io::Result<Exit> {
        self.child.wait().await.map(Exit::from)
    }
}

/// What is bound ends with whoever asked, however that ended: answered, given up, cancelled. Nobody waits
/// for its exit, because one that hangs in a system call takes its KILL only when the system lets it go.
impl Drop for Running {
    fn drop(&mut self) {
        if !self.bound || self.child.id().is_none() {
            return;
        }
        if let Ok(group) = i32::try_from(self.pid) {
            // Its number is ours until it is waited for, so the group can't be a stranger's.
            let _ = nix::sys::signal::killpg(
                nix::unistd::Pid::from_raw(group),
                nix::sys::signal::Signal::SIGKILL,
            );
        }
    }
}

impl Spawn {
    /// A child with nothing but a program and a place.
    #[must_use]
    pub const fn new(program: PathBuf, cwd: Cwd) -> Self {
        Self {
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            cwd,
            stdin: Input::Null,
            stdout: Output::Piped,
            stderr: Output::Piped,
            own_session: true,
            cgroup: None,
            inherited: Vec::new(),
            bound: false,
        }
    }

    /// Starts it. It lives on when the answer is dropped, unless it is bound.
    ///
    /// # Errors
    /// When the program can't be started: `NotFound` and `PermissionDenied` speak of the program or the cwd.
    pub fn start(self) -> io::Result<Running> {
        let mut command = Command::new(&self.program);
        let bound = self.bound && self.own_session;
        command.args(&self.arguments).env_clear().envs(self.environment);
        let handle = match self.cwd {
            Cwd::Path(path) => {
                command.current_dir(path);
                None
            }
            Cwd::Handle(handle) => Some(handle),
        };
        command.stdin(if matches!(self.stdin, Input::Null) { Stdio::null() } else { Stdio::piped() });
        command.stdout(self.stdout.stdio()).stderr(self.stderr.stdio());
        command.kill_on_drop(false);
        let kept: Vec<RawFd> = self.inherited.iter().map(AsRawFd::as_raw_fd).collect();
        let [cwd, cgroup] =
            [handle.as_ref().map(AsRawFd::as_raw_fd), self.cgroup.as_ref().map(AsRawFd::as_raw_fd)];
        let asker = bound.then(std::process::id);
        before_exec(&mut command, self.own_session, asker, [cwd, cgroup], kept);
        let mut child = command.spawn()?;
        drop((handle, self.cgroup, self.inherited));
        if let (Input::Bytes(bytes), Some(mut pipe)) = (self.stdin, child.stdin.take()) {
            // A child that doesn't read its input must not hold us up; one that ends early is no error.
            tokio::spawn(async move {
                let _ = pipe.write_all(&bytes).await;
                let _ = pipe.shutdown().await;
            });
        }
        let Some(pid) = child.id() else { return Err(io::Error::other("the child has no number")) };
        Ok(Running { pid, stdout: child.stdout.take(), stderr: child.stderr.take(), child, bound })
    }
}

impl Output {
    fn stdio(self) -> Stdio {
        match self {
            Self::Null => Stdio::null(),
            Self::Piped => Stdio::piped(),
            Self::File(file) => Stdio::from(file),
        }
    }
}

fn before_exec(
    command: &mut Command,
    own_session: bool,
    asker: Option<u32>,
    [cwd, cgroup]: [Option<RawFd>; 2],
    kept: Vec<RawFd>,
) {
    let prepare = move || -> io::Result<()> {
        if own_session {
            nix::unistd::setsid()?;
        }
        if let Some(asker) = asker {
            // The kernel forgets it when the child takes on another account.
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            if u32::try_from(nix::unistd::getppid().as_raw()) != Ok(asker) {
                return Err(nix::errno::Errno::ESRCH.into());
            }
        }
        #[expect(unsafe_code, reason = "descriptors by number, after fork")]
        // SAFETY: plain system calls on integers; none allocates or takes a lock.
        unsafe {
            if let Some(cwd) = cwd
                && libc::fchdir(cwd) != 0
            {
                return Err(io::Error::last_os_error());
            }
            if let Some(cgroup) = cgroup {
                // One net less when it fails: the others hold.
                let _ = libc::write(cgroup, c"0".as_ptr().cast(), 1);
            }
            // The kernel may lack close_range's flag: then each descriptor's own flag has to do.
            let _ = libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
            for fd in &kept {
                if libc::fcntl(*fd, libc::F_SETFD, 0) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(())
    };
    #[expect(unsafe_code, reason = "a session and a directory of its own are set between fork and exec")]
    // SAFETY: the closure makes async-signal-safe system calls only and allocates nothing.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Finds a program as exec would: absolute as it is, else in the directories of `path`.
///
/// # Errors
/// `NotFound` or `PermissionDenied` (it is there and can't be executed by this account).
pub fn find_program(program: &str, path: &str) -> io::Result<PathBuf> {
    if program.contains('/') {
        let program = Path::new(program);
        return if program.is_absolute() { executable(program) } else { Err(io::ErrorKind::NotFound.into()) };
    }
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    for directory in path.split(':').filter(|part| part.starts_with('/')) {
        match executable(&Path::new(directory).join(program)) {
            Ok(found) => return Ok(found),
            Err(refused) if refused.kind() == io::ErrorKind::PermissionDenied => error = refused,
            Err(_) => {}
        }
    }
    Err(error)
}

fn executable(path: &Path) -> io::Result<PathBuf> {
    let meta = std::fs::metadata(path)?;
    if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    nix::unistd::eaccess(path, nix::unistd::AccessFlags::X_OK)?;
    Ok(path.to_path_buf())
}
