//! A daemon from its start to its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::config::{DaemonConfig, DaemonError, Ended, Shutdown};
use super::lives::Lives;
use super::providers::{self, Found};
use super::register::{self, Registration};
use super::start::{self, Seat};
use super::state::StateDir;
use super::{claim, drain, health, heartbeat, host, orders, supervisors};
use crate::client::api::{Api, Connection, Past, Written};
use crate::client::error::ClientError;
use crate::kernel::ids::{Incarnation, MachineId};

/// What all parts of a daemon share.
#[derive(Debug)]
pub struct Daemon {
    /// How it runs.
    pub config: DaemonConfig,
    /// The server.
    pub api: Api,
    /// Its files.
    pub state: StateDir,
    /// This start of it.
    pub incarnation: Incarnation,
    /// Its machine.
    pub machine: MachineId,
    /// The executable of supervisors.
    pub executable: PathBuf,
    /// Since when it runs.
    pub started: Instant,
    /// Its local port.
    pub port: u16,
    /// What it has in hand.
    pub lives: Lives,
    /// The providers found.
    pub providers: watch::Sender<Option<Vec<Found>>>,
    /// Its registration, once there is one.
    pub registered: watch::Sender<Option<Registration>>,
    /// All recorded runs have been taken up again.
    pub recovered: watch::Sender<bool>,
    /// What is wanted of it; only ever escalates.
    pub stop: watch::Sender<Shutdown>,
    /// A newer process has its place.
    pub superseded: watch::Sender<bool>,
    /// Whether the last call reached the server.
    pub connected: AtomicBool,
}

/// Runs a daemon in this process until `shutdown` (or its local port) asks it to stop.
///
/// `shutdown` may go from `None` over `Drain` to `Now`; a dropped sender leaves it running.
///
/// # Errors
/// See [`DaemonError`].
pub async fn run(config: DaemonConfig, shutdown: watch::Receiver<Shutdown>) -> Result<Ended, DaemonError> {
    let seat = start::take(&config).await?;
    // Kept until the end: nobody removes the copy that this daemon's runs are started from.
    let (executable, _kept) = host::executable(&config.limits).map_err(DaemonError::Executable)?;
    let api = Api::new(&Connection {
        server_url: config.server_url.clone(),
        token: Some(config.token.clone()),
        workspace: config.workspace.clone(),
        platform: "daemon",
        run: None,
        limits: config.limits.clone(),
        written: Written::default(),
        past: Past::default(),
    })
    .map_err(DaemonError::Refused)?;
    let daemon = Arc::new(Daemon {
        api,
        state: seat.state.clone(),
        incarnation: Incarnation(uuid::Uuid::now_v7()),
        machine: host::machine_id(&config.daemon_id),
        executable,
        started: Instant::now(),
        port: seat.port,
        lives: Lives::default(),
        providers: watch::Sender::new(None),
        registered: watch::Sender::new(None),
        recovered: watch::Sender::new(false),
        stop: watch::Sender::new(Shutdown::None),
        superseded: watch::Sender::new(false),
        connected: AtomicBool::new(false),
        config,
    });
    daemon.state.clear_unfinished();
    mark_work_root(&daemon.config.work_root);
    let ended = go(&daemon, seat, shutdown).await;
    // What is written there is about this process, which is ending.
    drop(std::fs::remove_file(daemon.state.local()));
    ended
}

/// Keeps our own command line, run anywhere below the work root, from taking itself for a person's.
fn mark_work_root(root: &std::path::Path) {
    let path = root.join(crate::client::in_task::MARKER);
    let ours = serde_json::json!({"managed_by": crate::client::in_task::MANAGED_BY});
    match std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok())
    {
        Some(found) if found["managed_by"] == ours["managed_by"] => {}
        Some(_) => {
            tracing::warn!(file = %path.display(), "another tool's file stands where the work root's marker belongs");
        }
        None => {
            let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            let written = written.and_then(|()| {
                crate::process::safe_file::write_atomic(&path, ours.to_string().as_bytes(), 0o644)
            });
            if let Err(error) = written {
                tracing::warn!(file = %path.display(), error = %error, "can't mark the work root");
            }
        }
    }
}

async fn go(
    daemon: &Arc<Daemon>,
    seat: Seat,
    shutdown: watch::Receiver<Shutdown>,
) -> Result<Ended, DaemonError> {
    tracing::info!(daemon = %daemon.config.daemon_id, port = daemon.port, "the daemon starts");
    let mut parts = tokio::task::JoinSet::new();
    parts.spawn(listen(Arc::clone(daemon), shutdown));
    parts.spawn(health::serve(Arc::clone(daemon), seat));
    parts.spawn(heartbeat::beat(Arc::clone(daemon)));
    parts.spawn(supervisors::take_up_all(Arc::clone(daemon)));
    let registering = introduce(daemon);
    let mut superseded = daemon.superseded.subscribe();
    let mut stop = daemon.stop.subscribe();
    tokio::select! {
        refused = registering => refused?,
        _ = stop.wait_for(|wanted| *wanted != Shutdown::None) => {}
    }
    parts.spawn(claim::claims(Arc::clone(daemon)));
    parts.spawn(orders::orders(Arc::clone(daemon)));
    tokio::select! {
        _ = superseded.wait_for(|gone| *gone) => {
            tracing::error!("a newer process of this daemon has registered; this one stops and leaves the runs to it");
            Ok(Ended::Superseded)
        }
        ended = drain::stop_when_asked(daemon) => Ok(ended),
    }
    // Dropping `parts` ends what is left of this process' own work; supervisors are processes of their own.
}

/// Registers with what is found; when looking takes long, first with what every machine has, so that the
/// heartbeats begin and tasks of that provider don't wait for somebody else's slow program.
async fn introduce(daemon: &Arc<Daemon>) -> Result<(), DaemonError> {
    let finding = providers::find_all(&daemon.config.environment, &daemon.config.limits);
    let mut finding = std::pin::pin!(finding);
    let found = match tokio::time::timeout(daemon.config.limits.first_word.duration(), &mut finding).await {
        Ok(found) => found,
        Err(_) => {
            daemon.providers.send_replace(Some(vec![providers::always()]));
            register::register_until_accepted(daemon).await?;
            finding.await
        }
    };
    daemon.providers.send_replace(Some(found));
    register::register_until_accepted(daemon).await
}

/// Passes on what the surroundings want; it only ever escalates.
async fn listen(daemon: Arc<Daemon>, mut shutdown: watch::Receiver<Shutdown>) {
    loop {
        let wanted = *shutdown.borrow_and_update();
        daemon.ask(wanted);
        if shutdown.changed().await.is_err() {
            return;
        }
    }
}

impl Daemon {
    /// Asks it to stop.
    pub fn ask(&self, wanted: Shutdown) {
        self.stop.send_if_modified(|known| {
            let more = wanted > *known;
            *known = wanted.max(*known);
            more
        });
    }

    /// Whether it takes no more claims.
    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow() != Shutdown::None || *self.superseded.borrow()
    }

    /// Notes what a failed call says about the daemon itself, and gives the wait before the next try.
    pub fn failed(&self, what: &str, error: &ClientError, tries: &mut u32) -> Duration {
        let reached = error.status().is_some();
        self.connected.store(reached, Ordering::Relaxed);
        if error.code() == "daemon_superseded" {
            self.superseded.send_replace(true);
        }
        let limits = &self.config.limits;
        let first = limits.report_retry_first.duration();
        let wait = first.saturating_mul(1 << (*tries).min(16)).min(limits.report_retry_max.duration());
        *tries = tries.saturating_add(1);
        // The first few in a row are worth a line each, then only now and then.
        if *tries <= 3 || tries.is_multiple_of(20) {
            let chain = crate::kernel::error_chain::Chain(error).to_string();
            tracing::warn!(call = what, tries = *tries, error = %chain, "a call failed");
        }
        error.refused().and_then(|refused| refused.retry_after).map_or(wait, |asked| asked.min(wait * 4))
    }

    /// Notes that the server was reached.
    pub fn succeeded(&self) {
        self.connected.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S075: what is ours stays, what is torn is written again, what is another tool's is left alone.
    #[test]
    fn the_work_root_s_marker_is_written_where_none_stands_and_nobody_else_s_is_touched() {
        let ours = serde_json::json!({"managed_by": crate::client::in_task::MANAGED_BY}).to_string();
        let same = format!(" {ours}");
        for (before, after) in [
            (None, ours.as_str()),
            (Some(same.as_str()), same.as_str()),
            (Some("{\"managed_by\": \"mult"), ours.as_str()),
            (Some(""), ours.as_str()),
            (Some("{\"managed_by\":\"other\"}"), "{\"managed_by\":\"other\"}"),
            (Some("[1]"), "[1]"),
        ] {
            let root = tempfile::tempdir().expect("a folder");
            let path = root.path().join(crate::client::in_task::MARKER);
            if let Some(before) = before {
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
                std::fs::write(&path, before).expect("written");
            }
            mark_work_root(root.path());
            assert_eq!(std::fs::read_to_string(&path).expect("read"), after, "{before:?}");
        }
    }
}
