//! The binary: hidden subcommands first, then the roles.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "__reap") {
        return reap(arguments);
    }
    ExitCode::SUCCESS
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
