//! Asking for work, as much as there is room for.
//!
//! Invariant: a request whose answer isn't known is sent again, the same under the same key, so that a claim
//! whose answer was lost is given again and not a second one.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::enter;
use super::lives::Phase;
use super::run::Daemon;
use super::state::RunId;
use crate::client::api::Call;
use crate::client::error::ClientError;
use crate::wire::daemon::{Assignment, ClaimRequest};

/// Claims until the daemon stops.
pub async fn claims(daemon: Arc<Daemon>) {
    let mut recovered = daemon.recovered.subscribe();
    if recovered.wait_for(|done| *done).await.is_err() {
        return;
    }
    let mut stop = daemon.stop.subscribe();
    let mut tries = 0;
    let mut open: Option<Request> = None;
    while !daemon.is_stopping() {
        let room = (daemon.config.slots as usize).saturating_sub(daemon.lives.running());
        if room == 0 {
            tokio::select! {
                () = daemon.lives.wait_for_room(daemon.config.slots as usize) => {}
                _ = stop.changed() => {}
            }
            continue;
        }
        let request = open.get_or_insert_with(|| Request::new(&daemon, room));
        let asked = tokio::select! {
            asked = request.send(&daemon) => asked,
            _ = stop.changed() => continue,
        };
        match asked {
            Ok(tasks) => {
                (tries, open) = (0, None);
                daemon.succeeded();
                for assignment in tasks {
                    take(&daemon, assignment);
                }
            }
            Err(error) => {
                if !error.is_transient() {
                    open = None;
                }
                let wait = daemon.failed("claim", &error, &mut tries);
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    _ = stop.changed() => {}
                }
            }
        }
    }
}

/// A request and the key under which it is known.
struct Request {
    key: String,
    body: ClaimRequest,
}

impl Request {
    fn new(daemon: &Daemon, room: usize) -> Self {
        let runtimes = daemon.registered.borrow().as_ref().map(|r| r.runtimes.clone()).unwrap_or_default();
        let body = ClaimRequest {
            daemon_id: daemon.config.daemon_id.clone(),
            runtime_ids: runtimes.iter().map(|runtime| runtime.id).collect(),
            max_tasks: i32::try_from(room).unwrap_or(i32::MAX),
            incarnation: Some(daemon.incarnation),
            wait_ms: Some(daemon.config.limits.claim_poll.0),
        };
        Self { key: format!("claim/{}", uuid::Uuid::now_v7()), body }
    }

    async fn send(&self, daemon: &Daemon) -> Result<Vec<Value>, ClientError> {
        let wait = daemon.config.limits.claim_poll.duration();
        let call = Call::post("/api/daemon/tasks/claim", &self.body)?.key(self.key.clone()).waits(wait);
        let answer: Claimed = daemon.api.call(call).await?;
        Ok(answer.tasks)
    }
}

/// [`crate::wire::daemon::ClaimAnswer`], each assignment still to be read: one that can't be must not keep
/// the others from being taken.
#[derive(Debug, Deserialize)]
struct Claimed {
    tasks: Vec<Value>,
}

fn take(daemon: &Arc<Daemon>, assignment: Value) {
    let claim = claim_of(&assignment);
    match (serde_json::from_value(assignment), claim) {
        (Ok(assignment), _) => begin(daemon, assignment),
        (Err(error), Some(run)) => {
            tracing::error!(task = %run.task, error = %error, "claimed an assignment that can't be read");
            if daemon.lives.begin(run, "", Phase::Entering).is_some() {
                let daemon = Arc::clone(daemon);
                tokio::spawn(enter::refuse_unreadable(daemon, run, enter::Entry::Claimed, error));
            }
        }
        // Nothing can be said of it; the server takes it back for want of a receipt.
        (Err(error), None) => tracing::error!(error = %error, "claimed something that names no task"),
    }
}

/// The claim that an assignment is of, readable or not.
fn claim_of(assignment: &Value) -> Option<RunId> {
    let task = serde_json::from_value(assignment["id"].clone()).ok()?;
    Some(RunId { task, generation: serde_json::from_value(assignment["generation"].clone()).ok()? })
}

fn begin(daemon: &Arc<Daemon>, assignment: Assignment) {
    let run = RunId { task: assignment.id, generation: assignment.generation };
    // Given again after a lost answer, and taken up before: then it goes on by itself.
    let Some(cancel) = daemon.lives.begin(run, &assignment.name, Phase::Entering) else { return };
    tracing::info!(task = %assignment.name, id = %run.task, generation = run.generation, "claimed");
    tokio::spawn(enter::enter(Arc::clone(daemon), assignment, enter::Entry::Claimed, cancel));
}
