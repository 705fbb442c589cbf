//! `multica up`: private PostgreSQL, server and daemon in one process, one terminal.
//!
//! Invariants: it works in a profile of its own and never touches another's files; nothing of it outlives a
//! clean stop, which ends the daemon first, the server after it and the database last; the demo's data
//! directory is wiped only when it carries the demo's mark.

use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{SystemError, bind};
use crate::cli::demo::{self, Demo};
use crate::cli::{self, Common, DaemonStart, UpArgs};
use crate::client::api::{Api, Connection, Written};
use crate::client::config::{ConfigFile, Environment, Home, LOCAL_PROFILE, Profile};
use crate::daemon::{self, DaemonConfig, Ended, Shutdown};
use crate::git::Git;
use crate::kernel::error_chain::Chain;
use crate::kernel::limits::Limits;
use crate::store::embedded::{Claim, postmaster};

/// The demo's profile.
const DEMO_PROFILE: &str = "demo";
/// What says that a data directory is the demo's, to be wiped.
const DEMO_MARK: &str = ".multica-demo";
/// The port tried first.
const FIRST_PORT: u16 = 8080;
/// Ports tried after it.
const MORE_PORTS: u16 = 200;
/// How long to wait for another process to let go of the data directory: one that was killed holds it for
/// some 100 ms more.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// The demo comes to its end within this time, or says that it didn't.
const DEMO_LIMIT: Duration = Duration::from_secs(120);
/// The demo's repository: one call of git.
const GIT_LIMIT: Duration = Duration::from_secs(30);

/// Why `multica up` can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The server.
    #[error("the server can't run")]
    System(#[from] SystemError),
    /// The profile's files.
    #[error("the profile can't be used")]
    Config(#[from] crate::client::config::ConfigError),
    /// The command line's part.
    #[error("the daemon can't be set up")]
    Cli(#[from] cli::error::CliError),
    /// The daemon.
    #[error("the daemon can't run")]
    Daemon(#[from] daemon::DaemonError),
    /// Its own server refused a call.
    #[error("the server refused its own first call")]
    Call(#[from] crate::client::error::ClientError),
    /// The demo.
    #[error("the demo can't be shown")]
    Demo(#[from] demo::DemoError),
    /// The demo's repository.
    #[error("the demo's repository can't be made")]
    Sample(#[from] crate::git::GitError),
    /// A file or folder.
    #[error("can't {action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Signals can't be heard.
    #[error("signals can't be listened to")]
    Signals(#[source] io::Error),
    /// The data directory belongs to something else.
    #[error("{0} isn't the demo's: it holds other files")]
    NotTheDemos(PathBuf),
    /// Every port is taken.
    #[error("no port from {FIRST_PORT} on is free")]
    NoPort,
}

impl UpError {
    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::System(error) => error.next_step(),
            Self::Daemon(error) => error.next_step(),
            Self::Config(error) => error.next_step(),
            Self::Cli(error) => error.next_step(),
            Self::NotTheDemos(_) => "Name an empty folder: `multica up --demo --data-dir DIR`.".to_owned(),
            Self::NoPort => "Name a free one: `multica up --port PORT`.".to_owned(),
            Self::Signals(_) => "Start it again.".to_owned(),
            Self::File { .. } => "Check the path and its permissions.".to_owned(),
            Self::Sample(_) => "Check that git works: `git --version`.".to_owned(),
            Self::Call(_) | Self::Demo(_) => "Look in multica.log in the data directory.".to_owned(),
        }
    }
}

/// Runs it until it is stopped.
///
/// # Errors
/// [`UpError`].
pub async fn run(common: &Common, args: &UpArgs, limits: Limits) -> Result<ExitCode, UpError> {
    // From here on a signal is answered by a clean stop, also while the database is still being made.
    let mut signals = Signals::listen().map_err(UpError::Signals)?;
    let plan = Plan::new(common, args, Environment::of_process())?;
    let claim = take(&plan.data, args.demo).await?;
    log_to(&plan.data, common.debug, &limits)?;
    let config = ConfigFile::read(&plan.profile.config_path())?;
    let listener = listen(args.port, config.text("server_url")).await?;
    let person = plan.environment.get("USER").unwrap_or("Owner").to_owned();
    let stop_server = CancellationToken::new();
    say(&format!("Starting PostgreSQL and the server ({}).", plan.data.display()));
    let token = config.text("token").map(ToOwned::to_owned);
    let start = super::Start { claim, listener, person, token, limits: limits.clone() };
    let up = super::up(start, stop_server.clone()).await;
    if signals.came().await {
        if let Ok(up) = up {
            up.embedded.stop().await.map_err(SystemError::from)?;
        }
        say("Stopped before it was up.");
        return Ok(ExitCode::FAILURE);
    }
    let super::Up { embedded, server, bootstrap } = up?;
    let told =
        with_server(&plan, args, limits, config, (server, bootstrap), &stop_server, &mut signals).await;
    // Whatever happened: server and database end with this process.
    let stopped = embedded.stop().await.map_err(SystemError::from);
    let code = told?;
    stopped?;
    Ok(code)
}

/// Makes the data directory this process' own; the demo's is emptied then, never before.
async fn take(data: &Path, demo: bool) -> Result<Claim, UpError> {
    if demo {
        must_be_the_demos(data)?;
    }
    let claim = Claim::take(data, LOCK_PATIENCE).await.map_err(SystemError::from)?;
    if demo {
        wipe(data).await?;
    }
    Ok(claim)
}

/// Everything between the server's first breath and its last.
async fn with_server(
    plan: &Plan,
    args: &UpArgs,
    limits: Limits,
    mut config: ConfigFile,
    (server, bootstrap): (super::Server, super::Bootstrap),
    stop_server: &CancellationToken,
    signals: &mut Signals,
) -> Result<ExitCode, UpError> {
    let url = format!("http://{}", server.address());
    let repository = plan.data.join("repository");
    config.set("server_url", json!(url));
    config.set("workspace_id", json!(bootstrap.workspace));
    config.set("token", json!(bootstrap.token));
    if args.demo {
        sample(&repository, &plan.environment).await?;
        config.set("allowed_directories", json!([repository]));
    }
    config.write(&plan.profile.config_path())?;
    let connection = Connection {
        server_url: url,
        token: Some(SecretString::from(bootstrap.token.clone())),
        workspace: Some(bootstrap.workspace.to_string()),
        platform: "cli",
        run: None,
        limits: limits.clone(),
        written: Written::seen(),
    };
    let api = Api::new(&connection)?;
    let daemon_config = plan.daemon(args, limits)?;
    let demo = args.demo.then_some(repository);
    let mut server = tokio::spawn(server.run());
    let told = serve_people(&api, daemon_config, args, demo.as_deref(), &mut server, signals).await;
    stop_server.cancel();
    let served =
        if server.is_finished() { Ok(()) } else { server.await.unwrap_or(Err(SystemError::Stopped)) };
    let code = told?;
    served?;
    Ok(code)
}

type ServerTask = tokio::task::JoinHandle<Result<(), SystemError>>;

/// Everything between the server's start and its stop.
async fn serve_people(
    api: &Api,
    config: DaemonConfig,
    args: &UpArgs,
    demo: Option<&Path>,
    server: &mut ServerTask,
    signals: &mut Signals,
) -> Result<ExitCode, UpError> {
    let (ask, asked) = watch::channel(Shutdown::None);
    let daemon_id = config.daemon_id.clone();
    let mut daemon = (!args.no_daemon).then(|| tokio::spawn(daemon::run(config, asked)));
    let told = async {
        greet(api, args.demo).await?;
        let Some(repository) = demo else {
            signals.asked(&ask, Shutdown::Drain).await;
            return Ok(ExitCode::SUCCESS);
        };
        let live = !args.once && io::stdout().is_terminal();
        let demo = Demo { repository, daemon_id: &daemon_id, live, limit: DEMO_LIMIT };
        let outcome = tokio::select! {
            outcome = demo::run(api, &demo) => outcome?,
            () = signals.asked(&ask, Shutdown::Now) => return Ok(ExitCode::FAILURE),
        };
        let code = show(&outcome);
        if !args.once {
            say("The demo is over; its pages stay until you press Ctrl-C.");
            signals.asked(&ask, Shutdown::Now).await;
        }
        Ok(code)
    };
    let result = tokio::select! {
        result = told => result,
        ended = server => Err(match ended {
            Ok(Err(error)) => error.into(),
            Ok(Ok(())) | Err(_) => SystemError::Stopped.into(),
        }),
        ended = ended(&mut daemon) => ended.map(|()| ExitCode::SUCCESS),
    };
    if demo.is_some() || result.is_err() {
        ask.send_replace(Shutdown::Now);
    }
    let ended = end_daemon(&mut daemon, &ask, signals).await;
    let code = result?;
    ended?;
    Ok(code)
}

/// Where things are.
struct Plan {
    profile: Profile,
    data: PathBuf,
    common: Common,
    environment: Environment,
    /// Set where runs don't go to the usual place.
    work_root: Option<PathBuf>,
}

impl Plan {
    fn new(common: &Common, args: &UpArgs, environment: Environment) -> Result<Self, UpError> {
        let home = Home::find(&environment)?;
        let usual = if args.demo { DEMO_PROFILE } else { LOCAL_PROFILE };
        let name = common.profile.as_deref().or_else(|| environment.get("MULTICA_PROFILE")).unwrap_or(usual);
        let name = name.to_owned();
        let profile = home.profile(&name)?;
        let data = match &args.data_dir {
            Some(data) => std::path::absolute(data).map_err(|source| UpError::File {
                action: "resolve",
                path: data.clone(),
                source,
            })?,
            None => default_data_dir(&home, &environment, &name),
        };
        let apart = args.demo || args.data_dir.is_some();
        let work_root = apart.then(|| data.join("work"));
        Ok(Self {
            profile,
            data,
            common: Common { profile: Some(name), ..common.clone() },
            environment,
            work_root,
        })
    }

    fn daemon(&self, args: &UpArgs, limits: Limits) -> Result<DaemonConfig, UpError> {
        let start = DaemonStart {
            foreground: true,
            workspaces_root: self.work_root.clone(),
            drain: args.drain,
            ..DaemonStart::default()
        };
        Ok(cli::daemon_config(&self.common, &start, limits)?)
    }
}

/// Root's is a place that other accounts can walk through; a user's is where user data belongs.
fn default_data_dir(home: &Home, environment: &Environment, profile: &str) -> PathBuf {
    if crate::process::owner::current_uid() == 0 {
        return Path::new(daemon::host::SYSTEM_DIR).join("profiles").join(profile);
    }
    let user = home.0.parent().unwrap_or(&home.0);
    let base = environment.get("XDG_DATA_HOME").map_or_else(|| user.join(".local/share"), PathBuf::from);
    base.join("multica").join(profile)
}

fn say(line: &str) {
    anstream::eprintln!("{line}");
}

fn make(folder: &Path) -> Result<(), UpError> {
    fs::create_dir_all(folder).map_err(|source| UpError::File {
        action: "make",
        path: folder.to_owned(),
        source,
    })
}

/// A data directory without the demo's mark is somebody's: it is refused, not emptied. One with nothing but
/// the lock was left by a demo that was killed before it could leave its mark.
fn must_be_the_demos(data: &Path) -> Result<(), UpError> {
    let of_others = |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|e| e.file_name() != Claim::FILE);
    let is_empty = fs::read_dir(data).map_or(true, |mut entries| !entries.any(of_others));
    if !is_empty && !data.join(DEMO_MARK).is_file() {
        return Err(UpError::NotTheDemos(data.to_owned()));
    }
    Ok(())
}

/// Empties the demo's data directory, which this process has claimed.
async fn wipe(data: &Path) -> Result<(), UpError> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| UpError::File { action, path, source }
    };
    let mark = data.join(DEMO_MARK);
    fs::write(&mark, "The demo empties this folder at its start.\n").map_err(failed("write", &mark))?;
    // A demo that was killed has left its database running.
    if let Ok(cluster) = data.join("pg/data").canonicalize() {
        postmaster::stop(&cluster, || {}).await.map_err(SystemError::from)?;
    }
    for entry in fs::read_dir(data).into_iter().flatten().flatten() {
        let path = entry.path();
        // Whoever waits for the lock waits on this very file.
        if path == mark || entry.file_name() == Claim::FILE {
            continue;
        }
        let gone = if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        gone.map_err(failed("remove", &path))?;
    }
    Ok(())
}

/// The demo's repository, with one file and one commit.
async fn sample(folder: &Path, environment: &Environment) -> Result<(), UpError> {
    make(folder)?;
    let readme = folder.join("README.md");
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| UpError::File { action: "write", path, source }
    };
    fs::write(&readme, "# Greetings\n\nA throw-away repository.\n").map_err(failed(&readme))?;
    let git = Git {
        home: folder.display().to_string(),
        path: environment.get("PATH").unwrap_or("/usr/bin:/bin").to_owned(),
        timeout: GIT_LIMIT,
    };
    let handle = File::open(folder).map_err(failed(folder))?;
    Ok(git.make_sample(&handle).await?)
}

/// The port asked for, else the profile's, else the first free one.
async fn listen(asked: Option<u16>, last: Option<&str>) -> Result<TcpListener, UpError> {
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    if let Some(port) = asked {
        return Ok(bind(at(port)).await?);
    }
    let kept = last.and_then(|url| url.rsplit(':').next()).and_then(|port| port.parse().ok());
    for port in kept.into_iter().chain(FIRST_PORT..FIRST_PORT + MORE_PORTS) {
        if let Ok(listener) = bind(at(port)).await {
            return Ok(listener);
        }
    }
    Err(UpError::NoPort)
}

/// The log goes to a file: the terminal is for people, unless they ask for it.
fn log_to(data: &Path, debug: bool, limits: &Limits) -> Result<(), UpError> {
    if debug {
        super::log::to_terminal(true);
        return Ok(());
    }
    let path = data.join("multica.log");
    super::log::to_file(path.clone(), debug, limits).map_err(|source| UpError::File {
        action: "open",
        path,
        source,
    })
}

/// Address, sign-in link, and what to do first.
async fn greet(api: &Api, demo: bool) -> Result<(), UpError> {
    let link = api.post::<Value>("/api/sign-in-links", &json!({})).await?;
    let link = link["url"].as_str().unwrap_or_default();
    say("");
    say(&format!("multica is up at {}", api.server_url()));
    say(&format!("  sign in (works once, for ten minutes): {link}"));
    if !demo {
        say("");
        say("Attach a directory of your own, in another terminal:");
        say("  multica project create --title Game");
        say("  multica project resource add Game --type local_directory --local-path ~/code/game");
        say("  multica agent create --name dev --provider claude        # or codex, opencode, command");
        say("  multica issue create --title \"Fix the build\" --project Game --assignee dev");
        say("");
        say("Ctrl-C stops all of it.");
    }
    say("");
    Ok(())
}

fn show(outcome: &demo::Outcome) -> ExitCode {
    for finding in &outcome.findings {
        say(&format!("  found: {finding}"));
    }
    anstream::println!("{}", outcome.line());
    if outcome.is_as_it_should_be() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The signals that ask for a stop, heard from the moment this is made.
struct Signals {
    int: Signal,
    term: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self { int: signal(SignalKind::interrupt())?, term: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
        }
    }

    /// Whether one has come by now.
    async fn came(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.next() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Waits for one and passes on what it means.
    async fn asked(&mut self, ask: &watch::Sender<Shutdown>, means: Shutdown) {
        self.next().await;
        ask.send_replace(means);
    }
}

type DaemonTask = Option<tokio::task::JoinHandle<Result<Ended, daemon::DaemonError>>>;

/// Waits for the daemon's own end (`multica daemon stop`, or a failure); for ever where there is none.
async fn ended(daemon: &mut DaemonTask) -> Result<(), UpError> {
    let Some(task) = daemon else { return std::future::pending().await };
    let ended = task.await;
    *daemon = None;
    let ended = ended.map_err(|_| SystemError::Stopped)??;
    tracing::info!(?ended, "the daemon has stopped");
    if ended == Ended::Superseded {
        say("A newer process of this daemon has registered; this one stops.");
    }
    Ok(())
}

/// Ends the daemon; a second signal hurries it.
async fn end_daemon(
    daemon: &mut DaemonTask,
    ask: &watch::Sender<Shutdown>,
    signals: &mut Signals,
) -> Result<(), UpError> {
    if daemon.is_none() {
        return Ok(());
    }
    if *ask.borrow() == Shutdown::None {
        ask.send_replace(Shutdown::Drain);
    }
    if *ask.borrow() == Shutdown::Drain {
        say("Stopping: no new claims; what runs may end. Ctrl-C again stops it now.");
    }
    loop {
        tokio::select! {
            result = ended(daemon) => return result,
            () = signals.asked(ask, Shutdown::Now) => {}
        }
    }
}

/// Says why it can't go on.
pub fn report(error: &UpError) -> ExitCode {
    say(&format!("error: {}", Chain(error)));
    say(&format!("Next: {}", error.next_step()));
    ExitCode::FAILURE
}
