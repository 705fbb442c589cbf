//! Supervisors on this machine that this daemon has no record of.
//!
//! The same daemon id may have run with another state directory (another profile, another home): what that one
//! started works on, and this one is asked to stop it. Invariant: when [`stop`] returns, nothing of that claim
//! that this account can find is left on the machine.

use std::collections::BTreeSet;

use super::run::Daemon;
use super::state::RunId;
use super::unreadable;
use crate::process::{identity, tree};
use crate::supervisor::remote;

/// What the kernel adds to the path of an open file that has no name any more.
const DELETED: &str = " (deleted)";

/// Ends every supervisor of that claim, then whatever else of it runs; waits until it is gone, however long that
/// takes: who says that nothing is left lets the next one in.
pub async fn stop(daemon: &Daemon, run: RunId) {
    let limits = &daemon.config.limits;
    let (mut asked, mut wait) = (BTreeSet::new(), limits.knock.duration());
    loop {
        let living = supervisors(run);
        if living.is_empty() {
            break;
        }
        for supervisor in living {
            if asked.insert(supervisor) {
                tracing::warn!(
                    task = %run.task, generation = run.generation, pid = supervisor.0,
                    "a supervisor of another state directory works for it: asked to end",
                );
                // It empties its tree, puts the directory in order and only then ends.
                tree::ask_to_end(supervisor);
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(limits.lock_retry.duration());
    }
    // One that had not begun to listen for signals, or was killed, leaves an agent.
    unreadable::empty(daemon, run).await;
}

/// The living supervisors of that claim: number and start.
///
/// Any program can be started with a supervisor's words, so the words alone are worth nothing: it must also have
/// the lock file of that very run open, which a supervisor gets from its daemon, and which tells its claims apart.
/// What a process has open is shown by the kernel to its own account and to root only, and those are the ones
/// whose processes we may end at all. A program of that account that pretends to both ends nobody but itself.
fn supervisors(run: RunId) -> Vec<(u32, u64)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let me = std::process::id();
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != me && remote::supervised_by(*pid) == Some(run.task))
        .filter_map(|pid| Some((pid, identity::stat(pid).filter(|stat| !stat.is_dead())?.start_time)))
        .filter(|(pid, _)| has_open(*pid, run))
        .collect()
}

/// Whether a process has a lock file of that run open.
fn has_open(pid: u32, run: RunId) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.filter_map(Result::ok).filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.trim_end_matches(DELETED).strip_suffix(".lock").and_then(RunId::parse) == Some(run)
    })
}
