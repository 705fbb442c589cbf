//! What the server orders: cancel, promoted, probe.
//!
//! The cursor lives in memory only: a fresh process asks from the beginning and gets every open order again,
//! so that an order noted as seen but not carried out can't be lost. Each is carried out at most once here.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::elsewhere;
use super::enter::{self, Entry, acknowledge_cancel, forget, own_ordinal};
use super::inspect::inspect;
use super::lives::Phase;
use super::run::Daemon;
use super::state::{RunId, read_json};
use crate::client::api::Call;
use crate::client::error::ClientError;
use crate::domain::daemon::ProbeOutcome;
use crate::execenv::directory::Inspected;
use crate::kernel::ids::OrderId;
use crate::supervisor::frame::TaskRecord;
use crate::wire::daemon::{Assignment, Order, OrderBody, Orders, Probed};

/// Carries out orders until the daemon ends.
pub async fn orders(daemon: Arc<Daemon>) {
    let mut recovered = daemon.recovered.subscribe();
    // Before that it isn't known which runs live here, and a cancel would be answered for a run that does.
    if recovered.wait_for(|done| *done).await.is_err() {
        return;
    }
    let mut registered = daemon.registered.subscribe();
    if registered.wait_for(Option::is_some).await.is_err() {
        return;
    }
    let (mut after, mut tries) = (0, 0);
    while !*daemon.superseded.borrow() {
        match next(&daemon, after).await {
            Ok(answer) => {
                tries = 0;
                daemon.succeeded();
                for order in answer.orders {
                    after = after.max(order.position);
                    carry_out(&daemon, order);
                }
                after = after.max(answer.after);
            }
            Err(error) => {
                let wait = daemon.failed("orders", &error, &mut tries);
                tokio::time::sleep(wait).await;
            }
        }
    }
}

async fn next(daemon: &Daemon, after: i64) -> Result<Orders, ClientError> {
    let wait = daemon.config.limits.order_poll;
    let call = Call::get("/api/daemon/orders")
        .query("daemon_id", &daemon.config.daemon_id)
        .query("incarnation", daemon.incarnation)
        .query("after", after)
        .query("wait_ms", wait.0)
        .waits(wait.duration());
    daemon.api.call(call).await
}

fn carry_out(daemon: &Arc<Daemon>, order: Order) {
    let daemon = Arc::clone(daemon);
    match order.body {
        OrderBody::Cancel { task, generation } => {
            tokio::spawn(cancel(daemon, RunId { task, generation }, order.position));
        }
        OrderBody::Promoted { task, generation, .. } => {
            if !daemon.is_stopping() {
                tokio::spawn(promoted(daemon, RunId { task, generation }, order.position));
            }
        }
        OrderBody::Probe { path } => {
            tokio::spawn(probe(daemon, order.id, path));
        }
    }
}

async fn cancel(daemon: Arc<Daemon>, run: RunId, position: i64) {
    tracing::info!(task = %run.task, generation = run.generation, "ordered to stop");
    let phase = daemon.lives.phase_of(run);
    if daemon.lives.cancel(run, "cancelled") && phase != Some(Phase::Waiting) {
        // The run itself reports: that the order came, and that nothing of it is left.
        return;
    }
    // No record of it here doesn't mean that nothing of it is left on this machine.
    elsewhere::stop(&daemon, run).await;
    let record: Option<TaskRecord> = read_json(&daemon.state.of_run(run, "json"));
    acknowledge_cancel(&daemon, run, own_ordinal(position), record.and_then(|r| r.directory_id)).await;
    forget(&daemon, run);
}

async fn promoted(daemon: Arc<Daemon>, run: RunId, position: i64) {
    if daemon.lives.phase_of(run) == Some(Phase::Waiting) {
        daemon.lives.end(run);
    }
    let Some(cancel) = begin(&daemon, run).await else { return };
    let path = format!("/api/daemon/tasks/{}/assignment", run.task);
    let mut tries = 0;
    let assignment = loop {
        match daemon.api.call::<Value>(Call::get(&path).query("generation", run.generation)).await {
            Ok(assignment) => break assignment,
            Err(error) if error.is_transient() => {
                let wait = daemon.failed("assignment", &error, &mut tries);
                tokio::time::sleep(wait).await;
            }
            Err(error) => {
                daemon.failed("assignment", &error, &mut tries);
                return forget(&daemon, run);
            }
        }
    };
    let entry = Entry::Promoted { position };
    match serde_json::from_value::<Assignment>(assignment) {
        Ok(assignment) => {
            tracing::info!(task = %assignment.name, "promoted: the directory is its own");
            enter::enter(daemon, assignment, entry, cancel).await;
        }
        Err(error) => {
            tracing::error!(task = %run.task, error = %error, "promoted with an assignment that can't be read");
            enter::refuse_unreadable(daemon, run, entry, error).await;
        }
    }
}

/// Begins the life of a promoted task. The word that it has to wait may still be on its way through this
/// process: the server promotes faster than an answer is read.
async fn begin(daemon: &Daemon, run: RunId) -> Option<watch::Receiver<Option<String>>> {
    let begun = async {
        loop {
            if let Some(cancel) = daemon.lives.begin(run, "", Phase::Entering) {
                return cancel;
            }
            daemon.lives.wait_for_end(run).await;
        }
    };
    // After that the server has taken the promotion back for want of a receipt.
    tokio::time::timeout(daemon.config.limits.claim_receipt.duration(), begun).await.ok()
}

async fn probe(daemon: Arc<Daemon>, order: OrderId, path: String) {
    let result = match inspect(&daemon, &path).await {
        Ok(Inspected::Usable { real_path, git, can_isolate, .. }) => {
            ProbeOutcome::Usable { real_path, git: git.is_some(), can_isolate }
        }
        Ok(Inspected::Refused { code, sentence, next_step, .. }) => {
            ProbeOutcome::Refused { code, sentence, next_step }
        }
        Err(error) => ProbeOutcome::Refused {
            code: "inspection_failed".to_owned(),
            sentence: format!("the directory can't be looked at: {error}"),
            next_step: "Look at the daemon's log: `multica daemon logs`.".to_owned(),
        },
    };
    let body = Probed { daemon_id: daemon.config.daemon_id.clone(), result };
    let path = format!("/api/daemon/orders/{order}/probed");
    let mut tries = 0;
    loop {
        let sent = match Call::post(&path, &body) {
            Ok(call) => daemon.api.call::<Value>(call.key(format!("probed/{order}"))).await,
            Err(error) => Err(error),
        };
        match sent {
            Ok(_) => return,
            Err(error) => {
                let wait = daemon.failed("probed", &error, &mut tries);
                if !error.is_transient() {
                    return;
                }
                tokio::time::sleep(wait).await;
            }
        }
    }
}
