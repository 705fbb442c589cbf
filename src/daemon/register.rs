//! Telling the server who this daemon is and what it can do.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::config::DaemonError;
use super::run::Daemon;
use super::state::RunId;
use crate::client::api::Call;
use crate::client::error::ClientError;
use crate::kernel::ids::WorkspaceId;
use crate::wire::daemon::{DIRECTORY_QUEUE, KeptClaim, Register, Registered, RegisteredRuntime};

/// What the server made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The workspace it works for.
    pub workspace: WorkspaceId,
    /// Its runtimes.
    pub runtimes: Vec<RegisteredRuntime>,
}

/// Registers; goes on trying while only time is missing.
pub async fn register_until_accepted(daemon: &Arc<Daemon>) -> Result<(), DaemonError> {
    let mut tries = 0;
    loop {
        match register(daemon).await {
            Ok(()) => return Ok(()),
            Err(DaemonError::Refused(error)) if error.is_transient() => {
                let wait = daemon.failed("register", &error, &mut tries);
                tokio::time::sleep(wait).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Registers once.
pub async fn register(daemon: &Arc<Daemon>) -> Result<(), DaemonError> {
    let workspace = workspace(daemon).await?;
    let config = &daemon.config;
    let found = daemon.providers.borrow().clone().unwrap_or_default();
    let body = Register {
        workspace_id: workspace,
        daemon_id: config.daemon_id.clone(),
        machine_id: Some(daemon.machine),
        incarnation: Some(daemon.incarnation),
        device_name: config.device_name.clone(),
        cli_version: env!("CARGO_PKG_VERSION").to_owned(),
        os: std::env::consts::OS.to_owned(),
        capabilities: vec![DIRECTORY_QUEUE.to_owned()],
        runtimes: found.iter().map(|one| one.runtime(&config.device_name)).collect(),
        claims: kept_claims(daemon),
    };
    let registered: Registered =
        daemon.api.post("/api/daemon/register", &body).await.map_err(DaemonError::Refused)?;
    daemon.succeeded();
    tracing::info!(workspace = %workspace, runtimes = registered.runtimes.len(), "registered");
    // The answer also has those that this machine offered once.
    let runtimes = registered.runtimes.into_iter().filter(|runtime| runtime.status != "offline").collect();
    daemon.registered.send_replace(Some(Registration { workspace, runtimes }));
    Ok(())
}

/// Every claim that this machine knows of: what isn't among them is lost to the server. None when the records
/// can't be listed, which doesn't mean that there are none.
fn kept_claims(daemon: &Daemon) -> Option<Vec<KeptClaim>> {
    let listed = daemon.state.pending().and_then(|pending| Ok((pending, daemon.state.runs()?)));
    let (pending, recorded) = match listed {
        Ok(listed) => listed,
        Err(error) => {
            tracing::error!(error = %error, "the recorded runs can't be listed");
            return None;
        }
    };
    let lives = daemon.lives.list().into_iter().map(|(run, ..)| run);
    let all: BTreeSet<RunId> = pending.into_iter().chain(recorded).chain(lives).collect();
    Some(all.into_iter().map(|run| KeptClaim { task: run.task, generation: run.generation }).collect())
}

/// The workspace it works for: the one asked for, else the token's first.
async fn workspace(daemon: &Daemon) -> Result<WorkspaceId, DaemonError> {
    if let Some(known) = daemon.registered.borrow().as_ref() {
        return Ok(known.workspace);
    }
    let wanted = daemon.config.workspace.as_deref();
    let list = match daemon.api.call::<Value>(Call::get("/api/daemon/workspaces")).await {
        Err(ClientError::Refused(refused)) if refused.status == 404 => {
            daemon.api.get::<Value>("/api/workspaces").await
        }
        other => other,
    }
    .map_err(DaemonError::Refused)?;
    let text = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
    let list = list.as_array().or_else(|| list["workspaces"].as_array()).cloned().unwrap_or_default();
    let found = list.iter().find(|item| match wanted {
        Some(wanted) => {
            text(item, "id") == wanted || text(item, "slug") == wanted || text(item, "name") == wanted
        }
        None => true,
    });
    match (found.and_then(|item| text(item, "id").parse().ok()), wanted) {
        (Some(id), _) => Ok(id),
        (None, Some(wanted)) => Err(DaemonError::Workspace(wanted.to_owned())),
        (None, None) => Err(DaemonError::NoWorkspace),
    }
}
