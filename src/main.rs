//! The program: words in, a role out, the composition root runs it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use multica::kernel::error_chain::Chain;
use multica::system::{self, SystemError};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "__reap") {
        return reap(arguments);
    }
    let filter = EnvFilter::try_from_env("MULTICA_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the program can't start its threads");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = %Chain(&error), "stopped");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), SystemError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let port = variable("MULTICA_PORT").and_then(|port| port.parse().ok()).unwrap_or(8080);
    let listen = SocketAddr::from(([127, 0, 0, 1], port));
    match std::env::args().nth(1).as_deref() {
        Some("server") => system::server(variable, listen, Vec::new()).await,
        Some("up") => {
            let home = variable("HOME").ok_or(SystemError::Missing { name: "HOME" })?;
            let data = variable("MULTICA_DATA_DIR")
                .map_or_else(|| PathBuf::from(home).join(".multica/profiles/local/data"), PathBuf::from);
            let limits = system::limits(variable("MULTICA_LIMITS").as_deref())?;
            let person = variable("USER").unwrap_or_else(|| "Owner".to_owned());
            let token = variable("MULTICA_TOKEN");
            let shutdown = CancellationToken::new();
            let up = system::up(&data, listen, &person, token.as_deref(), limits, shutdown.clone()).await?;
            tracing::info!(address = %up.server.address(), workspace = %up.bootstrap.workspace, "up");
            system::stop_when_asked(shutdown);
            let served = up.server.run().await;
            up.embedded.stop().await?;
            served
        }
        _ => Err(SystemError::Missing { name: "the role: server or up" }),
    }
}

/// `__reap <pid to wait for> <data directory>`: takes a test run's database server away.
fn reap(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let wait_for = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let (Some(wait_for), Some(folder)) = (wait_for, arguments.next().map(PathBuf::from)) else {
        return ExitCode::from(2);
    };
    match multica::store::embedded::reap::run(wait_for, &folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
