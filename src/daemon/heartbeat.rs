//! Saying "I live": a task of its own, which nothing else holds up.

use std::sync::Arc;

use serde_json::Value;

use super::register::register;
use super::run::Daemon;
use crate::wire::daemon::Heartbeat;

/// Beats until the process ends: at once after the registration, then at the interval.
pub async fn beat(daemon: Arc<Daemon>) {
    let mut registered = daemon.registered.subscribe();
    if registered.wait_for(Option::is_some).await.is_err() {
        return;
    }
    let body = Heartbeat {
        daemon_id: Some(daemon.config.daemon_id.clone()),
        incarnation: Some(daemon.incarnation),
        runtime_id: None,
    };
    let interval = daemon.config.limits.heartbeat.duration();
    let mut tries = 0;
    while !*daemon.superseded.borrow() {
        match daemon.api.post::<Value>("/api/daemon/heartbeat", &body).await {
            Ok(_) => {
                tries = 0;
                daemon.succeeded();
                tokio::time::sleep(interval).await;
            }
            Err(error) => {
                let wait = daemon.failed("heartbeat", &error, &mut tries);
                // The server doesn't know us any more: its database may be another one, or we were removed.
                if error.status() == Some(404)
                    && let Err(refused) = register(&daemon).await
                {
                    tracing::warn!(error = %crate::kernel::error_chain::Chain(&refused), "can't register again");
                }
                tokio::time::sleep(wait.min(interval)).await;
            }
        }
    }
}
