//! Where a test may kill this process: at the n-th passing of a named point.
//!
//! `MULTICA_FAILPOINT=name:n` makes the n-th call of [`hit`] with that name end the process as a crash
//! would (SIGKILL to itself): the journal's promises are tested with real deaths, not with imagined ones.

use std::sync::Mutex;
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

struct Armed {
    name: String,
    left: Mutex<u32>,
}

static ARMED: OnceLock<Option<Armed>> = OnceLock::new();

/// Passes the point of that name.
pub fn hit(name: &str) {
    let armed = ARMED.get_or_init(|| {
        let text = std::env::var("MULTICA_FAILPOINT").ok()?;
        let (name, count) = text.rsplit_once(':')?;
        Some(Armed { name: name.to_owned(), left: Mutex::new(count.parse().ok()?) })
    });
    let Some(armed) = armed.as_ref().filter(|armed| armed.name == name) else { return };
    let Ok(mut left) = armed.left.lock() else { return };
    *left = left.saturating_sub(1);
    if *left == 0 {
        // Nothing can be done about a refusal: the test that armed the point sees that we live on.
        let _ = kill(Pid::this(), Signal::SIGKILL);
    }
}
