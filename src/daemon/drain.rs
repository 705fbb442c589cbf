//! A clean stop: no new claims, wait for what runs, stop the rest, say so, sign off.

use std::sync::Arc;

use serde_json::{Value, json};

use super::config::{Ended, Shutdown};
use super::lives::Phase;
use super::run::Daemon;

/// Waits until the daemon is asked to stop, then stops it.
pub async fn stop_when_asked(daemon: &Arc<Daemon>) -> Ended {
    let mut stop = daemon.stop.subscribe();
    if stop.wait_for(|wanted| *wanted != Shutdown::None).await.is_err() {
        std::future::pending::<()>().await;
    }
    let running = daemon.lives.running();
    tracing::info!(running, drain_seconds = daemon.config.drain.as_secs(), "stopping: no new claims");
    say(daemon, "/api/daemon/drain", &drain_body(daemon)).await;
    let busy = |phase| matches!(phase, Phase::Entering | Phase::Supervised | Phase::Recovering);
    tokio::select! {
        () = daemon.lives.wait_without(busy) => {}
        _ = stop.wait_for(|wanted| *wanted == Shutdown::Now) => {}
        () = tokio::time::sleep(daemon.config.drain) => {}
    }
    let interrupted = daemon.lives.cancel_all("interrupted");
    if interrupted > 0 {
        tracing::warn!(interrupted, "stopping what still runs; it is tried again");
    }
    let limits = &daemon.config.limits;
    // TERM and KILL, once for the agent and once for what it left, and the finalize beside them.
    let patience = limits.kill_grace.duration() * 3 + limits.http_timeout.duration();
    if tokio::time::timeout(patience, daemon.lives.wait_without(busy)).await.is_err() {
        tracing::error!(
            "some runs are still being put in order; their supervisors go on with that by themselves"
        );
    }
    // What is over is delivered if the server listens; else the next start does it.
    let told = |phase| phase == Phase::Delivering;
    drop(tokio::time::timeout(limits.farewell.duration(), daemon.lives.wait_without(told)).await);
    let undelivered = daemon.lives.list().iter().filter(|(_, _, phase)| *phase != Phase::Waiting).count();
    // The sign-off ends the drain too: in between it would be given tasks again.
    sign_off(daemon).await;
    tracing::info!(interrupted, undelivered, "stopped");
    Ended::Stopped { interrupted, undelivered }
}

fn drain_body(daemon: &Daemon) -> Value {
    json!({"daemon_id": daemon.config.daemon_id, "incarnation": daemon.incarnation})
}

async fn sign_off(daemon: &Daemon) {
    let runtimes = daemon.registered.borrow().as_ref().map(|r| r.runtimes.clone()).unwrap_or_default();
    let ids: Vec<_> = runtimes.iter().map(|runtime| runtime.id).collect();
    let body =
        json!({"daemon_id": daemon.config.daemon_id, "incarnation": daemon.incarnation, "runtime_ids": ids});
    say(daemon, "/api/daemon/deregister", &body).await;
}

/// Says something once; a server that doesn't hear it finds out by the missing heartbeats.
async fn say(daemon: &Daemon, path: &str, body: &Value) {
    if daemon.registered.borrow().is_none() {
        return;
    }
    let patience = daemon.config.limits.farewell.duration();
    match tokio::time::timeout(patience, daemon.api.post::<Value>(path, body)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::warn!(path, error = %crate::kernel::error_chain::Chain(&error), "couldn't be told");
        }
        Err(_) => tracing::warn!(path, "the server didn't answer in time"),
    }
}
