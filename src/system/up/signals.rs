//! What the signals that ask for a stop mean here.

use std::io;

use tokio::sync::watch;

use crate::daemon::Shutdown;
use crate::process::stop;

/// The signals that ask for a stop, heard from the moment this is made.
pub(super) struct Signals(stop::Signals);

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self(stop::Signals::listen()?))
    }

    /// Whether one has come by now.
    pub(super) async fn came(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.0.next() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Waits for one and passes on what it means.
    pub(super) async fn asked(&mut self, ask: &watch::Sender<Shutdown>, means: Shutdown) {
        self.0.next().await;
        ask.send_replace(means);
    }
}
