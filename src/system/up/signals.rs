//! The signals that ask for a stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::daemon::Shutdown;

/// The signals that ask for a stop, heard from the moment this is made.
pub(super) struct Signals {
    int: Signal,
    term: Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { int: signal(SignalKind::interrupt())?, term: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
        }
    }

    /// Whether one has come by now.
    pub(super) async fn came(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.next() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Waits for one and passes on what it means.
    pub(super) async fn asked(&mut self, ask: &watch::Sender<Shutdown>, means: Shutdown) {
        self.next().await;
        ask.send_replace(means);
    }
}
