//! The composition root: turns a role into what runs.

use std::process::ExitCode;

use multica::cli::{self, Role};
use multica::kernel::limits::Limits;
use multica::{execenv, supervisor};

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
        Ok(Role::Up(..) | Role::Server(..) | Role::Daemon(..)) => ExitCode::FAILURE,
        Err(code) => code,
    }
}
