//! The composition root.

use std::process::ExitCode;

use multica::{execenv, supervisor};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return ExitCode::FAILURE };
    match arguments.next().as_deref() {
        Some("__supervise") => {
            runtime.block_on(supervisor::main(arguments.next().as_deref() == Some("--recover")))
        }
        Some("__inspect-directory") => runtime.block_on(execenv::directory::main()),
        _ => ExitCode::FAILURE,
    }
}
