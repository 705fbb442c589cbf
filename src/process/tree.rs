//! Everything an agent has started, and its end.
//!
//! A tree is found by five nets, because each alone has a hole: descent from us (as subreaper we inherit
//! whatever its parent left behind), the session and group of the agent, a mark in the environment, a control
//! group where the system allows one, and descent from anything found so. The search is repeated until it finds nothing, so a fork during one
//! round is met in the next.
//!
//! Invariants: signals go through a handle whose process was checked again after opening; adopted orphans
//! are reaped by number, never "any child", which would steal the runtime's own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use tokio::time::Instant;

use super::cgroup;
use super::identity::{self, Stat};

/// What belongs to one run.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The entry of the environment that marks it: `NAME=value`.
    pub mark: String,
    /// The name of its control group.
    pub cgroup: String,
    /// The agent itself, which leads a session: its number and start.
    pub leader: Option<(u32, u64)>,
    /// Whether whatever descends from this process belongs to it.
    pub descendants: bool,
}

/// What it took to empty a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Emptied {
    /// Processes besides the agent itself that were still there.
    pub killed: u32,
}

/// Makes this process the parent of whatever its descendants leave behind.
///
/// # Errors
/// When the kernel refuses.
pub fn become_subreaper() -> std::io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

impl Tree {
    /// Its living processes: number and start.
    #[must_use]
    pub fn members(&self) -> BTreeSet<(u32, u64)> {
        let all = snapshot();
        let me = std::process::id();
        let leader_session = self.leader.map(|(pid, _)| pid).filter(|pid| self.session_is_ours(*pid, &all));
        let mut found: BTreeSet<u32> = BTreeSet::new();
        for (pid, stat) in &all {
            let by_session =
                leader_session.is_some_and(|leader| stat.session == leader || stat.group == leader);
            if *pid != me && (by_session || self.is_marked(*pid) || cgroup::holds(&self.cgroup, *pid)) {
                found.insert(*pid);
            }
        }
        let mut roots = found.clone();
        if self.descendants {
            roots.insert(me);
        }
        let mut fresh = roots;
        while !fresh.is_empty() {
            let children: BTreeSet<u32> = all
                .iter()
                .filter(|(pid, stat)| **pid != me && fresh.contains(&stat.parent) && !found.contains(pid))
                .map(|(pid, _)| *pid)
                .collect();
            found.extend(&children);
            fresh = children;
        }
        found
            .into_iter()
            .filter_map(|pid| all.get(&pid).filter(|stat| !stat.is_dead()).map(|stat| (pid, stat.start_time)))
            .collect()
    }

    /// The session's number may have passed to a stranger once its leader and all members were gone.
    fn session_is_ours(&self, leader: u32, all: &BTreeMap<u32, Stat>) -> bool {
        let Some((_, start)) = self.leader else { return false };
        all.get(&leader).is_none_or(|now| now.start_time == start)
    }

    fn is_marked(&self, pid: u32) -> bool {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| bytes.split(|b| *b == 0).any(|entry| entry == self.mark.as_bytes()))
    }

    /// Empties it: TERM, the grace, KILL until nothing is left.
    pub async fn empty(&self, grace: Duration, pause: Duration) -> Emptied {
        let mut met: BTreeSet<(u32, u64)> = BTreeSet::new();
        let mut asked: BTreeSet<(u32, u64)> = BTreeSet::new();
        let deadline = Instant::now() + grace;
        loop {
            self.reap();
            let alive = self.members();
            if alive.is_empty() {
                break;
            }
            met.extend(&alive);
            let late = Instant::now() >= deadline;
            for member in &alive {
                if late {
                    signal(*member, Signal::SIGKILL);
                } else if asked.insert(*member) {
                    ask_to_end(*member);
                }
            }
            tokio::time::sleep(pause).await;
        }
        self.reap();
        let killed = met.iter().filter(|member| self.leader != Some(**member)).count();
        Emptied { killed: u32::try_from(killed).unwrap_or(u32::MAX) }
    }

    /// Takes the exit of adopted orphans, which nobody else waits for.
    pub fn reap(&self) {
        if !self.descendants {
            return;
        }
        let me = std::process::id();
        let agent = self.leader.map(|(pid, _)| pid);
        for (pid, stat) in snapshot() {
            if stat.parent == me && stat.is_dead() && Some(pid) != agent {
                let Ok(number) = i32::try_from(pid) else { continue };
                // Somebody else may have been faster; then there is nothing left to do.
                let _ = waitpid(Pid::from_raw(number), Some(WaitPidFlag::WNOHANG));
            }
        }
    }
}

fn snapshot() -> BTreeMap<u32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| Some((pid, identity::stat(pid)?)))
        .collect()
}

/// Asks one process, by number and start, to end: TERM.
pub fn ask_to_end(process: (u32, u64)) {
    signal(process, Signal::SIGTERM);
    // A stopped process takes its TERM only once it goes on.
    signal(process, Signal::SIGCONT);
}

fn signal((pid, start): (u32, u64), signal: Signal) {
    let Ok(handle) = identity::pidfd(pid) else { return };
    if identity::stat(pid).is_some_and(|now| now.start_time == start) {
        send(&handle, signal);
    }
}

fn send(handle: &OwnedFd, signal: Signal) {
    #[expect(unsafe_code, reason = "neither std nor nix has pidfd_send_signal")]
    // SAFETY: the descriptor is open while borrowed; a null siginfo is allowed.
    unsafe {
        // A process that has ended by now needs no signal.
        let _ = libc::syscall(
            libc::SYS_pidfd_send_signal,
            handle.as_raw_fd(),
            signal as libc::c_int,
            std::ptr::null::<libc::siginfo_t>(),
            0_u32,
        );
    }
}
