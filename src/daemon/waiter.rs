//! A task that has a directory's grant and found a foreign program's lock on it.
//!
//! It has no slot meanwhile. The lock is tried by a short process as the directory's owner, and given up at
//! once: the server promotes the task, and its next supervisor takes it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use super::enter::{cancelled, forget, own_ordinal, send_own};
use super::lives::Phase;
use super::outbox::Sent;
use super::run::Daemon;
use super::state::RunId;
use super::supervisors::directory_of;
use crate::execenv::lock_probe::{BUSY, TryLock};
use crate::process::child::{Cwd, Input, Output, Spawn};
use crate::supervisor::frame::{Charge, Workplace};
use crate::wire::daemon::{LockReport, ReportBody};

/// The server's code for a promotion that has to wait for a slot.
const NO_FREE_SLOT: &str = "no_free_slot";

/// Waits until the lock is free, says so, and leaves the rest to the server's order; or until cancelled.
pub async fn wait_for_lock(
    daemon: Arc<Daemon>,
    run: RunId,
    charge: Charge,
    cancel: watch::Receiver<Option<String>>,
) {
    daemon.lives.phase(run, Phase::Waiting);
    tracing::info!(task = %charge.assignment.name, "a foreign program has the directory's lock");
    let retry = daemon.config.limits.lock_retry.duration();
    let mut asked = cancel.clone();
    let promoted = async {
        loop {
            while is_busy(&daemon, &charge).await {
                tokio::time::sleep(retry).await;
            }
            match told_free(&daemon, run, &charge).await {
                Told::Again => tokio::time::sleep(retry).await,
                Told::Heard => return,
                Told::Unknown => return forget(&daemon, run),
            }
        }
    };
    tokio::select! {
        biased;
        // Who cancelled acknowledges it, see `orders`; the life is ended there.
        _ = cancelled(&mut asked) => {}
        // The record stays until the promotion starts it again, or a cancel ends it.
        () = promoted => {}
        // It was promoted without that word.
        () = ended(cancel.clone()) => {}
    }
}

/// Waits until the life is over, or another one has begun.
async fn ended(mut cancel: watch::Receiver<Option<String>>) {
    while cancel.changed().await.is_ok() {}
}

/// What came of saying that the lock is free.
enum Told {
    /// It has to be said again: no slot is free to go on with.
    Again,
    /// The server has it: its order is next.
    Heard,
    /// The server knows no such claim any more: no order will come.
    Unknown,
}

/// Says that the lock is free.
async fn told_free(daemon: &Daemon, run: RunId, charge: &Charge) -> Told {
    let Some(directory) = directory_of(charge) else { return Told::Unknown };
    // A wait of its own each time: the same task may be blocked again later.
    let ordinal = own_ordinal(jiff::Timestamp::now().as_microsecond());
    let body = ReportBody::DirectoryLock { directory, lock: LockReport::Free {} };
    match send_own(daemon, run, ordinal, body).await {
        Sent::Refused(error) if error.code() == NO_FREE_SLOT => Told::Again,
        Sent::Stale | Sent::Gone => Told::Unknown,
        Sent::Refused(_) | Sent::Accepted(_) | Sent::Superseded => Told::Heard,
    }
}

/// Whether a foreign program has the lock. What can't be asked (no process to be had, a file system that
/// hangs) is asked again.
async fn is_busy(daemon: &Daemon, charge: &Charge) -> bool {
    let Workplace::InPlace { real_path, device, inode, .. } = &charge.workplace else { return false };
    let request =
        TryLock { real_path: real_path.clone(), device: *device, inode: *inode, owner: charge.owner.clone() };
    match ask(daemon, &request).await {
        Ok(code) => code == Some(i32::from(BUSY)),
        Err(error) => {
            tracing::warn!(task = %charge.assignment.name, error = %error, "can't try the directory's lock");
            true
        }
    }
}

async fn ask(daemon: &Daemon, request: &TryLock) -> io::Result<Option<i32>> {
    let mut spawn = Spawn::new(daemon.executable.clone(), Cwd::Path(PathBuf::from("/")));
    spawn.arguments.push("__try-lock".into());
    spawn.stdin = Input::Bytes(serde_json::to_vec(request)?);
    spawn.stdout = Output::Null;
    spawn.stderr = Output::Null;
    spawn.bound = true;
    let mut child = spawn.start()?;
    let limit = daemon.config.limits.prepare.duration();
    Ok(tokio::time::timeout(limit, child.wait()).await??.code)
}
