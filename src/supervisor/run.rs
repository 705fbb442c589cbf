//! One run from its claim of the env root to its end.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frame::{Charge, Workplace};
use super::journal::{self, Entry, FinalizeStep};
use super::records::{FORMAT, Header, Records, RecordsError, mend};
use super::recover::{World, cancelled_report, ending};
use super::socket::{Control, Served, serve};
use super::spool::{SPOOL, Spool, TRANSCRIPT, is_terminal};
use super::{agent_run, finalize, prepare, temporary};
use crate::agent::Provider;
use crate::domain::task::GitState;
use crate::execenv::env_root::{EnvRoot, EnvRootError, make_for};
use crate::execenv::environment;
use crate::execenv::identity::IdentityFlaw;
use crate::execenv::prior::{Origin, Prior};
use crate::execenv::sidecars::{Manifest, SidecarError};
use crate::git::Git;
use crate::kernel::ids::DirectoryId;
use crate::process::lock::Lock;
use crate::process::owner::{BecomeError, become_account, current_uid};
use crate::process::safe_file::{Beneath, device_and_inode};
use crate::process::tree::{Tree, become_subreaper};
use crate::process::{cgroup, failpoint, identity};
use crate::wire::daemon::{EndingReport, Message, Report, ReportBody};

/// The journal's name in the run folder.
const JOURNAL: &str = "journal";

/// What may be in a journal: the records of any number of starts.
const JOURNAL_BYTES: u64 = 64 * 1_024 * 1_024;

/// Why a run failed on this machine.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file of the run.
    #[error("a file of the run can't be kept")]
    Records(#[from] RecordsError),
    /// The env root.
    #[error("the env root can't be had")]
    EnvRoot(#[from] EnvRootError),
    /// The account.
    #[error("the directory's owner can't be taken on")]
    Become(#[from] BecomeError),
    /// Context files.
    #[error("context files can't be written")]
    Sidecars(#[from] SidecarError),
    /// The assignment isn't one.
    #[error(transparent)]
    Identity(#[from] IdentityFlaw),
    /// The place isn't open where it must be.
    #[error("the work directory isn't open")]
    NoPlace,
    /// The provider isn't one of ours.
    #[error("the provider {provider} isn't known here")]
    Provider {
        /// Its name.
        provider: String,
    },
    /// Another directory stands at the path than was granted.
    #[error("another directory stands at {path} than was granted")]
    Replaced {
        /// The path as attached.
        path: String,
    },
    /// The directory can't be opened.
    #[error("cannot open the work directory {path}")]
    Directory {
        /// The path as attached.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The machine's configuration names no place for temporary files.
    #[error("MULTICA_AGENT_TEMP_BASE is {base:?}, which is no absolute path")]
    TemporaryBase {
        /// What it says.
        base: String,
    },
    /// Getting ready took too long.
    #[error("getting ready took too long")]
    Timeout,
    /// The system refused.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl RunError {
    /// For `map_err`.
    pub(super) const fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// The failure reason of a task that ends by it.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Records(RecordsError::Full { .. }) => "spool_full",
            // The disk is full, a folder isn't ours: nobody else has the env root then.
            Self::EnvRoot(EnvRootError::Io { .. }) => "machine_error",
            Self::EnvRoot(_) => "env_root_taken",
            Self::Sidecars(SidecarError::Taken { .. }) => "context_file_taken",
            Self::Identity(_) => "invalid_task_identity",
            Self::Provider { .. } => "agent_error.runtime_missing_executable",
            Self::Timeout => "timeout",
            Self::Become(_) | Self::Sidecars(_) | Self::Directory { .. } | Self::Replaced { .. } => {
                "local_directory_error"
            }
            Self::Records(_) | Self::NoPlace | Self::TemporaryBase { .. } | Self::System { .. } => {
                "machine_error"
            }
        }
    }
}

/// The place a run works in.
#[derive(Debug)]
pub(super) struct Place {
    /// It, opened.
    pub handle: File,
    /// What is strictly inside.
    pub beneath: Beneath,
    /// The directory's lock, when it is somebody's.
    pub lock: Option<Lock>,
}

/// A run in progress.
#[derive(Debug)]
pub(super) struct Run {
    pub charge: Charge,
    pub folder: PathBuf,
    pub env_root: EnvRoot,
    pub journal: Records,
    pub entries: Vec<Entry>,
    pub spool: Arc<Spool>,
    pub reports: Vec<Report>,
    pub control: Arc<Control>,
    pub place: Option<Place>,
    /// What was planned to be written, when this supervisor planned it.
    pub manifest: Option<Manifest>,
    /// The work directory of an earlier run in which this one goes on.
    pub prior: Option<Prior>,
    pub session: Option<String>,
    /// The session that was to be gone on with stood in the way: the agent begins afresh.
    pub afresh: bool,
    pub agent: Option<(u32, u64)>,
    pub group: Option<File>,
}

/// How a supervisor's work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The terminal report is in the spool.
    Reported,
    /// Somebody else has the directory; said in the spool.
    Blocked,
    /// Recovery can't go on now; nothing was done that it won't do again.
    Later,
}

impl Run {
    /// Takes on the owner, claims the env root and opens the run's files.
    pub fn open(charge: Charge, recover: bool) -> Result<Self, RunError> {
        become_subreaper().map_err(RunError::system("adopt orphans"))?;
        let daemon = current_uid();
        let root = PathBuf::from(&charge.env_root);
        let name = cgroup::name(&charge.assignment.id.to_string(), charge.assignment.generation);
        let group = if recover { None } else { cgroup::make(&name) };
        if let Some(owner) = charge.owner.as_ref().filter(|_| daemon == 0) {
            make_for(&root, owner.uid, owner.gid)?;
            become_account(owner.uid, owner.gid, &owner.name)?;
        }
        let task = charge.assignment.id;
        let generation = charge.assignment.generation;
        let env_root = if recover { EnvRoot::reclaim(&root, task)? } else { EnvRoot::claim(&root, task)? };
        failpoint::hit("claimed");
        let folder = env_root.run_folder(generation)?;
        let boot_id = identity::boot_id().map_err(RunError::system("read the boot id"))?;
        let header = Header { format: FORMAT, task, generation, boot_id };
        if recover {
            mend::<Entry>(&folder.join(JOURNAL), &header, JOURNAL_BYTES)?;
            mend::<Report>(&folder.join(SPOOL), &header, charge.limits.spool_bytes)?;
            mend::<Message>(&folder.join(TRANSCRIPT), &header, charge.limits.transcript_bytes)?;
        }
        let (journal, entries) =
            Records::open_mirrored::<Entry>(&folder.join(JOURNAL), &header, JOURNAL_BYTES)?;
        let (spool, reports) = Spool::open(&folder, &header, &charge.limits)?;
        let (spool, control) = (Arc::new(spool), Arc::new(Control::default()));
        let served = Served {
            task,
            generation,
            spool: Arc::clone(&spool),
            control: Arc::clone(&control),
            limits: charge.limits.clone(),
        };
        serve(&folder, vec![daemon, current_uid()], Arc::new(served)).map_err(RunError::system("listen"))?;
        let session = None;
        let (place, manifest, agent) = (None, None, None);
        Ok(Self {
            charge,
            folder,
            env_root,
            journal,
            entries,
            spool,
            reports,
            control,
            place,
            manifest,
            prior: None,
            session,
            afresh: false,
            agent,
            group,
        })
    }

    /// Whether an earlier supervisor of this claim left something to do.
    pub fn is_unfinished(&self) -> bool {
        !journal::is_over(&self.entries)
    }

    /// Runs it to its end.
    pub async fn go(&mut self) -> Result<Ended, RunError> {
        self.write(Entry::Began {}, true)?;
        failpoint::hit("began");
        let verdict = match self.work().await {
            Ok(Worked::Blocked) => {
                self.place = None;
                self.write(Entry::Blocked {}, true)?;
                return Ok(Ended::Blocked);
            }
            Ok(Worked::Over(verdict)) => verdict,
            Err(error) => ReportBody::Fail {
                error: crate::kernel::error_chain::Chain(&error).to_string(),
                failure_reason: error.reason().to_owned(),
                ending: self.ending(),
            },
        };
        self.control.state.send_replace("finalizing");
        let steps = vec![
            FinalizeStep::EmptyTree,
            FinalizeStep::RemoveSidecars,
            FinalizeStep::RemoveTemporary,
            FinalizeStep::ReportPlace,
            FinalizeStep::Unlock,
            FinalizeStep::ReportEnd,
        ];
        let written = self.entries.iter().any(|entry| matches!(entry, Entry::Prepared {}));
        finalize::finalize(self, &steps, verdict, written).await?;
        Ok(Ended::Reported)
    }

    async fn work(&mut self) -> Result<Worked, RunError> {
        match prepare::prepare(self).await? {
            prepare::Prepared::Blocked => Ok(Worked::Blocked),
            prepare::Prepared::Ready { prompt } => {
                if let Some(reason) = self.accepted_or_cancelled().await? {
                    return Ok(Worked::Over(self.cancelled(&reason)?));
                }
                self.control.state.send_replace("running");
                agent_run::run(self, &prompt).await.map(Worked::Over)
            }
            prepare::Prepared::Cancelled { reason } => Ok(Worked::Over(self.cancelled(&reason)?)),
        }
    }

    /// Waits until the server has accepted the start; the reason when the run is to stop instead.
    async fn accepted_or_cancelled(&mut self) -> Result<Option<String>, RunError> {
        let ordinal = self.report(ReportBody::Start {})?;
        failpoint::hit("start-reported");
        let mut delivered = self.control.delivered.subscribe();
        let mut cancel = self.control.cancel.subscribe();
        tokio::select! {
            biased;
            reason = wait_cancel(&mut cancel) => Ok(Some(reason)),
            // Its sender lives as long as this run.
            _ = delivered.wait_for(|up_to| *up_to >= ordinal) => Ok(None),
        }
    }

    /// Notes that the run is to stop, and gives what to report at its end.
    pub fn cancelled(&mut self, reason: &str) -> Result<ReportBody, RunError> {
        self.write(Entry::CancelAsked { reason: reason.to_owned() }, true)?;
        failpoint::hit("cancel-asked");
        if reason != "interrupted" {
            self.report(ReportBody::CancelReceived {})?;
        }
        Ok(cancelled_report(reason, &self.ending()))
    }

    /// Writes a journal record.
    pub fn write(&mut self, entry: Entry, sync: bool) -> Result<(), RunError> {
        self.journal.append(&entry, sync)?;
        self.entries.push(entry);
        Ok(())
    }

    /// Puts journal and reports back as they were written: the agent's account can reach them, and nobody of
    /// the run is left to do so again.
    pub fn restore(&mut self) -> Result<(), RunError> {
        let journal = self.journal.restore()?;
        if self.spool.restore()? || journal {
            drop(writeln!(std::io::stderr(), "the run's files were damaged while it ran, and are restored"));
        }
        Ok(())
    }

    /// Adds a report to the spool.
    pub fn report(&self, body: ReportBody) -> Result<u64, RunError> {
        Ok(self.spool.report(body)?)
    }

    /// Adds a report that the end must not wait for: with a full spool it is left out.
    pub fn mention(&self, body: ReportBody) -> Result<(), RunError> {
        match self.spool.report(body) {
            Ok(_) | Err(RecordsError::Full { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What an ending says besides its verdict.
    pub fn ending(&self) -> EndingReport {
        ending(&self.work_dir(), self.session.clone(), self.directory())
    }

    /// The granted directory's stream.
    pub const fn directory(&self) -> Option<DirectoryId> {
        match &self.charge.workplace {
            Workplace::InPlace { directory, .. } => Some(*directory),
            Workplace::Managed => None,
        }
    }

    /// The agent's cwd.
    pub fn work_dir(&self) -> String {
        match &self.charge.workplace {
            Workplace::InPlace { path, .. } => path.clone(),
            Workplace::Managed => match &self.prior {
                Some(prior) => prior.path().display().to_string(),
                None => format!("{}/workdir", self.charge.env_root),
            },
        }
    }

    /// Takes the work directory of an earlier run, to go on in it, if it can be had.
    pub fn go_on_in(&mut self, path: &str) {
        let origin = Origin::of(&self.charge.assignment);
        self.prior = Prior::take(Path::new(path), self.env_root.path(), &origin);
    }

    /// The provider's session to go on with. It is the memory of one directory: elsewhere, or where that
    /// directory isn't known, it would speak of other files.
    pub fn session_to_resume(&self) -> Option<&str> {
        let assignment = &self.charge.assignment;
        let session = assignment.prior_session_id.as_deref().filter(|_| !self.afresh)?;
        // Asked for by its name: opened, what stands there could hold us up.
        let prior = std::fs::metadata(assignment.prior_work_dir.as_deref()?).ok()?;
        let here = device_and_inode(&self.place.as_ref()?.handle).ok()?;
        ((prior.dev(), prior.ino()) == here).then_some(session)
    }

    /// The provider.
    pub fn provider(&self) -> Result<Provider, RunError> {
        let provider = &self.charge.assignment.agent.provider;
        Provider::find(provider).ok_or_else(|| RunError::Provider { provider: provider.clone() })
    }

    /// Everything the agent has started.
    pub fn tree(&self) -> Tree {
        let assignment = &self.charge.assignment;
        let cgroup = cgroup::name(&assignment.id.to_string(), assignment.generation);
        Tree {
            mark: environment::mark(assignment.id, assignment.generation),
            cgroup,
            leader: self.agent,
            descendants: true,
        }
    }

    /// The agent's environment.
    pub fn environment(&self) -> Vec<(String, String)> {
        let charge = &self.charge;
        let other_account = charge.owner.as_ref().map(|owner| (owner.name.as_str(), owner.home.as_str()));
        let facts = environment::Facts {
            assignment: &charge.assignment,
            server_url: &charge.server_url,
            env_root: &charge.env_root,
            temporary: &temporary::path(charge).display().to_string(),
            work_dir: &self.work_dir(),
            daemon_port: charge.daemon_port,
            slot: charge.slot,
            executable_dir: &charge.executable_dir,
            other_account,
        };
        let own = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        environment::build(own, &facts)
    }

    /// Git's state of the place, where there is a work tree.
    pub async fn git_state(&self) -> Option<GitState> {
        let place = self.place.as_ref().filter(|_| self.directory().is_some())?;
        let environment = self.environment();
        let git = Git {
            home: environment::get(&environment, "HOME").to_owned(),
            path: environment::get(&environment, "PATH").to_owned(),
            timeout: self.charge.limits.git_timeout.duration(),
        };
        // A repository that git can't read is a fact less, not a failed run.
        let tree = git.work_tree(&place.handle, self.charge.limits.git_changed_paths).await.ok()??;
        Some(tree.state)
    }

    /// What recovery sees.
    pub fn world(&self) -> World {
        let began = self.reports.len() - self.reports_of_this_start();
        let now = &self.reports[began..];
        World {
            terminal_reported: self.reports.iter().any(|report| is_terminal(&report.body)),
            place_reported: now.iter().any(|report| matches!(report.body, ReportBody::Finalized { .. })),
            manifest: self.manifest_path().exists(),
            temporary: temporary::is_there(&self.charge),
        }
    }

    /// A claim that met a foreign lock is started again later: its reports until then are of no concern.
    fn reports_of_this_start(&self) -> usize {
        let blocked = self.reports.iter().rposition(|report| is_blocked(&report.body));
        self.reports.len() - blocked.map_or(0, |at| at + 1)
    }

    /// Where the manifest of context files is.
    pub fn manifest_path(&self) -> PathBuf {
        manifest_in(&self.folder)
    }
}

/// The manifest in a run folder.
pub(super) fn manifest_in(folder: &Path) -> PathBuf {
    folder.join("manifest.json")
}

const fn is_blocked(body: &ReportBody) -> bool {
    use crate::wire::daemon::LockReport;
    matches!(body, ReportBody::DirectoryLock { lock: LockReport::Blocked { .. }, .. })
}

enum Worked {
    Blocked,
    Over(ReportBody),
}

/// Waits until the run is to stop, and says why.
pub(super) async fn wait_cancel(cancel: &mut tokio::sync::watch::Receiver<Option<String>>) -> String {
    match cancel.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        // The sender lives as long as the run; without it nobody can ask any more.
        Err(_) => std::future::pending().await,
    }
}
