//! Starting supervisors, talking to them, and taking up again what an earlier daemon started.
//!
//! A run's `.lock`: protects "somebody supervises this run", across processes; held by the supervisor alone
//! (this process gives its descriptor away when it starts one); on a crash the kernel frees it, which is how
//! a dead supervisor is known.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use super::conversation::converse;
use super::enter::{fail_own, forget, own_ordinal};
use super::lives::Phase;
use super::outbox::Outbox;
use super::run::Daemon;
use super::state::{RunId, read_json, write_json};
use super::{standing, unreadable, waiter};
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::DirectoryId;
use crate::kernel::limits::Limits;
use crate::process::child::Running;
use crate::process::owner;
use crate::supervisor::frame::{Charge, TaskRecord, Workplace};
use crate::supervisor::remote::{self, Remote};
use crate::supervisor::{ENV_ROOT_TAKEN, RETRY_LATER, spool};
use crate::wire::daemon::{LockReport, ReportBody};

/// The ordinal of the one report with which this daemon ends a run that its supervisor couldn't begin.
pub(super) const UNBEGUN_ORDINAL: u64 = (1 << 32) - 1;

/// What a run's files say once its supervisor is gone.
pub(super) enum Left {
    /// The server has everything.
    Nothing,
    /// A foreign program has the directory's lock.
    Blocked,
    /// It isn't over; whether the agent may have been started.
    Unfinished { begun: bool },
    /// The files can't be read now.
    Unreadable,
}

/// Where a run's files are, and who may answer for it.
pub(super) struct Traces {
    pub env_root: PathBuf,
    pub uid: u32,
    pub limits: Limits,
}

impl Traces {
    fn of(charge: &Charge) -> Self {
        Self {
            env_root: PathBuf::from(&charge.env_root),
            uid: charge.owner.as_ref().map_or_else(owner::current_uid, |account| account.uid),
            limits: charge.limits.clone(),
        }
    }
}

/// Records a run durably, then starts its supervisor.
pub fn record_and_start(
    daemon: &Daemon,
    run: RunId,
    charge: &Charge,
    directory: Option<(PathBuf, DirectoryId)>,
) -> io::Result<Running> {
    let account = charge.owner.as_ref();
    let record = TaskRecord {
        task: run.task,
        generation: run.generation,
        uid: account.map_or_else(owner::current_uid, |a| a.uid),
        gid: account.map_or_else(owner::current_gid, |a| a.gid),
        env_root: charge.env_root.clone(),
        directory: directory.as_ref().map(|(path, _)| path.display().to_string()),
        directory_id: directory.map(|(_, id)| id),
    };
    let mut kept = charge.clone();
    kept.assignment.auth_token.clear();
    write_json(&daemon.state.of_run(run, "charge"), &kept)?;
    // From here on a crash finds the run and recovers it.
    write_json(&daemon.state.of_run(run, "json"), &record)?;
    if let Some(parent) = Path::new(&charge.env_root).parent() {
        std::fs::create_dir_all(parent)?;
    }
    let child = start(daemon, run, charge, false)?;
    daemon.lives.phase(run, Phase::Supervised);
    Ok(child)
}

fn start(daemon: &Daemon, run: RunId, charge: &Charge, recover: bool) -> io::Result<Running> {
    let lock = std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(daemon.state.of_run(run, "lock"))?;
    lock.try_lock()?;
    let log = std::fs::File::options().create(true).append(true).open(daemon.state.of_run(run, "log"))?;
    let environment = std::env::vars_os().collect();
    remote::start(&daemon.executable, charge, recover, lock.into(), log, environment)
}

/// Whether nobody supervises the run.
pub(super) fn is_unsupervised(daemon: &Daemon, run: RunId) -> bool {
    match std::fs::File::open(daemon.state.of_run(run, "lock")) {
        Ok(file) => file.try_lock_shared().is_ok(),
        Err(_) => true,
    }
}

/// Follows a run to its end: relays its reports, recovers it when its supervisor dies, forgets it at last.
pub async fn follow(
    daemon: Arc<Daemon>,
    run: RunId,
    charge: Charge,
    mut child: Option<Running>,
    mut cancel: watch::Receiver<Option<String>>,
) {
    let outbox = Outbox::open(&daemon, run);
    let traces = Traces::of(&charge);
    let mut fruitless = 0;
    loop {
        attend(&daemon, run, &traces, &outbox, &mut cancel, child.is_some()).await;
        let code = match child.take() {
            Some(mut child) => child.wait().await.ok().and_then(|exit| exit.code),
            None => None,
        };
        match left(&daemon, run, &traces, &outbox).await {
            Left::Nothing => return finish(&daemon, run, &traces.env_root),
            Left::Blocked => {
                return waiter::wait_for_lock(daemon, run, charge, cancel).await;
            }
            Left::Unfinished { begun } => {
                let taken = code == Some(i32::from(ENV_ROOT_TAKEN));
                if !begun && (taken || fruitless >= daemon.config.limits.recoveries) {
                    unbegun(&daemon, run, &charge, taken).await;
                    return finish(&daemon, run, &traces.env_root);
                }
            }
            Left::Unreadable => {}
        }
        if fruitless > 0 || code == Some(i32::from(RETRY_LATER)) {
            let wait = daemon.config.limits.lock_retry.duration() * (1 << fruitless.min(5));
            tokio::time::sleep(wait).await;
        }
        fruitless += 1;
        daemon.lives.phase(run, Phase::Recovering);
        tracing::warn!(task = %run.task, generation = run.generation, "its supervisor is gone: the run is recovered");
        match start(&daemon, run, &charge, true) {
            Ok(started) => child = Some(started),
            Err(error) => tracing::error!(task = %run.task, error = %error, "can't start the recovery"),
        }
    }
}

/// Talks to the supervisor as long as it lives.
pub(super) async fn attend(
    daemon: &Arc<Daemon>,
    run: RunId,
    traces: &Traces,
    outbox: &Outbox,
    cancel: &mut watch::Receiver<Option<String>>,
    started: bool,
) {
    let (root, frame_bytes) = (&traces.env_root, traces.limits.frame_bytes);
    let knock = daemon.config.limits.knock.duration();
    let mut wait = knock;
    loop {
        // Before the knock, so that a supervisor that ends in between is still listened to once more.
        let gone = is_unsupervised(daemon, run);
        if let Ok(mut remote) = Remote::connect(root, run.generation, traces.uid, frame_bytes) {
            converse(&mut remote, outbox, cancel).await;
            wait = knock;
        } else if gone {
            return;
        } else {
            tokio::time::sleep(wait).await;
            // One that was just started answers soon; one that lives and doesn't answer is asked less often.
            wait = if started { wait } else { (wait * 2).min(daemon.config.limits.lock_retry.duration()) };
        }
    }
}

/// Delivers what is on disk, transcript first, and says what is left to do.
pub(super) async fn left(daemon: &Daemon, run: RunId, traces: &Traces, outbox: &Outbox) -> Left {
    if outbox.is_closed() {
        return Left::Nothing;
    }
    let (root, limits) = (&traces.env_root, &traces.limits);
    let reports = match spool::read_reports(root, run.task, run.generation, limits) {
        Ok(reports) => reports,
        Err(error) => {
            tracing::error!(task = %run.task, error = %Chain(&error), "the run's reports can't be read");
            return Left::Unreadable;
        }
    };
    let over = reports.iter().any(|report| spool::is_terminal(&report.body));
    let blocked = matches!(
        reports.last().map(|report| &report.body),
        Some(ReportBody::DirectoryLock { lock: LockReport::Blocked { .. }, .. })
    );
    let begun = reports.iter().any(|report| matches!(report.body, ReportBody::Start {}));
    if !over && !blocked {
        return Left::Unfinished { begun };
    }
    daemon.lives.phase(run, if over { Phase::Delivering } else { Phase::Waiting });
    if !over {
        outbox.reports(&reports).await;
        return Left::Blocked;
    }
    let transcript = tell_transcript(run, traces, outbox);
    tokio::pin!(transcript);
    let limit = daemon.config.limits.transcript_drain.duration();
    let told = tokio::time::timeout(limit, &mut transcript).await.is_ok();
    // A directory and a slot hang on this word: it doesn't wait for one that only adds to the record, and
    // what of that is under way isn't begun anew.
    let end = async {
        outbox.reports(&reports).await;
        if let Some(end) = reports.iter().find(|report| spool::is_terminal(&report.body)) {
            outbox.end(end, own_ordinal(jiff::Timestamp::now().as_microsecond())).await;
        }
    };
    if told {
        end.await;
    } else {
        tokio::join!(end, transcript);
    }
    Left::Nothing
}

/// Tells what the server doesn't have yet of a transcript.
async fn tell_transcript(run: RunId, traces: &Traces, outbox: &Outbox) {
    let (root, limits) = (traces.env_root.clone(), traces.limits.clone());
    let batch = limits.transcript_batch.max(1);
    // Tens of megabytes: to read them takes longer than anybody else may be kept waiting.
    let reading =
        tokio::task::spawn_blocking(move || spool::read_transcript(&root, run.task, run.generation, &limits));
    match reading.await {
        Ok(Ok(messages)) => {
            for batch in messages.chunks(batch) {
                outbox.messages(batch).await;
            }
        }
        // The end must be told even if what was said on the way is damaged.
        Ok(Err(error)) => {
            tracing::error!(task = %run.task, error = %Chain(&error), "the transcript can't be read");
        }
        Err(error) => {
            tracing::error!(task = %run.task, error = %Chain(&error), "the transcript wasn't read");
        }
    }
}

async fn unbegun(daemon: &Daemon, run: RunId, charge: &Charge, taken: bool) {
    if !taken {
        // What its files said may be lost, and something of it may run all the same.
        unreadable::empty(daemon, run).await;
    }
    let said = std::fs::read_to_string(daemon.state.of_run(run, "log")).unwrap_or_default();
    let said = said.lines().last().unwrap_or("it said nothing").to_owned();
    let reason = if taken { "env_root_taken" } else { "machine_error" };
    let directory = directory_of(charge);
    fail_own(
        daemon,
        run,
        UNBEGUN_ORDINAL,
        directory,
        reason.to_owned(),
        format!("the run couldn't begin: {said}"),
    )
    .await;
}

/// The granted directory's stream.
pub fn directory_of(charge: &Charge) -> Option<DirectoryId> {
    match &charge.workplace {
        Workplace::InPlace { directory, .. } => Some(*directory),
        Workplace::Managed => None,
    }
}

/// Removes what only served the delivery, then forgets the run.
pub(super) fn finish(daemon: &Daemon, run: RunId, env_root: &Path) {
    if *daemon.superseded.borrow() {
        // The newer daemon delivers what is left.
        return;
    }
    let folder = env_root.join("runs").join(run.generation.to_string());
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(folder = %folder.display(), error = %error, "can't remove a delivered run's files");
        }
        Ok(()) | Err(_) => {}
    }
    forget(daemon, run);
    tracing::info!(task = %run.task, generation = run.generation, "the server has all of its reports");
}

/// Takes up every recorded run: attaches to the living, recovers the dead, before anything enters a directory.
pub async fn take_up_all(daemon: Arc<Daemon>) {
    let mut recoveries = tokio::task::JoinSet::new();
    for run in daemon.state.runs().unwrap_or_default() {
        let Some(charge) = read_json::<Charge>(&daemon.state.of_run(run, "charge")) else {
            unreadable::take_up(&daemon, run).await;
            continue;
        };
        let Some(cancel) = daemon.lives.begin(run, &charge.assignment.name, Phase::Recovering) else {
            continue;
        };
        recoveries.spawn(take_up(Arc::clone(&daemon), run, charge, cancel));
    }
    while let Some(ended) = recoveries.join_next().await {
        if let Ok((run, charge, child, cancel)) = ended {
            tokio::spawn(follow(Arc::clone(&daemon), run, charge, child, cancel));
        }
    }
    daemon.recovered.send_replace(true);
    give_back_pending(&daemon);
}

type TakenUp = (RunId, Charge, Option<Running>, watch::Receiver<Option<String>>);

async fn take_up(
    daemon: Arc<Daemon>,
    run: RunId,
    charge: Charge,
    cancel: watch::Receiver<Option<String>>,
) -> TakenUp {
    if !is_unsupervised(&daemon, run) {
        tracing::info!(task = %charge.assignment.name, "its supervisor lives: attached again");
        daemon.lives.phase(run, Phase::Supervised);
        // Beside it: a server that doesn't answer holds up nobody's recovery.
        tokio::spawn(standing::end_unless_wanted(Arc::clone(&daemon), run));
        return (run, charge, None, cancel);
    }
    let root = Path::new(&charge.env_root);
    let reports = spool::read_reports(root, run.task, run.generation, &charge.limits).unwrap_or_default();
    let over = reports.iter().any(|report| spool::is_terminal(&report.body));
    if over {
        return (run, charge, None, cancel);
    }
    match start(&daemon, run, &charge, true) {
        Ok(mut child) => {
            // Its end frees the directory on this machine; what the server has to be told can wait.
            if tokio::time::timeout(daemon.config.limits.prepare.duration(), child.wait()).await.is_err() {
                tracing::error!(task = %charge.assignment.name, "the recovery takes too long; going on beside it");
            }
        }
        Err(error) => tracing::error!(task = %run.task, error = %error, "can't start the recovery"),
    }
    (run, charge, None, cancel)
}

/// Claims that had no run yet when the daemon died are given back.
fn give_back_pending(daemon: &Arc<Daemon>) {
    for run in daemon.state.pending().unwrap_or_default() {
        let Some(_cancel) = daemon.lives.begin(run, "", Phase::Delivering) else { continue };
        let daemon = Arc::clone(daemon);
        tokio::spawn(async move {
            let body = ReportBody::Return { reason: "daemon_restarted".to_owned() };
            super::enter::send_own(&daemon, run, UNBEGUN_ORDINAL, body).await;
            forget(&daemon, run);
        });
    }
}
