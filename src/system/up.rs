//! `multica up`: private PostgreSQL, server and daemon in one process, one terminal.
//!
//! Invariants: it works in a profile of its own and never touches another's files; nothing of it outlives a
//! clean stop, which ends the daemon first, the server after it and the database last; a profile has one of
//! it at a time, and nothing of the profile is written before that is sure.
//!
//! Here: the order of things, from the first signal heard to the last. Not here: where things are (`up/plan`), what
//! is said (`up/told`), the demo's folders (`demo_place`).

mod error;
mod plan;
mod signals;
mod told;

pub use error::UpError;
pub use told::report;

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use secrecy::SecretString;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::plan::Plan;
use self::signals::Signals;
use self::told::{Left, farewell, greet, running, say, show, stopping};
use super::demo_place::DemoPlace;
use super::file_error::failed;
use super::{SystemError, bind};
use crate::cli::demo::{self, Demo};
use crate::cli::{Common, UpArgs};
use crate::client::api::{Api, Connection, Past, Written};
use crate::client::config::{ConfigFile, Environment};
use crate::daemon::up_seat::{self, UpRecord};
use crate::daemon::{self, DaemonConfig, Ended, Shutdown};
use crate::kernel::limits::Limits;
use crate::store::embedded::Claim;

/// The port tried first.
const FIRST_PORT: u16 = 8080;
/// Ports tried after it.
const MORE_PORTS: u16 = 200;

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
    let _seat =
        up_seat::take(&profile.folder, profile.title(), &record, limits.own_lock.duration(), &limits).await?;
    let claim = take(&plan, &limits).await?;
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
    let start = super::Start {
        claim,
        listener,
        person,
        token,
        limits: limits.clone(),
        choices: super::Choices {
            seal_to: args.seal_to.clone(),
            webhook_to: args.webhook_to.clone(),
            keep_transcripts: args.keep_transcripts,
        },
    };
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
async fn take(plan: &Plan, limits: &Limits) -> Result<Claim, UpError> {
    if let Some(place) = &plan.demo {
        place.must_be_the_demos()?;
    }
    let claim = Claim::take(&plan.data, limits.own_lock.duration()).await.map_err(SystemError::from)?;
    if let Some(place) = &plan.demo {
        place.wipe().await?;
    }
    Ok(claim)
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
    Ok(super::log::to_file(path.clone(), debug, limits).map_err(failed("open", &path))?)
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
        place.make_sample(&plan.environment, &limits).await?;
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
        past: Past::default(),
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
    let limit = config.limits.demo.duration();
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
        let demo = Demo { repository, daemon_id: &daemon_id, live, limit };
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
