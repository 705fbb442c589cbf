//! A task that has a directory's grant and found a foreign program's lock on it.
//!
//! It has no slot meanwhile. The lock is tried on the directory's own handle, and given up at once: the
//! server promotes the task, and its next supervisor takes it.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use super::enter::{cancelled, own_ordinal, send_own};
use super::lives::Phase;
use super::run::Daemon;
use super::state::RunId;
use super::supervisors::directory_of;
use crate::process::lock::{Try, try_directory};
use crate::process::safe_file::device_and_inode;
use crate::supervisor::frame::{Charge, Workplace};
use crate::wire::daemon::{LockReport, ReportBody};

/// Waits until the lock is free, says so, and leaves the rest to the server's order; or until cancelled.
pub async fn wait_for_lock(
    daemon: Arc<Daemon>,
    run: RunId,
    charge: Charge,
    mut cancel: watch::Receiver<Option<String>>,
) {
    daemon.lives.phase(run, Phase::Waiting);
    tracing::info!(task = %charge.assignment.name, "a foreign program has the directory's lock");
    let retry = daemon.config.limits.lock_retry.duration();
    let free = async {
        while !is_free(&charge.workplace) {
            tokio::time::sleep(retry).await;
        }
    };
    tokio::select! {
        biased;
        // Who cancelled acknowledges it, see `orders`; the life is ended there.
        _ = cancelled(&mut cancel) => {}
        () = free => {
            if let Some(directory) = directory_of(&charge) {
                // A wait of its own each time: the same task may be blocked again later.
                let ordinal = own_ordinal(jiff::Timestamp::now().as_microsecond());
                let body = ReportBody::DirectoryLock { directory, lock: LockReport::Free {} };
                send_own(&daemon, run, ordinal, body).await;
            }
            // The record stays until the promotion starts it again, or a cancel ends it.
        }
    }
}

/// Whether the lock can be had. A directory that is gone is "free" too: its next supervisor says what is wrong.
fn is_free(workplace: &Workplace) -> bool {
    let Workplace::InPlace { real_path, device, inode, .. } = workplace else { return true };
    match try_directory(Path::new(real_path)) {
        Ok(Try::Taken(_)) | Err(_) => true,
        Ok(Try::Busy(file)) => device_and_inode(&file).is_ok_and(|found| found != (*device, *inode)),
    }
}
