//! The composition root: turns a role into what runs.

use std::process::ExitCode;

use multica::cli::{self, Role};
use multica::daemon::{self, DaemonConfig, Ended, Shutdown};
use multica::kernel::error_chain::Chain;
use multica::kernel::limits::Limits;
use multica::{execenv, supervisor};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

fn main() -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("__supervise") => {
            return runtime.block_on(supervisor::main(arguments.next().as_deref() == Some("--recover")));
        }
        Some("__inspect-directory") => return runtime.block_on(execenv::directory::main()),
        _ => {}
    }
    let limits = match std::env::var("MULTICA_LIMITS").map(|text| serde_json::from_str::<Limits>(&text)) {
        Ok(Ok(limits)) => limits,
        Ok(Err(error)) => {
            eprintln!("error: MULTICA_LIMITS can't be read: {error}");
            return ExitCode::FAILURE;
        }
        Err(_) => Limits::default(),
    };
    match cli::parse(std::env::args_os()) {
        Ok(Role::Client(client)) => runtime.block_on(cli::run(*client, limits)),
        Ok(Role::Daemon(common, start)) => match cli::daemon_config(&common, &start, limits) {
            Ok(config) => runtime.block_on(run_daemon(config)),
            Err(error) => cli::report(&error, false),
        },
        Ok(Role::Up(..) | Role::Server(..)) => ExitCode::FAILURE,
        Err(code) => code,
    }
}

async fn run_daemon(config: DaemonConfig) -> ExitCode {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let (ask, asked) = watch::channel(Shutdown::None);
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return ExitCode::FAILURE;
    };
    tokio::spawn(async move {
        for wanted in [Shutdown::Drain, Shutdown::Now] {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            ask.send_replace(wanted);
        }
        // Kept: a dropped sender would say nothing more.
        std::future::pending::<()>().await;
    });
    match daemon::run(config, asked).await {
        Ok(Ended::Stopped { .. }) => ExitCode::SUCCESS,
        Ok(Ended::Superseded) => {
            eprintln!("error: A newer process of this daemon has registered; this one stops.");
            eprintln!("Next: Look at it: `multica daemon list`.");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {}", Chain(&error));
            eprintln!("Next: {}", error.next_step());
            ExitCode::FAILURE
        }
    }
}
