//! Whether the server still wants what a living supervisor works for.
//!
//! While this daemon was away, the task may have been given up, cancelled or given to somebody else, and the order
//! to stop answered by another process: then no order comes.

use std::sync::Arc;

use serde::Deserialize;

use super::run::Daemon;
use super::state::RunId;
use crate::client::api::Call;
use crate::kernel::error_chain::Chain;

/// The answer of `GET /api/daemon/tasks/{id}/status`.
#[derive(Debug, Deserialize)]
struct Standing {
    status: String,
    generation: u32,
}

impl Standing {
    /// Why a claim of that task is to end; none while it is wanted. A parked one may be: it waits for a foreign
    /// lock.
    fn reason_to_end(&self, generation: u32) -> Option<&'static str> {
        match self.status.as_str() {
            "completed" | "failed" | "cancelled" => Some("cancelled"),
            _ if self.generation != generation => Some("stale_generation"),
            // The claim was given back: another one comes.
            "queued" => Some("stale_generation"),
            _ => None,
        }
    }
}

/// Asks until there is an answer, and ends the life that isn't wanted any more.
pub async fn end_unless_wanted(daemon: Arc<Daemon>, run: RunId) {
    let path = format!("/api/daemon/tasks/{}/status", run.task);
    let mut tries = 0;
    while daemon.lives.phase_of(run).is_some() {
        let error = match daemon.api.call::<Standing>(Call::get(&path)).await {
            Ok(standing) => {
                if let Some(reason) = standing.reason_to_end(run.generation) {
                    tracing::warn!(
                        task = %run.task, generation = run.generation, status = standing.status,
                        "it isn't wanted any more: ended",
                    );
                    daemon.lives.cancel(run, reason);
                }
                return;
            }
            Err(error) => error,
        };
        let wait = daemon.failed("status", &error, &mut tries);
        // A token that is refused may be renewed.
        if !error.is_transient() && !matches!(error.status(), Some(401 | 403)) {
            // Whether the server knows the task at all is told by its reports.
            tracing::warn!(task = %run.task, error = %Chain(&error), "the server doesn't say whether it is wanted");
            return;
        }
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_ends_with_its_task_or_for_another_claim_and_not_while_it_waits() {
        let reason =
            |status: &str, generation| Standing { status: status.to_owned(), generation }.reason_to_end(2);
        for over in ["completed", "failed", "cancelled"] {
            assert_eq!(reason(over, 2), Some("cancelled"));
        }
        for wanted in ["dispatched", "running", "waiting_local_directory"] {
            assert_eq!((reason(wanted, 2), reason(wanted, 3)), (None, Some("stale_generation")));
        }
        assert_eq!(reason("queued", 2), Some("stale_generation"));
    }
}
