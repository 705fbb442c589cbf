//! `multica up`: private PostgreSQL, server and daemon in one process, one terminal.
//!
//! Invariants: it works in a profile of its own and never touches another's files; nothing of it outlives a
//! clean stop, which ends the daemon first, the server after it and the database last; a profile has one of
//! it at a time, and nothing of the profile is written before that is sure.
//!
//! Not here: the demo's folders (`demo_place`).

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::demo_place::{DemoPlace, DemoPlaceError};
use super::{SystemError, bind};
use crate::cli::demo::{self, Demo};
use crate::cli::{self, Common, DaemonStart, UpArgs};
use crate::client::api::{Api, Connection, Written};
use crate::client::config::{ConfigFile, Environment, Home, LOCAL_PROFILE, Profile};
use crate::daemon::up_seat::{self, UpRecord, UpSeatError};
use crate::daemon::{self, DaemonConfig, Ended, Shutdown};
use crate::kernel::error_chain::Chain;
use crate::kernel::limits::Limits;
use crate::store::embedded::Claim;

/// The demo's profile.
const DEMO_PROFILE: &str = "demo";
/// The port tried first.
const FIRST_PORT: u16 = 8080;
/// Ports tried after it.
const MORE_PORTS: u16 = 200;
/// How long to wait for another process to let go of profile and data directory: one that was killed holds it for
/// some 100 ms more.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// The demo comes to its end within this time, or says that it didn't.
const DEMO_LIMIT: Duration = Duration::from_secs(120);

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
    /// The demo's folders.
    #[error("the demo has no place")]
    Place(#[from] DemoPlaceError),
    /// The profile is in use.
    #[error("the profile is in use")]
    Seat(#[from] UpSeatError),
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
            Self::Place(error) => error.next_step(),
            Self::Seat(error) => error.next_step(),
            Self::NoPort => "Name a free one: `multica up --port PORT`.".to_owned(),
            Self::Signals(_) => "Start it again.".to_owned(),
            Self::File { .. } => "Check the path and its permissions.".to_owned(),
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
    let began = Instant::now();
    let plan = Plan::new(common, args, Environment::of_process())?;
    let log = plan.data.join("multica.log");
    let record = UpRecord { pid: std::process::id(), data_dir: plan.data.clone(), log: log.clone() };
    let profile = &plan.profile;
    let _seat = up_seat::take(&profile.folder, profile.title(), &record, LOCK_PATIENCE, &limits).await?;
    let claim = take(&plan).await?;
    log_to(log, common.debug, &limits)?;
    let config = ConfigFile::read(&plan.profile.config_path())?;
    let listener = listen(args.port, config.text("server_url")).await?;
    let person = plan.environment.get("USER").unwrap_or("Owner").to_owned();
    let stop_server = CancellationToken::new();
    say(&format!(
        "Starting PostgreSQL and the server; data and log (multica.log) are in {}.",
        plan.data.display()
    ));
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
    let (code, left) = told?;
    stopped?;
    say(&farewell(left, began.elapsed()));
    Ok(code)
}

/// Makes the data directory this process' own; the demo's folders are emptied then, never before.
async fn take(plan: &Plan) -> Result<Claim, UpError> {
    if let Some(place) = &plan.demo {
        place.must_be_the_demos()?;
    }
    let claim = Claim::take(&plan.data, LOCK_PATIENCE).await.map_err(SystemError::from)?;
    if let Some(place) = &plan.demo {
        place.wipe().await?;
    }
    Ok(claim)
}

/// What a stop has left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Left {
    /// Runs that were interrupted.
    interrupted: usize,
    /// Runs whose last reports the server doesn't have yet.
    undelivered: usize,
}

/// The last line: how long it was up, and what became of the runs.
fn farewell(left: Left, up_for: Duration) -> String {
    let minutes = up_for.as_secs() / 60;
    let span = match (minutes / 60, minutes) {
        (0, 0) => format!("{} s", up_for.as_secs()),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {} min", minutes % 60),
    };
    let runs = |count: usize| if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
    let mut line = format!("Stopped after {span}, database and all.");
    if left.interrupted > 0 {
        line.push_str(&format!(
            " Interrupted: {}; `multica task list` tells after the next start what became of it.",
            runs(left.interrupted)
        ));
    }
    if left.undelivered > 0 {
        line.push_str(&format!(
            " The last reports of {} are delivered at the next start.",
            runs(left.undelivered)
        ));
    }
    line
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
) -> Result<(ExitCode, Left), UpError> {
    let url = format!("http://{}", server.address());
    config.set("server_url", json!(url));
    config.set("workspace_id", json!(bootstrap.workspace));
    config.set("token", json!(bootstrap.token));
    if let Some(place) = &plan.demo {
        place.make_sample(&plan.environment).await?;
        config.set("allowed_directories", json!([place.repository()]));
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
    let mut server = tokio::spawn(server.run());
    let told = serve_people(&api, daemon_config, args, plan, &mut server, signals).await;
    stop_server.cancel();
    let served =
        if server.is_finished() { Ok(()) } else { server.await.unwrap_or(Err(SystemError::Stopped)) };
    let told = told?;
    served?;
    Ok(told)
}

type ServerTask = tokio::task::JoinHandle<Result<(), SystemError>>;

/// Everything between the server's start and its stop.
async fn serve_people(
    api: &Api,
    config: DaemonConfig,
    args: &UpArgs,
    plan: &Plan,
    server: &mut ServerTask,
    signals: &mut Signals,
) -> Result<(ExitCode, Left), UpError> {
    let (ask, asked) = watch::channel(Shutdown::None);
    let daemon_id = config.daemon_id.clone();
    let drain = config.drain;
    let cli = plan.cli();
    let demo = plan.demo.as_ref().map(DemoPlace::repository);
    let mut daemon = (!args.no_daemon).then(|| tokio::spawn(daemon::run(config, asked)));
    let told = async {
        greet(api, args, &cli).await?;
        let Some(repository) = &demo else {
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
            say("The demo is over; it stays until you press Ctrl-C. In another terminal:");
            say(&format!("  {cli} feed                      # what happened"));
            say(&format!("  {cli} task list"));
            say(&format!("  {cli} task explain {}", outcome.failed_task));
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
        ended = ended(&mut daemon) => ended.map(|_| ExitCode::SUCCESS),
    };
    if demo.is_some() || result.is_err() {
        ask.send_replace(Shutdown::Now);
    }
    if ask.borrow().eq(&Shutdown::Drain) {
        say(&stopping(running(api, &daemon_id).await, drain));
    }
    let ended = end_daemon(&mut daemon, &ask, signals).await;
    let code = result?;
    Ok((code, ended?))
}

/// How many runs the daemon has; none where the server can't say.
async fn running(api: &Api, daemon_id: &str) -> u64 {
    let answer = api.get::<Value>("/api/daemons").await.unwrap_or_default();
    let daemons = answer["daemons"].as_array().into_iter().flatten();
    daemons
        .filter(|daemon| daemon["daemon_id"] == daemon_id)
        .filter_map(|daemon| daemon["running"].as_u64())
        .sum()
}

/// What is said when a stop begins.
fn stopping(running: u64, drain: Duration) -> String {
    let seconds = drain.as_secs();
    match running {
        0 => "Stopping; nothing runs.".to_owned(),
        1 => format!("Stopping. 1 run goes on for up to {seconds} s; Ctrl-C again interrupts it now."),
        runs => {
            format!("Stopping. {runs} runs go on for up to {seconds} s; Ctrl-C again interrupts them now.")
        }
    }
}

/// Where things are.
struct Plan {
    profile: Profile,
    data: PathBuf,
    common: Common,
    environment: Environment,
    /// The demo's folders, where it is to be shown.
    demo: Option<DemoPlace>,
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
        let demo = args.demo.then(|| DemoPlace::of(&data, &daemon::host::system_dir()));
        Ok(Self {
            profile,
            data,
            common: Common { profile: Some(name), ..common.clone() },
            environment,
            demo,
            work_root,
        })
    }

    /// How another terminal calls this installation: the profiles `default` and `local` are found without their
    /// name, unless a variable names another.
    fn cli(&self) -> String {
        let folders = self.environment.get("PATH").unwrap_or_default().split(':');
        let is_on_path =
            folders.map(|folder| Path::new(folder).join("multica")).any(|program| program.is_file());
        let own = std::env::current_exe().map(|program| program.display().to_string());
        let program = own.ok().filter(|_| !is_on_path).unwrap_or_else(|| "multica".to_owned());
        match self.profile.title() {
            "default" | LOCAL_PROFILE => program,
            name => format!("{program} --profile {name}"),
        }
    }

    fn daemon(&self, args: &UpArgs, limits: Limits) -> Result<DaemonConfig, UpError> {
        let start = DaemonStart {
            foreground: true,
            workspaces_root: self.work_root.clone(),
            drain: args.drain,
            ..DaemonStart::default()
        };
        let config = cli::daemon_config(&self.common, &start, limits)?;
        Ok(DaemonConfig { data_dir: Some(self.data.clone()), ..config })
    }
}

/// Root's is a place that other accounts can walk through; a user's is where user data belongs.
fn default_data_dir(home: &Home, environment: &Environment, profile: &str) -> PathBuf {
    if crate::process::owner::current_uid() == 0 {
        return daemon::host::system_dir().join("profiles").join(profile);
    }
    let user = home.0.parent().unwrap_or(&home.0);
    let base = environment.get("XDG_DATA_HOME").map_or_else(|| user.join(".local/share"), PathBuf::from);
    base.join("multica").join(profile)
}

fn say(line: &str) {
    anstream::eprintln!("{line}");
}

/// The port asked for, else the profile's, else the first free one.
async fn listen(asked: Option<u16>, last: Option<&str>) -> Result<TcpListener, UpError> {
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    if let Some(port) = asked {
        return Ok(bind(at(port)).await?);
    }
    let kept = last.and_then(|url| url.rsplit(':').next()).and_then(|port| port.parse().ok());
    let wanted = kept.unwrap_or(FIRST_PORT);
    for port in kept.into_iter().chain(FIRST_PORT..FIRST_PORT + MORE_PORTS) {
        if let Ok(listener) = bind(at(port)).await {
            if port != wanted {
                say(&format!("Port {wanted} is in use by another program; this takes {port}."));
            }
            return Ok(listener);
        }
    }
    Err(UpError::NoPort)
}

/// The log goes to a file: the terminal is for people, unless they ask for it.
fn log_to(path: PathBuf, debug: bool, limits: &Limits) -> Result<(), UpError> {
    if debug {
        super::log::to_terminal(true);
        return Ok(());
    }
    super::log::to_file(path.clone(), debug, limits).map_err(|source| UpError::File {
        action: "open",
        path,
        source,
    })
}

/// Address, sign-in link, and what to do first.
async fn greet(api: &Api, args: &UpArgs, cli: &str) -> Result<(), UpError> {
    let link = api.post::<Value>("/api/sign-in-links", &json!({})).await?;
    let link = link["url"].as_str().unwrap_or_default();
    say("");
    say(&format!("multica is up at {}", api.server_url()));
    say(&format!("  sign in (works once, for ten minutes): {link}"));
    if args.demo {
        say(&format!("  meanwhile, in another terminal: {cli} task list"));
    } else {
        say("");
        say("Attach a directory of your own, in another terminal:");
        say(&format!("  {cli} project create --title Game"));
        say(&format!("  {cli} project resource add Game --type local_directory --local-path ~/code/game"));
        say(&format!("  {cli} agent create --name dev --provider claude       # or codex, opencode"));
        say(&format!("  {cli} agent create --name build --provider command --command make --prompt none"));
        say(&format!("  {cli} issue create --title \"Build it\" --project Game --assignee build"));
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

/// Waits for the daemon's own end; for ever where there is none.
async fn ended(daemon: &mut DaemonTask) -> Result<Left, UpError> {
    let Some(task) = daemon else { return std::future::pending().await };
    let ended = task.await;
    *daemon = None;
    let ended = ended.map_err(|_| SystemError::Stopped)??;
    tracing::info!(?ended, "the daemon has stopped");
    match ended {
        Ended::Superseded => {
            say("A newer process of this daemon has registered; this one stops.");
            Ok(Left::default())
        }
        Ended::Stopped { interrupted, undelivered } => Ok(Left { interrupted, undelivered }),
    }
}

/// Ends the daemon; a second signal hurries it.
async fn end_daemon(
    daemon: &mut DaemonTask,
    ask: &watch::Sender<Shutdown>,
    signals: &mut Signals,
) -> Result<Left, UpError> {
    if daemon.is_none() {
        return Ok(Left::default());
    }
    if *ask.borrow() == Shutdown::None {
        ask.send_replace(Shutdown::Drain);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_says_what_it_waits_for_and_what_became_of_the_runs() {
        let drain = Duration::from_secs(30);
        assert_eq!(stopping(0, drain), "Stopping; nothing runs.");
        assert!(stopping(2, drain).starts_with("Stopping. 2 runs go on for up to 30 s; Ctrl-C again"));
        let farewell = |interrupted, undelivered, seconds| {
            farewell(Left { interrupted, undelivered }, Duration::from_secs(seconds))
        };
        assert_eq!(farewell(0, 0, 42), "Stopped after 42 s, database and all.");
        assert!(
            farewell(1, 0, 240).starts_with("Stopped after 4 min, database and all. Interrupted: 1 run; ")
        );
        let line = farewell(0, 2, 7_380);
        assert!(line.starts_with("Stopped after 2 h 3 min"), "{line}");
        assert!(line.ends_with("reports of 2 runs are delivered at the next start."), "{line}");
    }
}
