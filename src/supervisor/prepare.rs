//! Getting ready: the directory's lock, what earlier runs left, context files, the prompt.

use std::fs::File;
use std::path::Path;

use tokio::time::{Instant, sleep, timeout};

use super::frame::Workplace;
use super::journal::{Entry, PrepareStep};
use super::run::{Place, Run, RunError, manifest_in, wait_cancel};
use super::{remote, temporary};
use crate::domain::task::WorkPlace;
use crate::execenv::brief::brief;
use crate::execenv::brief_block::block;
use crate::execenv::prior::Origin;
use crate::execenv::prompt::prompt;
use crate::execenv::sidecars::{BriefFile, Manifest};
use crate::execenv::{context, identity};
use crate::process::failpoint;
use crate::process::lock::{self, Holder, Lock, Try};
use crate::process::safe_file::{Beneath, device_and_inode, read_bounded, write_atomic};
use crate::wire::daemon::{LockReport, ReportBody};

/// The longest manifest that is read back, bytes.
const MANIFEST_BYTES: u64 = 16 * 1_024 * 1_024;

/// What came of it.
pub(super) enum Prepared {
    /// The agent can start.
    Ready {
        /// What it is asked to do.
        prompt: String,
    },
    /// Somebody else has the directory.
    Blocked,
    /// The run is to stop.
    Cancelled {
        /// Why.
        reason: String,
    },
}

/// Whether the place could be opened.
pub(super) enum Opened {
    /// It is in `run.place`, locked where it is somebody's.
    Yes,
    /// Somebody else has it.
    Busy(Holder),
    /// The run is to stop.
    Cancelled(String),
}

/// Does it.
pub(super) async fn prepare(run: &mut Run) -> Result<Prepared, RunError> {
    // The daemon has looked too; whoever starts a supervisor, it starts no agent with a person's token.
    identity::check(&run.charge.assignment)?;
    run.provider()?;
    temporary::check(&run.charge)?;
    if run.directory().is_none() {
        go_on(run)?;
    }
    run.env_root.lay_out(run.directory().is_none() && run.prior.is_none())?;
    failpoint::hit("laid-out");
    match open_place(run).await? {
        Opened::Busy(Holder { pid, program }) => {
            if let Some(directory) = run.directory() {
                let lock = LockReport::Blocked { pid, program, task: pid.and_then(remote::supervised_by) };
                run.report(ReportBody::DirectoryLock { directory, lock })?;
            }
            return Ok(Prepared::Blocked);
        }
        Opened::Cancelled(reason) => return Ok(Prepared::Cancelled { reason }),
        Opened::Yes => {}
    }
    if let Some(directory) = run.directory() {
        run.report(ReportBody::DirectoryLock { directory, lock: LockReport::Taken {} })?;
    }
    failpoint::hit("locked");
    temporary::make(&run.charge)?;
    let limit = run.charge.limits.prepare.duration();
    timeout(limit, make_ready(run)).await.unwrap_or(Err(RunError::Timeout))
}

/// Goes on where the conversation's last run worked, if that was in an env root; else the run's own is
/// marked as the conversation's.
fn go_on(run: &mut Run) -> Result<(), RunError> {
    if let Some(path) = run.charge.assignment.prior_work_dir.clone() {
        run.go_on_in(&path);
        if run.prior.is_some() {
            return run.write(Entry::GoesOn { path }, true);
        }
    }
    let origin = Origin::of(&run.charge.assignment);
    origin.note(run.env_root.path()).map_err(RunError::system("mark the env root"))
}

/// Opens the place and takes its lock; waits a little for a foreign one.
pub(super) async fn open_place(run: &mut Run) -> Result<Opened, RunError> {
    let work_dir = run.work_dir();
    let opened = match &run.prior {
        Some(prior) => prior.open(),
        None => lock::open_directory(Path::new(&work_dir)),
    };
    let handle = opened.map_err(|source| RunError::Directory { path: work_dir.clone(), source })?;
    let identity = device_and_inode(&handle).map_err(RunError::system("identify the work directory"))?;
    let mut held = None;
    if let Workplace::InPlace { device, inode, path, .. } = &run.charge.workplace {
        if identity != (*device, *inode) {
            return Err(RunError::Replaced { path: path.clone() });
        }
        match wait_lock(run, &handle).await? {
            Waited::Taken(lock) => held = Some(lock),
            Waited::Busy(holder) => return Ok(Opened::Busy(holder)),
            Waited::Cancelled(reason) => return Ok(Opened::Cancelled(reason)),
        }
    }
    let beneath = Beneath::of(&handle).map_err(RunError::system("open the work directory"))?;
    run.place = Some(Place { handle, beneath, lock: held });
    Ok(Opened::Yes)
}

enum Waited {
    Taken(Lock),
    Busy(Holder),
    Cancelled(String),
}

async fn wait_lock(run: &Run, handle: &File) -> Result<Waited, RunError> {
    let limits = &run.charge.limits;
    let deadline = Instant::now() + limits.lock_wait.duration();
    let mut cancel = run.control.cancel.subscribe();
    loop {
        // An own description: a copy of the handle would share its lock with the one inside `Place`.
        let again = lock::reopen(handle).map_err(RunError::system("open the directory's lock"))?;
        let holder = match lock::try_handle(again).map_err(RunError::system("lock the directory"))? {
            Try::Taken(lock) => return Ok(Waited::Taken(lock)),
            Try::Busy(seen) => lock::holder(&seen),
        };
        if Instant::now() >= deadline {
            return Ok(Waited::Busy(holder));
        }
        tokio::select! {
            reason = wait_cancel(&mut cancel) => return Ok(Waited::Cancelled(reason)),
            () = sleep(limits.tree_pause.duration()) => {}
        }
    }
}

async fn make_ready(run: &mut Run) -> Result<Prepared, RunError> {
    replay_old_manifests(run)?;
    let git = run.git_state().await;
    let limits = run.charge.limits.clone();
    let text = brief(&run.charge.assignment, limits.quoted_bytes);
    let file =
        run.provider()?.brief_file().map(|path| BriefFile { path: path.to_owned(), block: block(&text) });
    let Some(place) = &run.place else { return Err(RunError::NoPlace) };
    let identity =
        device_and_inode(&place.handle).map_err(RunError::system("identify the work directory"))?;
    let files = context::files(&run.charge.assignment);
    let manifest = Manifest::plan(&place.beneath, identity, &files, file, limits.brief_file_bytes)?;
    let json = serde_json::to_vec(&manifest)
        .map_err(|error| RunError::system("write the manifest")(error.into()))?;
    write_atomic(&run.manifest_path(), &json, 0o600).map_err(RunError::system("write the manifest"))?;
    failpoint::passes("manifest").map_err(RunError::system("write the manifest"))?;
    run.manifest = Some(manifest.clone());
    run.write(Entry::PreparePlan { steps: steps(&manifest) }, true)?;
    failpoint::hit("prepare-plan");
    let Some(place) = &run.place else { return Err(RunError::NoPlace) };
    manifest.write(&place.beneath, &run.folder, limits.brief_file_bytes)?;
    run.write(Entry::Prepared {}, false)?;
    failpoint::hit("prepared");
    let prompt = prompt_of(run);
    run.report(ReportBody::Prepared {
        place: if run.directory().is_some() { WorkPlace::InPlace } else { WorkPlace::Managed },
        work_dir: run.work_dir(),
        env_root: run.charge.env_root.clone(),
        sidecars: manifest.count(),
        git,
    })?;
    Ok(Prepared::Ready { prompt })
}

/// What the agent is asked to do: the brief too where it stands in no file, and that its memory is gone where its
/// session can't be gone on with.
pub(super) fn prompt_of(run: &Run) -> String {
    let (assignment, most) = (&run.charge.assignment, run.charge.limits.quoted_bytes);
    let in_file = run.manifest.as_ref().is_some_and(|manifest| manifest.brief.is_some());
    let text = (!in_file).then(|| brief(assignment, most));
    let forgotten = assignment.prior_session_id.is_some() && run.session_to_resume().is_none();
    prompt(assignment, text.as_deref(), forgotten, most)
}

fn steps(manifest: &Manifest) -> Vec<PrepareStep> {
    let directories =
        manifest.directories.iter().map(|path| PrepareStep::MakeDirectory { path: path.clone() });
    let files = manifest.files.iter().map(|file| PrepareStep::WriteFile { path: file.path.clone() });
    let brief = manifest.brief.iter().map(|brief| PrepareStep::WriteBrief { path: brief.path.clone() });
    directories.chain(files).chain(brief).collect()
}

/// Context files of earlier claims of this task that nobody took out.
fn replay_old_manifests(run: &Run) -> Result<(), RunError> {
    let Some(place) = &run.place else { return Ok(()) };
    let identity =
        device_and_inode(&place.handle).map_err(RunError::system("identify the work directory"))?;
    for folder in run.env_root.run_folders()? {
        let path = manifest_in(&folder);
        let Some(manifest) = read_manifest(&path) else { continue };
        if (manifest.device, manifest.inode) != identity {
            continue;
        }
        let removal = manifest.remove(&place.beneath, &folder, false, run.charge.limits.brief_file_bytes);
        if !removal.removed.is_empty() {
            run.report(ReportBody::SidecarsRemoved { paths: removal.removed })?;
        }
        std::fs::remove_file(&path).map_err(RunError::system("remove an old manifest"))?;
    }
    Ok(())
}

/// A manifest; none where there is none, or none that can be read.
pub(super) fn read_manifest(path: &Path) -> Option<Manifest> {
    serde_json::from_slice(&read_bounded(path, MANIFEST_BYTES).ok()?).ok()
}
