//! The composition root.

use std::process::ExitCode;

use multica::{execenv, store, supervisor};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_deref().is_some_and(|first| first == "__reap") {
        return reap(arguments);
    }
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return ExitCode::FAILURE };
    match first.as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("__supervise") => {
            let recover = arguments.next().is_some_and(|argument| argument == "--recover");
            runtime.block_on(supervisor::main(recover))
        }
        Some("__inspect-directory") => runtime.block_on(execenv::directory::main()),
        _ => ExitCode::FAILURE,
    }
}

/// `__reap <pid to wait for> <data directory>`: takes a test run's database server away.
fn reap(mut arguments: impl Iterator<Item = std::ffi::OsString>) -> ExitCode {
    let wait_for = arguments.next().and_then(|pid| pid.to_str()?.parse().ok());
    let (Some(wait_for), Some(folder)) = (wait_for, arguments.next().map(std::path::PathBuf::from)) else {
        return ExitCode::from(2);
    };
    match store::embedded::reap::run(wait_for, &folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
