//! Waits until somebody wants this process to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Returns at the next SIGINT or SIGTERM.
///
/// # Errors
/// When the process can't listen for signals.
pub async fn asked() -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
