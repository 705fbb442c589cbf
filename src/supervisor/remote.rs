//! The daemon's end: starting supervisors and talking to them.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;

use super::frame::{Charge, Frame, FrameBody, VERSION};
use super::socket::{NAME, read_value, write_frame};
use crate::kernel::ids::TaskId;
use crate::process::child::{Cwd, Input, Output, Running, Spawn};
use crate::process::{identity, lock, peer};

/// The hidden subcommand; the task's id follows, after [`RECOVER`] where that is asked for.
pub const SUPERVISE: &str = "__supervise";
/// Asks a supervisor to put in order what a dead one left.
pub const RECOVER: &str = "--recover";

/// The task that a process supervises, if it is a supervisor. Any program can be started with such words: what
/// follows from the answer is what people are told, and nothing else.
#[must_use]
pub fn supervised_by(pid: u32) -> Option<TaskId> {
    let words = identity::command_line(pid)?;
    let mut words = words.iter().skip(1).map(String::as_str);
    if words.next() != Some(SUPERVISE) {
        return None;
    }
    words.find(|word| *word != RECOVER)?.parse().ok()
}

/// Starts a supervisor in a session of its own; `lock` is the task record's lock, which it inherits.
///
/// The answer may be dropped: the supervisor lives on. Its exit code says what came of it, see
/// [`super::ENV_ROOT_TAKEN`] and [`super::RETRY_LATER`]; everything else is in the spool.
///
/// # Errors
/// When the program can't be started.
pub fn start(
    executable: &Path,
    charge: &Charge,
    recover: bool,
    lock: OwnedFd,
    log: File,
    environment: Vec<(OsString, OsString)>,
) -> io::Result<Running> {
    let mut spawn = Spawn::new(executable.to_path_buf(), Cwd::Path("/".into()));
    spawn.arguments.push(SUPERVISE.into());
    if recover {
        spawn.arguments.push(RECOVER.into());
    }
    // For whoever looks at the list of processes: another run that finds the directory's lock taken, or a person.
    spawn.arguments.push(charge.assignment.id.to_string().into());
    spawn.stdin = Input::Bytes(serde_json::to_vec(charge)?);
    spawn.stdout = Output::File(log.try_clone()?);
    spawn.stderr = Output::File(log);
    spawn.environment = environment;
    spawn.inherited.push(lock);
    spawn.start()
}

/// A connection to a live supervisor.
#[derive(Debug)]
pub struct Remote {
    frames: mpsc::Receiver<Frame>,
    to: OwnedWriteHalf,
    next: u64,
}

impl Remote {
    /// Connects to the supervisor of that claim, if it listens (yet).
    ///
    /// # Errors
    /// When nobody listens there, or somebody of another account than `uid` does.
    pub fn connect(env_root: &Path, generation: u32, uid: u32, max: usize) -> io::Result<Self> {
        let run = env_root.join("runs").join(generation.to_string());
        // The folder belongs to the agent's account; what listens in it must too.
        lock::open_directory(&run)?;
        let stream = peer::connect(&run, NAME)?;
        if !peer::is_one_of(&stream, &[uid]) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (mut from, to) = stream.into_split();
        let (sender, frames) = mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok(Some(value)) = read_value(&mut from, max).await {
                // A kind of a newer supervisor that this daemon doesn't know has nothing to say to it.
                let Ok(frame) = serde_json::from_value(value) else { continue };
                if sender.send(frame).await.is_err() {
                    break;
                }
            }
        });
        Ok(Self { frames, to, next: 1 })
    }

    /// The next frame; none when the connection is gone. Cancel safe.
    pub async fn next(&mut self) -> Option<Frame> {
        self.frames.recv().await
    }

    /// Sends a frame and gives its id.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn send(&mut self, body: FrameBody) -> io::Result<u64> {
        let id = self.next;
        self.next += 1;
        write_frame(&mut self.to, &Frame { v: VERSION, id, body }).await?;
        Ok(id)
    }
}
