//! Putting the place in order, by the run itself or by its recovery: the same steps.
//!
//! Invariants: each step may be done again; the lock is given up after the context files are gone and
//! before the terminal report exists.

use super::journal::{Entry, FinalizeStep};
use super::prepare::read_manifest;
use super::run::{Run, RunError};
use super::temporary;
use crate::process::failpoint;
use crate::process::safe_file::write_atomic;
use crate::wire::daemon::ReportBody;

/// Does those steps.
pub(super) async fn finalize(
    run: &mut Run,
    steps: &[FinalizeStep],
    verdict: ReportBody,
    written: bool,
) -> Result<(), RunError> {
    run.write(Entry::Verdict { report: Box::new(verdict.clone()) }, true)?;
    failpoint::hit("verdict");
    run.write(Entry::FinalizePlan { steps: steps.to_vec() }, true)?;
    failpoint::hit("finalize-plan");
    for step in steps {
        match step {
            FinalizeStep::EmptyTree => {
                let limits = &run.charge.limits;
                run.tree().empty(limits.kill_grace.duration(), limits.tree_pause.duration()).await;
                run.restore()?;
            }
            FinalizeStep::RemoveSidecars => remove_sidecars(run, written)?,
            FinalizeStep::RemoveTemporary => temporary::remove(&run.charge),
            FinalizeStep::ReportPlace => {
                if run.place.is_some() {
                    let git = run.git_state().await;
                    run.mention(ReportBody::Finalized { git })?;
                }
            }
            FinalizeStep::Unlock => run.place = None,
            FinalizeStep::ReportEnd => report_end(run, &verdict)?,
        }
        failpoint::hit("finalize-step");
        run.write(Entry::Done { step: *step }, false)?;
    }
    run.write(Entry::Ended {}, true)?;
    failpoint::hit("ended");
    run.control.state.send_replace("ended");
    Ok(())
}

fn remove_sidecars(run: &Run, written: bool) -> Result<(), RunError> {
    let path = run.manifest_path();
    // What is remembered counts: the file lies where the agent's account could change it.
    let Some(manifest) = run.manifest.clone().or_else(|| read_manifest(&path)) else { return Ok(()) };
    let left = match &run.place {
        Some(place) => {
            manifest.remove(&place.beneath, &run.folder, written, run.charge.limits.brief_file_bytes).left
        }
        // The directory itself is gone or another one: what was written can't be reached.
        None => manifest.files.iter().map(|file| file.path.clone()).collect(),
    };
    failpoint::hit("sidecars-removed");
    if !left.is_empty() {
        run.mention(ReportBody::SidecarsLeft { paths: left })?;
    }
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(RunError::system("remove the manifest")(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn report_end(run: &Run, verdict: &ReportBody) -> Result<(), RunError> {
    let write = |name: &str, json: serde_json::Result<Vec<u8>>| {
        let json = json.map_err(|error| RunError::system("write the exit record")(error.into()))?;
        write_atomic(&run.folder.join(name), &json, 0o600).map_err(RunError::system("write the exit record"))
    };
    write("report.json", serde_json::to_vec(verdict))?;
    failpoint::hit("report-file");
    run.report(verdict.clone())?;
    failpoint::hit("terminal-reported");
    let exit =
        serde_json::json!({ "state": "ended", "report": verdict.path(), "at": jiff::Timestamp::now() });
    write("exit.json", serde_json::to_vec(&exit))
}
