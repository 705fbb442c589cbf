//! The composition root: turns a role into what runs.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use multica::cli::{self, Common, Role, ServerArgs};
use multica::daemon::{self, DaemonConfig, Ended, Shutdown};
use multica::kernel::error_chain::Chain;
use multica::kernel::limits::Limits;
use multica::process::stop::Signals;
use multica::system::{self, up};
use multica::{execenv, store, supervisor};
use tokio::sync::watch;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_deref().is_some_and(|first| first == "__reap") {
        return reap(arguments);
    }
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    match first.as_deref().and_then(std::ffi::OsStr::to_str) {
        Some(supervisor::remote::SUPERVISE) => {
            let recover = arguments.next().is_some_and(|argument| argument == supervisor::remote::RECOVER);
            return runtime.block_on(supervisor::main(recover));
        }
        Some("__try-lock") => return execenv::lock_probe::main(),
        Some("__inspect-directory") => return runtime.block_on(execenv::directory::main()),
        _ => {}
    }
    let limits = match system::limits(std::env::var("MULTICA_LIMITS").ok().as_deref()) {
        Ok(limits) => limits,
        Err(error) => {
            let words: Vec<OsString> = std::env::args_os().collect();
            return cli::fail(&error, "limits", &error.next_step(), cli::wants_json(&words));
        }
    };
    match cli::parse(std::env::args_os()) {
        Ok(role) => runtime.block_on(play(role, limits)),
        Err(code) => code,
    }
}

async fn play(role: Role, limits: Limits) -> ExitCode {
    match role {
        Role::Client(client) => {
            if client.debug() {
                system::log::to_terminal(true);
            }
            cli::run(*client, limits).await
        }
        Role::Daemon(common, start) => {
            let config = match cli::daemon_config(&common, &start, limits.clone()) {
                Ok(config) => config,
                Err(error) => return cli::report(&error, common.wants_json()),
            };
            // A start in the background has looked already.
            if !start.log_to_file
                && let Err(error) = cli::daemon_may_start(&common, limits).await
            {
                return cli::report(&error, common.wants_json());
            }
            run_daemon(config, &common, start.log_to_file).await
        }
        Role::Server(common, args) => run_server(&common, &args).await,
        Role::Up(common, args) => match up::run(&common, &args, limits).await {
            Ok(code) => code,
            Err(error) => cli::fail(&error, "up", &error.next_step(), common.wants_json()),
        },
    }
}

/// Why a role that stays can't start or go on, apart from what the role itself says.
#[derive(Debug, thiserror::Error)]
enum RoleError {
    #[error("`{0}` is no address")]
    Address(String),
    #[error("{0} can be reached from elsewhere, and this server speaks plain HTTP")]
    Exposed(IpAddr),
    #[error("can't open {path}")]
    Log {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("a newer process of this daemon has registered; this one stops")]
    Superseded,
}

impl RoleError {
    fn fail(&self, common: &Common) -> ExitCode {
        let (code, step) = match self {
            Self::Address(_) => ("usage", "Give one like 127.0.0.1."),
            Self::Exposed(_) => {
                ("not_loopback", "Put TLS in front of it and say so with --behind-tls, or bind to 127.0.0.1.")
            }
            Self::Log { .. } => ("file", "Check the path and its permissions."),
            Self::Superseded => ("daemon_superseded", "Look at it: `multica daemon list`."),
        };
        cli::fail(self, code, step, common.wants_json())
    }
}

async fn run_server(common: &Common, args: &ServerArgs) -> ExitCode {
    system::log::to_terminal(common.debug);
    let Ok(address) = args.bind.parse::<IpAddr>() else {
        return RoleError::Address(args.bind.clone()).fail(common);
    };
    if !address.is_loopback() && !args.behind_tls {
        return RoleError::Exposed(address).fail(common);
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match system::server(
        variable,
        SocketAddr::new(address, args.port),
        Vec::new(),
        &args.seal_to,
        &args.webhook_to,
    )
    .await
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => cli::fail(&error, "server", &error.next_step(), common.wants_json()),
    }
}

/// `__reap <pid to wait for> <data directory>`: takes a test run's database server away.
fn reap(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let wait_for = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let (Some(wait_for), Some(folder)) = (wait_for, arguments.next().map(PathBuf::from)) else {
        return ExitCode::from(2);
    };
    match store::embedded::reap::run(wait_for, &folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

async fn run_daemon(config: DaemonConfig, common: &Common, to_file: bool) -> ExitCode {
    if to_file {
        let path = daemon::control::log_path(&config.state_dir);
        if let Err(source) = system::log::to_file(path.clone(), common.debug, &config.limits) {
            return RoleError::Log { path, source }.fail(common);
        }
    } else {
        system::log::to_terminal(common.debug);
    }
    let (ask, asked) = watch::channel(Shutdown::None);
    let Ok(mut signals) = Signals::listen() else { return ExitCode::FAILURE };
    tokio::spawn(async move {
        for wanted in [Shutdown::Drain, Shutdown::Now] {
            signals.next().await;
            ask.send_replace(wanted);
        }
        // Kept: a dropped sender would say nothing more.
        std::future::pending::<()>().await;
    });
    match daemon::run(config, asked).await {
        Ok(Ended::Stopped { .. }) => ExitCode::SUCCESS,
        Ok(Ended::Superseded) => RoleError::Superseded.fail(common),
        Err(error) => {
            // Also where `daemon logs` looks.
            tracing::error!(error = %Chain(&error), "the daemon ends");
            cli::fail(&error, "daemon", &error.next_step(), common.wants_json())
        }
    }
}
