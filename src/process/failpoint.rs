//! Where a test may kill or stop this process: at the n-th passing of a named point.
//!
//! `MULTICA_FAILPOINT=name:n` makes the n-th call of [`hit`] with that name end the process as a crash
//! would (SIGKILL to itself): the journal's promises are tested with real deaths, not with imagined ones.
//! `MULTICA_FAILPOINT=@FILE` reads `name:n`, or `name:n:stop` (SIGSTOP: somebody else can be killed at just
//! this point), from a file at the process's first point. The process that gets there renames the file to
//! `FILE.hit` with its process id inside, so that the file arms one process, once.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

struct Armed {
    name: String,
    left: Mutex<u32>,
    signal: Signal,
    file: Option<PathBuf>,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

fn armed() -> Option<Armed> {
    let text = std::env::var("MULTICA_FAILPOINT").ok()?;
    let (text, file) = match text.strip_prefix('@') {
        Some(file) => (std::fs::read_to_string(file).ok()?, Some(PathBuf::from(file))),
        None => (text, None),
    };
    let text = text.trim();
    let (text, signal) =
        text.strip_suffix(":stop").map_or((text, Signal::SIGKILL), |text| (text, Signal::SIGSTOP));
    let (name, count) = text.rsplit_once(':')?;
    Some(Armed { name: name.to_owned(), left: Mutex::new(count.parse().ok()?), signal, file })
}

/// Passes the point of that name.
pub fn hit(name: &str) {
    let Some(armed) = ARMED.get_or_init(armed).as_ref().filter(|armed| armed.name == name) else { return };
    let Ok(mut left) = armed.left.lock() else { return };
    if *left == 0 {
        return;
    }
    *left -= 1;
    if *left > 0 {
        return;
    }
    drop(left);
    if let Some(file) = &armed.file {
        let mut taken = file.clone().into_os_string();
        taken.push(".hit");
        // Whoever renames it is the one; another process has been here otherwise.
        if std::fs::rename(file, &taken).is_err()
            || std::fs::write(&taken, format!("{}\n", std::process::id())).is_err()
        {
            return;
        }
    }
    // Nothing can be done about a refusal: the test that armed the point sees that we live on.
    let _ = kill(Pid::this(), armed.signal);
}
