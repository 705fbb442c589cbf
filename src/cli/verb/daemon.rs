//! `multica daemon`.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use crate::cli::args::{Common, DaemonStart};
use crate::cli::error::CliError;
use crate::cli::output::{items, line, read, short, text};
use crate::cli::session::Session;
use crate::client::api::{Call, segment};
use crate::client::config::{ConfigFile, Home, Profile};
use crate::client::error::ClientError;
use crate::daemon::control::ControlError;
use crate::daemon::log_file::Tail;
use crate::daemon::{DaemonConfig, control, up_seat};
use crate::kernel::limits::Limits;
use crate::wire::api::Daemon;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum DaemonVerb {
    /// Lists the daemons the server knows.
    List,
    /// Starts this machine's daemon.
    Start(DaemonStart),
    /// Stops it cleanly: it waits for what runs, then stops that too. One that is part of `multica up` is stopped
    /// there.
    Stop {
        /// Doesn't wait for running tasks; they are tried again elsewhere or later.
        #[arg(long)]
        now: bool,
    },
    /// Says whether it runs, and what it does.
    Status,
    /// Gives up a daemon that won't come back: its running tasks are lost by name and tried again, its directories go
    /// on to whoever waits.
    DeclareDead {
        /// The daemon's id: `multica daemon list`.
        daemon: String,
    },
    /// Prints its log.
    Logs {
        /// Goes on as the log grows.
        #[arg(short, long)]
        follow: bool,
        /// The last so many lines.
        #[arg(short = 'n', long, default_value_t = 100)]
        lines: usize,
    },
}

pub async fn run(session: &Session, common: &Common, verb: DaemonVerb) -> Result<(), CliError> {
    match verb {
        DaemonVerb::List => list(session).await,
        DaemonVerb::Start(args) => start(session, common, &args).await,
        DaemonVerb::Stop { now } => {
            session.people_only("daemon stop")?;
            let state = session.profile()?.daemon_dir();
            let stopped =
                session.patiently("stopping the daemon", control::stop(&state, now, &session.limits)).await?;
            session
                .out
                .done(&json!({"stopped": stopped}), if stopped { "Stopped." } else { "It isn't running." })
        }
        DaemonVerb::Status => status(session).await,
        DaemonVerb::DeclareDead { daemon } => declare_dead(session, &daemon).await,
        DaemonVerb::Logs { follow, lines } => {
            session.people_only("daemon logs")?;
            logs(session, follow, lines).await
        }
    }
}

async fn declare_dead(session: &Session, daemon: &str) -> Result<(), CliError> {
    session.people_only("daemon declare-dead")?;
    let path = format!("/api/daemons/{}/declare-dead", segment(daemon));
    let answer = session.call(Call::post(&path, &json!({}))?).await?;
    let sentence = match answer["lost"].as_array().map_or(0, Vec::len) {
        0 => format!("The daemon {daemon} is given up; nothing ran there."),
        1 => format!(
            "The daemon {daemon} is given up; 1 task that ran there is lost, and tried again where it may."
        ),
        n => format!(
            "The daemon {daemon} is given up; {n} tasks that ran there are lost, and tried again where they may."
        ),
    };
    session.out.done(&answer, &sentence)
}

async fn list(session: &Session) -> Result<(), CliError> {
    let answer = session.get("/api/daemons").await?;
    let daemons: Vec<Daemon> = read(&answer["daemons"])?;
    let rows = daemons
        .into_iter()
        .map(|daemon| {
            // A whole daemon that is away says so in its status; a provider alone that is gone says it here.
            let away = |status: &str| status != "online" && daemon.status == "online";
            let providers: Vec<String> = daemon
                .runtimes
                .iter()
                .map(|runtime| match away(&runtime.status) {
                    true => format!("{} (gone)", runtime.provider),
                    false => runtime.provider.clone(),
                })
                .collect();
            vec![
                daemon.daemon_id,
                daemon.device_name,
                daemon.status,
                session.out.since(daemon.last_seen_at),
                providers.join(", "),
                format!("{} of {}", daemon.running, daemon.slots),
                daemon.parked.to_string(),
                daemon.cli_version,
            ]
        })
        .collect();
    let headers = ["daemon", "machine", "status", "seen", "providers", "running", "waiting", "version"];
    session.out.list(&answer, &headers, rows, "No daemon has registered: `multica daemon start`.")
}

/// The line that starts the `multica up` whose server this profile uses, where that server doesn't answer.
async fn up_instead(session: &Session) -> Result<Option<String>, CliError> {
    let settings = session.settings()?;
    let Some(profile) = settings.profile.clone() else { return Ok(None) };
    let Some(last) = up_seat::last(&profile.folder) else { return Ok(None) };
    let file = ConfigFile::read(&profile.config_path())?;
    // A server that a flag or a variable names is another one.
    if settings.server_url.is_none() || settings.server_url.as_deref() != file.text("server_url") {
        return Ok(None);
    }
    let asked = session.api_as(settings)?.get::<Value>("/health").await;
    let away = matches!(asked, Err(ClientError::Unreachable { .. } | ClientError::TimedOut { .. }));
    Ok(away.then(|| up_seat::command(&profile, &last)))
}

/// Refuses a daemon that would only keep `multica up` from starting.
pub async fn may_start(session: &Session) -> Result<(), CliError> {
    match up_instead(session).await? {
        Some(command) => Err(CliError::Daemon(ControlError::BelongsToUp { command })),
        None => Ok(()),
    }
}

async fn start(session: &Session, common: &Common, args: &DaemonStart) -> Result<(), CliError> {
    // Everything that can be wrong is found here, where a person reads it, not in the child's log.
    let config = daemon_config(session, args)?;
    may_start(session).await?;
    let mut passed = vec!["daemon".to_owned(), "start".to_owned(), "--foreground".to_owned()];
    passed.push("--log-to-file".to_owned());
    if common.debug {
        passed.push("--debug".to_owned());
    }
    let flags = [
        ("--server-url", common.server_url.clone()),
        ("--workspace-id", common.workspace_id.clone()),
        ("--profile", common.profile.clone()),
        ("--daemon-id", args.daemon_id.clone()),
        ("--device-name", args.device_name.clone()),
        (
            "--workspaces-root",
            args.workspaces_root.as_ref().map(|p| session.absolute(p).display().to_string()),
        ),
        ("--max-concurrent-tasks", args.max_concurrent_tasks.map(|n| n.to_string())),
        ("--health-port", args.health_port.map(|n| n.to_string())),
        ("--drain", args.drain.map(|n| n.to_string())),
    ];
    for (flag, value) in flags {
        if let Some(value) = value {
            passed.push(flag.to_owned());
            passed.push(value);
        }
    }
    let started = control::start_background(&config.state_dir, passed, &session.limits);
    let started = session.patiently("starting the daemon", started).await?;
    let (pid, port, registered) = (started.local.pid, started.local.port, started.registered);
    let mut sentence = format!("The daemon runs (pid {pid}, port {port}).");
    if !registered {
        sentence.push_str(" It hasn't reached the server yet and goes on trying: `multica daemon logs -f`.");
    }
    session.out.done(&json!({"pid": pid, "port": port, "registered": registered}), &sentence)
}

async fn status(session: &Session) -> Result<(), CliError> {
    let state = session.profile()?.daemon_dir();
    let Some(health) = control::status(&state, &session.limits).await? else {
        let start = up_instead(session).await?.unwrap_or_else(|| "multica daemon start".to_owned());
        let sentence = format!("It isn't running: `{start}`.");
        return session.out.done(&json!({"status": "stopped", "start": start}), &sentence);
    };
    session.out.fields(
        &health,
        &[
            ("STATUS", text(&health, "status")),
            ("PID", text(&health, "pid")),
            ("DAEMON", text(&health, "daemon_id")),
            ("MACHINE", text(&health, "device_name")),
            ("SERVER", text(&health, "server_url")),
            ("CONNECTED", text(&health, "connected")),
            ("PROFILE", text(&health, "profile")),
            ("VERSION", text(&health, "cli_version")),
            ("UPTIME", text(&health, "uptime")),
            ("RUNNING", text(&health, "running_task_count")),
            (
                "PROVIDERS",
                items(&health["agents"], "")
                    .iter()
                    .map(|a| text(a, "provider"))
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            ("TASKS", items(&health["tasks"], "").iter().map(task_line).collect::<Vec<_>>().join("\n")),
        ],
    )
}

fn task_line(task: &Value) -> String {
    format!("{}  {}  {}", short(&text(task, "id")), text(task, "name"), text(task, "state"))
}

async fn logs(session: &Session, follow: bool, lines: usize) -> Result<(), CliError> {
    let path = log(&session.profile()?);
    let failed = |source| CliError::File { path: path.clone(), source };
    let (mut tail, mut fresh) = Tail::open(&path, lines).map_err(failed)?;
    loop {
        for text in &fresh {
            line(text)?;
        }
        if !follow {
            return Ok(());
        }
        tokio::time::sleep(session.limits.transcript_flush.duration()).await;
        fresh = tail.fresh().map_err(failed)?;
    }
}

/// The log of the profile's last daemon: its own, or that of `multica up` around it.
fn log(profile: &Profile) -> PathBuf {
    let own = control::log_path(&profile.daemon_dir());
    let written = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    match up_seat::last(&profile.folder) {
        Some(up) if written(&up.log) > written(&own) => up.log,
        _ => own,
    }
}

/// Settles how a daemon of this profile runs.
pub fn daemon_config(session: &Session, args: &DaemonStart) -> Result<DaemonConfig, CliError> {
    session.people_only("daemon start")?;
    let settings = session.settings()?;
    let profile = session.profile()?;
    let file = ConfigFile::read(&profile.config_path())?;
    let environment = &session.environment;
    let home = Home::find(environment)?;
    let pick = |flag: Option<String>, variable: &str, key: &str| {
        flag.or_else(|| environment.get(variable).map(str::to_owned))
            .or_else(|| file.text(key).map(str::to_owned))
    };
    let root = pick(
        args.workspaces_root.as_ref().map(|p| session.absolute(p).display().to_string()),
        "MULTICA_WORKSPACES_ROOT",
        "workspaces_root",
    );
    let slots = args
        .max_concurrent_tasks
        .or(environment.count("MULTICA_DAEMON_MAX_CONCURRENT_TASKS")?)
        .or_else(|| file.count("max_concurrent_tasks"));
    let device = pick(args.device_name.clone(), "MULTICA_DAEMON_DEVICE_NAME", "device_name");
    let daemon_id = match &args.daemon_id {
        Some(id) => id.clone(),
        None => home.daemon_id(environment)?,
    };
    let user_home = home.0.parent().unwrap_or(&home.0);
    Ok(DaemonConfig {
        server_url: settings.server_url.ok_or(CliError::NoServer)?,
        token: settings.token.ok_or(CliError::NotSignedIn)?,
        workspace: settings.workspace,
        daemon_id,
        device_name: device.unwrap_or_else(crate::daemon::host::device_name),
        profile: profile.title().to_owned(),
        state_dir: profile.daemon_dir(),
        work_root: root
            .map_or_else(|| crate::daemon::host::default_work_root(&profile, user_home), Into::into),
        data_dir: None,
        slots: slots.unwrap_or(session.limits.daemon_slots),
        health_port: args.health_port,
        drain: args.drain.map_or(session.limits.drain.duration(), std::time::Duration::from_secs),
        allowed_directories: file.paths("allowed_directories"),
        environment: environment.clone(),
        limits: limits_with(&session.limits, slots),
    })
}

fn limits_with(limits: &Limits, slots: Option<u32>) -> Limits {
    Limits { daemon_slots: slots.unwrap_or(limits.daemon_slots), ..limits.clone() }
}
