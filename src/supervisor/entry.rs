//! The hidden subcommand: reads the charge, runs or recovers, says by its exit code what is not in the spool.

use std::io::{Read, Write};
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use super::finalize::finalize;
use super::frame::Charge;
use super::journal::{Entry, FinalizeStep, latest};
use super::prepare::{Opened, open_place};
use super::recover::plan;
use super::run::{Ended, Run, RunError};
use crate::execenv::env_root::EnvRootError;
use crate::kernel::error_chain::Chain;
use crate::wire::daemon::ReportBody;

/// The exit code when the env root belongs to another task or to a live execution: nothing is in the spool.
pub const ENV_ROOT_TAKEN: u8 = 73;
/// The exit code when recovery has to be tried again later: somebody else has the directory now.
pub const RETRY_LATER: u8 = 75;

/// Supervises one run; the charge comes as JSON on standard input.
pub async fn main(recover: bool) -> ExitCode {
    let mut text = String::new();
    let charge = std::io::stdin()
        .read_to_string(&mut text)
        .and_then(|_| serde_json::from_str::<Charge>(&text).map_err(std::io::Error::from));
    drop(text);
    let outcome = match charge {
        Ok(charge) => supervise(charge, recover).await,
        Err(source) => Err(RunError::System { what: "read the charge", source }),
    };
    match outcome {
        Ok(Ended::Reported | Ended::Blocked) => ExitCode::SUCCESS,
        Ok(Ended::Later) => ExitCode::from(RETRY_LATER),
        Err(error) => {
            // Standard error is a file that the daemon keeps for this run.
            drop(writeln!(std::io::stderr(), "{}", Chain(&error)));
            match error {
                RunError::EnvRoot(EnvRootError::Io { .. }) => ExitCode::FAILURE,
                RunError::EnvRoot(_) => ExitCode::from(ENV_ROOT_TAKEN),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

async fn supervise(charge: Charge, recovering: bool) -> Result<Ended, RunError> {
    let mut run = Run::open(charge, recovering)?;
    let control = std::sync::Arc::clone(&run.control);
    let mut term = signal(SignalKind::terminate()).map_err(RunError::system("listen for signals"))?;
    tokio::spawn(async move {
        if term.recv().await.is_some() {
            control.cancel.send_if_modified(|known| {
                let first = known.is_none();
                known.get_or_insert_with(|| "interrupted".to_owned());
                first
            });
        }
    });
    if recovering || run.is_unfinished() { recover(&mut run).await } else { run.go().await }
}

async fn recover(run: &mut Run) -> Result<Ended, RunError> {
    run.agent = run.entries.iter().rev().find_map(|entry| match entry {
        Entry::Started { agent } => {
            Some(agent).filter(|agent| agent.is_alive()).map(|a| (a.pid, a.start_time))
        }
        _ => None,
    });
    run.session = run.reports.iter().rev().find_map(|report| match &report.body {
        ReportBody::Session { session_id } => Some(session_id.clone()),
        _ => None,
    });
    let goes_on = latest(&run.entries).iter().find_map(|entry| match entry {
        Entry::GoesOn { path } => Some(path.clone()),
        _ => None,
    });
    if let Some(path) = goes_on {
        run.go_on_in(&path);
    }
    let Some(plan) = plan(&run.entries, run.world(), &run.ending()) else { return Ok(Ended::Reported) };
    run.control.state.send_replace("finalizing");
    let limits = run.charge.limits.clone();
    // Before the lock: a process of the run may still hold it.
    let emptied = run.tree().empty(limits.kill_grace.duration(), limits.tree_pause.duration()).await;
    if plan.exit_unknown {
        run.mention(ReportBody::ProcessExited { code: None, signal: None, killed: emptied.killed })?;
    }
    if plan.steps.contains(&FinalizeStep::RemoveSidecars) {
        match open_place(run).await {
            Ok(Opened::Yes) => {}
            Ok(Opened::Busy(_) | Opened::Cancelled(_)) => return Ok(Ended::Later),
            // The directory is gone or another one: the run ends without it, and says what was left.
            Err(RunError::Directory { .. } | RunError::Replaced { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    finalize(run, &plan.steps, plan.verdict, plan.written).await?;
    Ok(Ended::Reported)
}
