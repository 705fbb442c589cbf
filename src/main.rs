//! The composition root: turns a role into what runs.

use std::process::ExitCode;

use multica::cli::{self, Role};
use multica::kernel::limits::Limits;

fn main() -> ExitCode {
    let limits = match std::env::var("MULTICA_LIMITS") {
        Ok(text) => match serde_json::from_str::<Limits>(&text) {
            Ok(limits) => limits,
            Err(error) => {
                eprintln!("error: MULTICA_LIMITS can't be read: {error}");
                return ExitCode::from(1);
            }
        },
        Err(_) => Limits::default(),
    };
    let role = match cli::parse(std::env::args_os()) {
        Ok(role) => role,
        Err(code) => return code,
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: can't start: {error}");
            return ExitCode::from(1);
        }
    };
    runtime.block_on(async {
        match role {
            Role::Client(client) => cli::run(*client, limits).await,
            Role::Up(..) | Role::Server(..) | Role::Daemon(..) => ExitCode::from(1),
        }
    })
}
