//! A recorded run whose notes can't be read any more: a disk's damage, or somebody's hand.
//!
//! Without them it can't be recovered step by step. Invariants: nothing of it runs on, what it has reported
//! is delivered, its task ends by name and its directory is free again; what may be left is said.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use super::enter::{fail_own, forget};
use super::lives::Phase;
use super::outbox::Outbox;
use super::run::Daemon;
use super::state::{RunId, read_json};
use super::supervisors::{Left, Traces, UNBEGUN_ORDINAL, attend, finish, is_unsupervised, left};
use crate::execenv::environment;
use crate::process::cgroup;
use crate::process::tree::Tree;
use crate::supervisor::frame::TaskRecord;

/// Takes such a run up: when this returns, nothing of it works in a directory without a supervisor.
pub async fn take_up(daemon: &Arc<Daemon>, run: RunId) {
    tracing::error!(task = %run.task, generation = run.generation, "a recorded run can't be read: it is ended");
    let Some(cancel) = daemon.lives.begin(run, "", Phase::Recovering) else { return };
    if is_unsupervised(daemon, run) {
        empty(daemon, run).await;
    }
    tokio::spawn(end(Arc::clone(daemon), run, cancel));
}

/// Ends everything that carries the run's mark.
pub async fn empty(daemon: &Daemon, run: RunId) {
    let tree = Tree {
        mark: environment::mark(run.task, run.generation),
        cgroup: cgroup::name(&run.task.to_string(), run.generation),
        leader: None,
        descendants: false,
    };
    let limits = &daemon.config.limits;
    tree.empty(limits.kill_grace.duration(), limits.tree_pause.duration()).await;
}

async fn end(daemon: Arc<Daemon>, run: RunId, mut cancel: watch::Receiver<Option<String>>) {
    let record: Option<TaskRecord> = read_json(&daemon.state.of_run(run, "json"));
    let outbox = Outbox::open(&daemon, run);
    if let Some(record) = &record {
        let limits = daemon.config.limits.clone();
        let traces = Traces { env_root: PathBuf::from(&record.env_root), uid: record.uid, limits };
        attend(&daemon, run, &traces, &outbox, &mut cancel, false).await;
        if matches!(left(&daemon, run, &traces, &outbox).await, Left::Nothing) {
            return finish(&daemon, run, &traces.env_root);
        }
    }
    while !is_unsupervised(&daemon, run) {
        tokio::time::sleep(daemon.config.limits.lock_retry.duration()).await;
    }
    empty(&daemon, run).await;
    let place = record.as_ref().and_then(|record| record.directory.clone());
    let left = place.map_or_else(String::new, |place| format!(", and context files may be left in {place}"));
    let sentence = format!("what this machine had noted of the run can't be read: the run was ended{left}");
    let directory = record.and_then(|record| record.directory_id);
    fail_own(&daemon, run, UNBEGUN_ORDINAL, directory, "machine_error".to_owned(), sentence).await;
    forget(&daemon, run);
}
