//! A machine for one test: a directory, a work root, and a daemon that accepts everything.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use multica::domain::agent::{CommandLine, PromptVia};
use multica::kernel::ids::{AgentId, DirectoryId, IssueId, MachineId, RuntimeId, TaskId, WorkspaceId};
use multica::kernel::limits::{Limits, Millis};
use multica::process::owner::Owner;
use multica::supervisor::frame::{Charge, FrameBody, Workplace};
use multica::supervisor::remote::Remote;
use multica::supervisor::spool::{is_terminal, read_reports, read_transcript};
use multica::wire::daemon::{AssignedAgent, Assignment, Message, Report, ReportBody};
use uuid::Uuid;

use crate::support::waiting::{self, eventually_blocking, pace};

/// How long a test waits for a fact before it fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct World {
    pub root: tempfile::TempDir,
    pub directory: PathBuf,
    pub charge: Charge,
}

/// What a test does to a run while it goes on.
#[derive(Default)]
pub struct Daemon<'a> {
    /// Environment of the supervisor.
    pub environment: Vec<(&'a str, &'a str)>,
    /// Cancels with that reason once a report of that kind is in the spool.
    pub cancel_after: Option<(&'a str, &'a str)>,
    /// Whether starts are accepted.
    pub mute: bool,
}

pub struct Ran {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stderr: String,
}

impl World {
    /// A machine whose agent is that shell script, in an attached directory.
    pub fn new(script: &str) -> Self {
        let root = tempfile::Builder::new().prefix("multica-it-").tempdir().expect("tempdir");
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let directory = root.path().join("project");
        fs::create_dir(&directory).expect("mkdir");
        let mut world = Self { directory: directory.clone(), charge: charge(root.path(), script), root };
        world.attach(&directory);
        world
    }

    pub fn attach(&mut self, path: &Path) {
        let meta = fs::metadata(path).expect("directory");
        self.charge.workplace = Workplace::InPlace {
            path: path.display().to_string(),
            real_path: fs::canonicalize(path).expect("real path").display().to_string(),
            device: meta.dev(),
            inode: meta.ino(),
            directory: DirectoryId(Uuid::from_u128(9)),
            label: "project".to_owned(),
        };
    }

    pub fn provider(mut self, provider: &str, program: &str) -> Self {
        self.charge.assignment.agent.provider = provider.to_owned();
        self.charge.provider_program = Some(program.to_owned());
        self
    }

    /// Everything of the directory is that account's from now on.
    pub fn owned_by(&mut self, uid: u32) {
        let mut paths = vec![self.directory.clone()];
        while let Some(path) = paths.pop() {
            std::os::unix::fs::lchown(&path, Some(uid), Some(uid)).expect("chown");
            if path.is_dir() && !path.is_symlink() {
                paths.extend(fs::read_dir(&path).expect("list").map(|entry| entry.expect("entry").path()));
            }
        }
        self.charge.owner = Some(Owner { uid, gid: uid, name: uid.to_string(), home: "/".to_owned() });
    }

    pub fn env_root(&self) -> PathBuf {
        PathBuf::from(&self.charge.env_root)
    }

    pub fn reports(&self) -> Vec<Report> {
        let assignment = &self.charge.assignment;
        read_reports(&self.env_root(), assignment.id, assignment.generation, &self.charge.limits)
            .expect("spool")
    }

    pub fn transcript(&self) -> Vec<Message> {
        let assignment = &self.charge.assignment;
        read_transcript(&self.env_root(), assignment.id, assignment.generation, &self.charge.limits)
            .expect("transcript")
    }

    pub fn kinds(&self) -> Vec<&'static str> {
        self.reports().iter().map(|report| report.body.path()).collect()
    }

    pub fn terminal(&self) -> ReportBody {
        let mut terminals: Vec<_> =
            self.reports().into_iter().map(|report| report.body).filter(is_terminal).collect();
        assert_eq!(terminals.len(), 1, "{terminals:?}");
        terminals.remove(0)
    }

    /// The failure reason and its detail.
    pub fn failure(&self) -> (String, String) {
        match self.terminal() {
            ReportBody::Fail { failure_reason, error, .. } => (failure_reason, error),
            other => panic!("not failed: {other:?}"),
        }
    }

    pub fn output(&self) -> String {
        match self.terminal() {
            ReportBody::Complete { output, .. } => output,
            other => panic!("not completed: {other:?}"),
        }
    }

    /// Processes that carry this run's mark.
    pub fn processes(&self) -> Vec<u32> {
        let assignment = &self.charge.assignment;
        let mark = format!("MULTICA_RUN={}-{}", assignment.id, assignment.generation);
        let entries = fs::read_dir("/proc").expect("/proc");
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| {
                fs::read(format!("/proc/{pid}/environ"))
                    .is_ok_and(|bytes| bytes.split(|b| *b == 0).any(|entry| entry == mark.as_bytes()))
            })
            .collect()
    }

    pub async fn run(&self) -> Ran {
        self.run_with(Daemon::default()).await
    }

    pub async fn recover(&self) -> Ran {
        self.supervise(true, Daemon::default()).await
    }

    pub async fn run_with(&self, daemon: Daemon<'_>) -> Ran {
        self.supervise(false, daemon).await
    }

    /// Starts a supervisor, plays its daemon, and waits until it has ended.
    pub async fn supervise(&self, recover: bool, daemon: Daemon<'_>) -> Ran {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_multica"));
        command.arg("__supervise");
        if recover {
            command.arg("--recover");
        }
        command.arg(self.charge.assignment.id.to_string());
        command.envs(daemon.environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("spawn");
        let mut stdin = child.stdin.take().expect("stdin");
        let charge = serde_json::to_vec(&self.charge).expect("json");
        tokio::io::AsyncWriteExt::write_all(&mut stdin, &charge).await.expect("charge");
        drop(stdin);
        let talking = self.play(&daemon);
        let output = tokio::time::timeout(PATIENCE, async {
            tokio::select! {
                output = child.wait_with_output() => output,
                () = talking => unreachable!("a daemon never stops"),
            }
        });
        let output = output.await.expect("the supervisor ends in time").expect("output");
        use std::os::unix::process::ExitStatusExt;
        Ran {
            code: output.status.code(),
            signal: output.status.signal(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    async fn play(&self, daemon: &Daemon<'_>) {
        let generation = self.charge.assignment.generation;
        let max = self.charge.limits.frame_bytes;
        loop {
            let uid = self.charge.owner.as_ref().map_or_else(multica::process::owner::current_uid, |o| o.uid);
            if let Ok(mut remote) = Remote::connect(&self.env_root(), generation, uid, max) {
                let mut seen = 0;
                while let Some(frame) = remote.next().await {
                    match frame.body {
                        FrameBody::Hello { last_ordinal, .. }
                        | FrameBody::ReportAvailable { last_ordinal } => {
                            if let Some(("", reason)) = daemon.cancel_after {
                                let _ = remote.send(FrameBody::Cancel { reason: reason.to_owned() }).await;
                            }
                            if last_ordinal > seen {
                                let _ = remote.send(FrameBody::PullReports { after: seen }).await;
                            }
                        }
                        FrameBody::Reports { reports } => {
                            let kinds: Vec<_> = reports.iter().map(|report| report.body.path()).collect();
                            seen = reports.last().map_or(seen, |report| report.ordinal);
                            if let Some((kind, reason)) = daemon.cancel_after
                                && kinds.contains(&kind)
                            {
                                let _ = remote.send(FrameBody::Cancel { reason: reason.to_owned() }).await;
                            }
                            if !daemon.mute {
                                let _ = remote.send(FrameBody::ReportsDelivered { up_to: seen }).await;
                            }
                        }
                        _ => {}
                    }
                }
            }
            pace(Duration::from_millis(5)).await;
        }
    }
}

/// Every path below a directory with what it is and holds.
pub fn picture(root: &Path) -> BTreeMap<PathBuf, (u32, u32, Vec<u8>)> {
    let mut out = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).expect("stat");
        let bytes = if meta.is_dir() {
            open.extend(fs::read_dir(&path).expect("list").map(|entry| entry.expect("entry").path()));
            Vec::new()
        } else if meta.is_symlink() {
            fs::read_link(&path).expect("link").into_os_string().into_encoded_bytes()
        } else {
            fs::read(&path).expect("read")
        };
        out.insert(path.strip_prefix(root).expect("below").to_path_buf(), (meta.mode(), meta.uid(), bytes));
    }
    out
}

/// Whether a directory's lock is free.
pub fn is_free(path: &Path) -> bool {
    File::open(path).expect("open").try_lock().is_ok()
}

/// Waits for a fact while something else runs.
pub async fn come(fact: impl Fn() -> bool) {
    waiting::eventually(PATIENCE, || std::future::ready(fact())).await;
}

/// Waits for a fact.
pub fn eventually(what: &str, fact: impl Fn() -> bool) {
    eventually_blocking(PATIENCE, what, fact);
}

fn charge(root: &Path, script: &str) -> Charge {
    let task = TaskId(Uuid::now_v7());
    let agent = AgentId(Uuid::from_u128(3));
    let work = root.join("work").join("workspace");
    let command = CommandLine {
        program: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        prompt: PromptVia::Stdin,
    };
    Charge {
        assignment: Assignment {
            id: task,
            generation: 1,
            name: "GAME-1#1".to_owned(),
            runtime_id: RuntimeId(Uuid::from_u128(1)),
            workspace_id: WorkspaceId(Uuid::from_u128(2)),
            agent_id: agent,
            agent: AssignedAgent {
                id: agent,
                name: "smith".to_owned(),
                provider: "command".to_owned(),
                instructions: "be brief".to_owned(),
                model: None,
                command: Some(command),
                custom_args: Vec::new(),
                skills: Vec::new(),
            },
            issue_id: IssueId(Uuid::from_u128(4)),
            issue_key: "GAME-1".to_owned(),
            thread_name: "Mend the door".to_owned(),
            issue_description: "It squeaks.".to_owned(),
            comments: Vec::new(),
            status: "dispatched".to_owned(),
            priority: 0,
            attempt: 1,
            max_attempts: 3,
            auth_token: "mat_0123456789abcdef0123".to_owned(),
            project_id: None,
            project_title: String::new(),
            project_description: String::new(),
            project_resources: Vec::new(),
            repos: Vec::new(),
            left_out: Vec::new(),
            prior_session_id: None,
            prior_work_dir: None,
            directory: None,
            directory_identity: None,
            delivered_comment_ids: Vec::new(),
            leader_role_resolved: true,
            is_leader_task: false,
            created_at: String::new(),
            dispatched_at: String::new(),
        },
        workplace: Workplace::Managed,
        owner: None,
        env_root: work.join(task.key()).display().to_string(),
        record: String::new(),
        server_url: "http://127.0.0.1:1".to_owned(),
        machine: MachineId(Uuid::from_u128(5)),
        daemon_id: "d".to_owned(),
        daemon_port: Some(19_514),
        slot: 0,
        executable_dir: "/nowhere/bin".to_owned(),
        provider_program: None,
        temporary_base: None,
        limits: Limits {
            kill_grace: Millis(500),
            lock_wait: Millis(200),
            transcript_flush: Millis(20),
            ..Limits::default()
        },
    }
}
