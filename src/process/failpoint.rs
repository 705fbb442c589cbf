//! Where a test may kill or stop this process: at the n-th passing of a named point.
//!
//! `MULTICA_FAILPOINT=name:n` makes the n-th call of [`hit`] with that name end the process as a crash
//! would (SIGKILL to itself): the journal's promises are tested with real deaths, not with imagined ones.
//! `MULTICA_FAILPOINT=@FILE` reads `name:n`, or `name:n:stop` (SIGSTOP: somebody else can be killed at just
//! this point), from a file at the process's first point. The process that gets there renames the file to
//! `FILE.hit` with its process id inside, so that the file arms one process, once. `name:n:fail` makes the
//! n-th call of [`passes`] with that name answer with an error, as a full disk would.

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

struct Armed {
    name: String,
    left: Mutex<u32>,
    effect: Effect,
    file: Option<PathBuf>,
}

#[derive(Clone, Copy)]
enum Effect {
    Signal(Signal),
    Fail,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

fn armed() -> Option<Armed> {
    let text = std::env::var("MULTICA_FAILPOINT").ok()?;
    let (text, file) = match text.strip_prefix('@') {
        Some(file) => (std::fs::read_to_string(file).ok()?, Some(PathBuf::from(file))),
        None => (text, None),
    };
    let text = text.trim();
    let (text, effect) = if let Some(text) = text.strip_suffix(":stop") {
        (text, Effect::Signal(Signal::SIGSTOP))
    } else if let Some(text) = text.strip_suffix(":fail") {
        (text, Effect::Fail)
    } else {
        (text, Effect::Signal(Signal::SIGKILL))
    };
    let (name, count) = text.rsplit_once(':')?;
    Some(Armed { name: name.to_owned(), left: Mutex::new(count.parse().ok()?), effect, file })
}

/// Passes the point of that name.
pub fn hit(name: &str) {
    // A point that only passes can't fail: the test that armed it so sees that nothing happened.
    drop(passes(name));
}

/// Passes the point of that name, or fails there.
///
/// # Errors
/// Where a test wants it so.
pub fn passes(name: &str) -> io::Result<()> {
    match reached(name) {
        None => Ok(()),
        Some(Effect::Fail) => Err(io::Error::other("a test wants this to fail")),
        Some(Effect::Signal(signal)) => {
            // Nothing can be done about a refusal: the test that armed the point sees that we live on.
            let _ = kill(Pid::this(), signal);
            Ok(())
        }
    }
}

/// What is to happen here and now.
fn reached(name: &str) -> Option<Effect> {
    let armed = ARMED.get_or_init(armed).as_ref().filter(|armed| armed.name == name)?;
    let mut left = armed.left.lock().ok()?;
    *left = left.checked_sub(1)?;
    if *left > 0 {
        return None;
    }
    drop(left);
    if let Some(file) = &armed.file {
        let mut taken = file.clone().into_os_string();
        taken.push(".hit");
        // Whoever renames it is the one; another process has been here otherwise.
        std::fs::rename(file, &taken).ok()?;
        std::fs::write(&taken, format!("{}\n", std::process::id())).ok()?;
    }
    Some(armed.effect)
}
