//! Where a process logs to, and how much.

use std::path::PathBuf;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

use crate::daemon::log_file::LogFile;
use crate::kernel::limits::Limits;

/// What is logged: `MULTICA_LOG` says it in full, else everything of ours, in more detail with `debug`.
#[must_use]
pub fn filter(debug: bool) -> EnvFilter {
    let usual = if debug { "info,multica=debug" } else { "info" };
    EnvFilter::try_from_env("MULTICA_LOG").unwrap_or_else(|_| EnvFilter::new(usual))
}

/// Logs to a file that is put aside when it has grown.
///
/// # Errors
/// When it can't be opened.
pub fn to_file(path: PathBuf, debug: bool, limits: &Limits) -> std::io::Result<()> {
    let file = LogFile::open(path, limits.log_file_bytes, limits.log_files)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter(debug)).with_ansi(false);
    lines.with_writer(Mutex::new(file)).init();
    Ok(())
}

/// Logs to the terminal.
pub fn to_terminal(debug: bool) {
    tracing_subscriber::fmt()
        .with_env_filter(filter(debug))
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
}
