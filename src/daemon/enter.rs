//! From a claim (or a promotion) to a supervisor: receipt, place, grant, record, start.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::inspect::inspect;
use super::outbox::{Sent, send};
use super::run::Daemon;
use super::state::{RunId, write_json};
use super::supervisors;
use crate::domain::directory::Place;
use crate::execenv::directory::Inspected;
use crate::execenv::identity;
use crate::kernel::ids::DirectoryId;
use crate::supervisor::frame::{Charge, Workplace};
use crate::wire::daemon::{
    AssignedResource, Assignment, DirectoryIdentity, EndingReport, Grant, Report, ReportBody,
};

/// The daemon's own reports count from here, out of the way of the run's journal, which counts from 1.
const OWN_ORDINALS: u64 = 1 << 32;

/// The failure reason of an assignment that isn't one.
const IDENTITY: &str = "invalid_task_identity";

/// How a task came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// By a claim.
    Claimed,
    /// By a promotion, ordered at that position.
    Promoted {
        /// The order's.
        position: i64,
    },
}

impl Entry {
    /// The ordinal of the reports that belong to it.
    pub fn ordinal(self) -> u64 {
        match self {
            Self::Claimed => OWN_ORDINALS,
            Self::Promoted { position } => own_ordinal(position),
        }
    }
}

/// The ordinal of what is reported because of an order.
pub fn own_ordinal(position: i64) -> u64 {
    OWN_ORDINALS + position.unsigned_abs()
}

/// `tasks/….pending`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// People's name of the task.
    pub name: String,
}

/// Why a task ends before it has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unfit {
    reason: String,
    sentence: String,
}

/// What comes next.
enum Next {
    /// The daemon has nothing more to do with it.
    Forget,
    /// It can be started.
    Start(Box<Charge>, Option<(PathBuf, DirectoryId)>),
}

/// What has been asked for by the time somebody cancels.
#[derive(Debug, Default)]
struct Asked {
    directory: Option<DirectoryId>,
    received: bool,
}

/// Takes a task from its arrival to its supervisor, and follows it to its end.
pub async fn enter(
    daemon: Arc<Daemon>,
    assignment: Assignment,
    entry: Entry,
    mut cancel: watch::Receiver<Option<String>>,
) {
    let run = RunId { task: assignment.id, generation: assignment.generation };
    let pending = Pending { name: assignment.name.clone() };
    if let Err(error) = write_json(&daemon.state.of_run(run, "pending"), &pending) {
        // Without it a crash in the next moments leaves the claim to the server's own clocks.
        tracing::warn!(error = %error, "can't note the claim");
    }
    let mut asked = Asked::default();
    let next = tokio::select! {
        biased;
        reason = cancelled(&mut cancel) => {
            give_up(&daemon, run, entry, &asked, &reason).await;
            Next::Forget
        }
        next = arrive(&daemon, &assignment, entry, &mut asked) => next,
    };
    match next {
        Next::Forget => forget(&daemon, run),
        Next::Start(charge, place) => match supervisors::record_and_start(&daemon, run, &charge, place) {
            Ok(child) => supervisors::follow(daemon, run, *charge, Some(child), cancel).await,
            Err(error) => {
                tracing::error!(task = %assignment.name, error = %error, "can't start a supervisor");
                let unfit = Unfit {
                    reason: "machine_error".to_owned(),
                    sentence: format!("the daemon can't start a supervisor: {error}"),
                };
                fail(&daemon, run, entry, &asked, unfit).await;
                forget(&daemon, run);
            }
        },
    }
}

/// Forgets a run, on disk and in memory.
pub fn forget(daemon: &Daemon, run: RunId) {
    if let Err(error) = daemon.state.forget(run) {
        tracing::warn!(task = %run.task, error = %error, "can't remove the run's record");
    }
    daemon.lives.end(run);
}

/// Waits for a reason to stop.
pub async fn cancelled(cancel: &mut watch::Receiver<Option<String>>) -> String {
    let reason = cancel.wait_for(Option::is_some).await.map(|reason| reason.clone().unwrap_or_default());
    match reason {
        Ok(reason) => reason,
        // The life was ended elsewhere: nobody can ask any more.
        Err(_) => std::future::pending().await,
    }
}

async fn arrive(daemon: &Arc<Daemon>, assignment: &Assignment, entry: Entry, asked: &mut Asked) -> Next {
    let run = RunId { task: assignment.id, generation: assignment.generation };
    match report(daemon, run, entry, ReportBody::Receipt {}).await {
        Sent::Accepted(answer) if is_over(&answer.status) => return Next::Forget,
        Sent::Accepted(_) => asked.received = true,
        Sent::Refused(error) => {
            let chain = crate::kernel::error_chain::Chain(&error).to_string();
            tracing::info!(task = %assignment.name, error = %chain, "the receipt was refused: nothing is done");
            return Next::Forget;
        }
        Sent::Stale | Sent::Gone | Sent::Superseded => return Next::Forget,
    }
    let resource = match fit(daemon, assignment)
        .and_then(|()| own_directory(assignment, &daemon.config.daemon_id))
    {
        Ok(None) if assignment.directory.is_some() => {
            // What was to be done there isn't done elsewhere: nobody would find it.
            asked.directory = assignment.directory;
            let sentence = "the directory was detached from the project while the task waited for it";
            let unfit = Unfit { reason: "local_directory_error".to_owned(), sentence: sentence.to_owned() };
            fail(daemon, run, entry, asked, unfit).await;
            return Next::Forget;
        }
        Ok(None) => return Next::Start(Box::new(charge(daemon, assignment, Workplace::Managed, None)), None),
        Ok(Some(resource)) => resource,
        Err(unfit) => {
            fail(daemon, run, entry, asked, unfit).await;
            return Next::Forget;
        }
    };
    match in_place(daemon, assignment, entry, asked, resource).await {
        Ok(next) => next,
        Err(unfit) => {
            fail(daemon, run, entry, asked, unfit).await;
            Next::Forget
        }
    }
}

async fn in_place(
    daemon: &Arc<Daemon>,
    assignment: &Assignment,
    entry: Entry,
    asked: &mut Asked,
    resource: &AssignedResource,
) -> Result<Next, Unfit> {
    let run = RunId { task: assignment.id, generation: assignment.generation };
    // Whatever an earlier life left in a directory is put in order before anybody is let in.
    let mut recovered = daemon.recovered.subscribe();
    drop(recovered.wait_for(|done| *done).await);
    let typed =
        resource.resource_ref.get("local_path").and_then(serde_json::Value::as_str).unwrap_or_default();
    asked.directory = assignment.directory;
    let found = inspect(daemon, typed).await.map_err(|error| Unfit {
        reason: "local_directory_error".to_owned(),
        sentence: format!("the directory can't be looked at: {error}"),
    })?;
    let Inspected::Usable { path, real_path, real_path_bytes, device, inode, boot_id, owner, .. } = found
    else {
        let Inspected::Refused { failure_reason, sentence, next_step, .. } = found else {
            return Ok(Next::Forget);
        };
        return Err(Unfit { reason: failure_reason, sentence: format!("{sentence}. {next_step}") });
    };
    let here = DirectoryIdentity { boot_id: boot_id.clone(), device, inode };
    let own = DirectoryId::of(assignment.workspace_id, daemon.machine, &real_path_bytes);
    // By another path of it, its queue is the one that it waited in.
    let directory =
        assignment.directory.filter(|_| assignment.directory_identity.as_ref() == Some(&here)).unwrap_or(own);
    let label = label(resource, &real_path);
    if assignment.directory != Some(directory) {
        // Of another boot, device and inode say nothing: the server is asked anew by what is found now.
        let comparable =
            assignment.directory_identity.as_ref().is_none_or(|then| then.boot_id == here.boot_id);
        if assignment.directory.is_some() && comparable {
            return Err(Unfit {
                reason: "local_directory_error".to_owned(),
                sentence: "the path leads to another directory than the one that was waited for".to_owned(),
            });
        }
        let place = Place {
            machine: daemon.machine,
            real_path: real_path.clone(),
            device,
            inode,
            boot_id,
            label: label.clone(),
        };
        asked.directory = Some(directory);
        let body = ReportBody::EnterDirectory { directory, place, resource: resource.id };
        match report(daemon, run, entry, body).await {
            Sent::Accepted(answer) => match answer.grant {
                Some(Grant::Acquired {}) => {}
                Some(Grant::Queued { place }) => {
                    tracing::info!(task = %assignment.name, place, "waits for the directory; the server calls");
                    return Ok(Next::Forget);
                }
                None => return Ok(Next::Forget),
            },
            Sent::Refused(error) => {
                return Err(Unfit {
                    reason: "local_directory_error".to_owned(),
                    sentence: error.refused().map_or_else(|| error.to_string(), |r| r.sentence.clone()),
                });
            }
            Sent::Stale | Sent::Gone | Sent::Superseded => return Ok(Next::Forget),
        }
    }
    let place = Some((PathBuf::from(&real_path), directory));
    let workplace = Workplace::InPlace { path, real_path, device, inode, directory, label };
    let mut charge = charge(daemon, assignment, workplace, None);
    charge.owner = owner;
    Ok(Next::Start(Box::new(charge), place))
}

/// What must hold before anything of a task is made on this machine.
fn fit(daemon: &Daemon, assignment: &Assignment) -> Result<(), Unfit> {
    identity::check(assignment)
        .map_err(|flaw| Unfit { reason: IDENTITY.to_owned(), sentence: flaw.to_string() })?;
    let offered = daemon
        .registered
        .borrow()
        .iter()
        .any(|known| known.runtimes.iter().any(|runtime| runtime.id == assignment.runtime_id));
    if offered {
        return Ok(());
    }
    let provider = &assignment.agent.provider;
    Err(Unfit {
        reason: "runtime_offline".to_owned(),
        sentence: format!("this daemon doesn't offer the task's runtime (`{provider}`) any more"),
    })
}

/// The directory of this daemon among the project's resources. Two, or a mode that this build can't do, are
/// an error: choosing for the person could work in the wrong place.
fn own_directory<'a>(
    assignment: &'a Assignment,
    daemon_id: &str,
) -> Result<Option<&'a AssignedResource>, Unfit> {
    let unfit = |sentence: String| Unfit { reason: "local_directory_error".to_owned(), sentence };
    let text = |resource: &AssignedResource, key: &str| {
        resource
            .resource_ref
            .get(key)
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    if assignment.is_leader_task {
        // It speaks for a squad and touches no code: nobody's directory is taken, or even looked at.
        return Ok(None);
    }
    let mut own = None;
    for resource in assignment.project_resources.iter().filter(|r| r.resource_type == "local_directory") {
        let daemon = text(resource, "daemon_id");
        if daemon.is_empty() {
            return Err(unfit("a local_directory of the project names no daemon".to_owned()));
        }
        if daemon != daemon_id {
            continue;
        }
        if let Some(first) = own.replace(resource) {
            let (one, other) = (text(first, "local_path"), text(resource, "local_path"));
            return Err(unfit(format!("the project has two directories on this machine: {one} and {other}")));
        }
    }
    let Some(resource) = own else { return Ok(None) };
    match text(resource, "execution_mode").as_str() {
        "" | "in_place" => Ok(Some(resource)),
        other => Err(unfit(format!(
            "this daemon ({}) can't work in mode `{other}`, and doesn't work in place instead",
            env!("CARGO_PKG_VERSION")
        ))),
    }
}

fn label(resource: &AssignedResource, real_path: &str) -> String {
    let inside = resource.resource_ref.get("label").and_then(serde_json::Value::as_str);
    let label = resource.label.as_deref().or(inside).filter(|label| !label.is_empty());
    label.unwrap_or_else(|| real_path.rsplit('/').next().unwrap_or(real_path)).to_owned()
}

fn charge(
    daemon: &Daemon,
    assignment: &Assignment,
    workplace: Workplace,
    owner: Option<crate::process::owner::Owner>,
) -> Charge {
    let run = RunId { task: assignment.id, generation: assignment.generation };
    let env_root =
        daemon.config.work_root.join(assignment.workspace_id.to_string()).join(assignment.id.key());
    let found = daemon.providers.borrow();
    let program = found.iter().flatten().find(|f| f.pinned && f.provider.id() == assignment.agent.provider);
    Charge {
        assignment: assignment.clone(),
        workplace,
        owner,
        env_root: env_root.display().to_string(),
        record: daemon.state.of_run(run, "json").display().to_string(),
        server_url: daemon.api.server_url().to_owned(),
        machine: daemon.machine,
        daemon_id: daemon.config.daemon_id.clone(),
        daemon_port: Some(daemon.port),
        slot: daemon.lives.slot(run),
        executable_dir: daemon.executable.parent().map(|p| p.display().to_string()).unwrap_or_default(),
        provider_program: program.and_then(|f| f.program.as_ref()).map(|p| p.display().to_string()),
        temporary_base: daemon.config.environment.get("MULTICA_AGENT_TEMP_BASE").map(str::to_owned),
        limits: daemon.config.limits.clone(),
    }
}

async fn give_up(daemon: &Daemon, run: RunId, entry: Entry, asked: &Asked, reason: &str) {
    match reason {
        "interrupted" if asked.received => {
            report(daemon, run, entry, ReportBody::Return { reason: "daemon_stopping".to_owned() }).await;
        }
        "cancelled" => acknowledge_cancel(daemon, run, entry.ordinal(), asked.directory).await,
        _ => {}
    }
}

/// Says that a cancelled task has nothing left here.
pub async fn acknowledge_cancel(daemon: &Daemon, run: RunId, ordinal: u64, directory: Option<DirectoryId>) {
    let ack = ReportBody::CancelAck { failure_reason: None, error_message: None, directory };
    for body in [ReportBody::CancelReceived {}, ack] {
        send_own(daemon, run, ordinal, body).await;
    }
}

async fn fail(daemon: &Daemon, run: RunId, entry: Entry, asked: &Asked, unfit: Unfit) {
    tracing::warn!(task = %run.task, reason = %unfit.reason, error = %unfit.sentence, "the task can't begin");
    fail_own(daemon, run, entry.ordinal(), asked.directory, unfit.reason, unfit.sentence).await;
}

/// Ends a task whose assignment can't be read: given again, it would be the same.
pub async fn refuse_unreadable(daemon: Arc<Daemon>, run: RunId, entry: Entry, error: serde_json::Error) {
    let sentence = format!("the assignment can't be read: {error}");
    let asked = Asked::default();
    if let Sent::Accepted(answer) = report(&daemon, run, entry, ReportBody::Receipt {}).await
        && !is_over(&answer.status)
    {
        fail(&daemon, run, entry, &asked, Unfit { reason: IDENTITY.to_owned(), sentence }).await;
    }
    forget(&daemon, run);
}

/// Ends a task that has no supervisor to say it.
pub async fn fail_own(
    daemon: &Daemon,
    run: RunId,
    ordinal: u64,
    directory: Option<DirectoryId>,
    failure_reason: String,
    error: String,
) {
    let ending = EndingReport { directory, ..EndingReport::default() };
    send_own(daemon, run, ordinal, ReportBody::Fail { error, failure_reason, ending }).await;
}

async fn report(daemon: &Daemon, run: RunId, entry: Entry, body: ReportBody) -> Sent {
    send_own(daemon, run, entry.ordinal(), body).await
}

/// Sends a report of the daemon itself.
pub async fn send_own(daemon: &Daemon, run: RunId, ordinal: u64, body: ReportBody) -> Sent {
    let report = Report { generation: run.generation, ordinal, occurred_at: jiff::Timestamp::now(), body };
    send(daemon, run, &report).await
}

fn is_over(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled")
}
