//! The signals that ask a process to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM, and SIGHUP where whoever started the process doesn't want that one ignored (`nohup`): heard
/// from the moment this is made.
pub struct Signals {
    int: Signal,
    term: Signal,
    hup: Option<Signal>,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the process can't listen for signals.
    pub fn listen() -> io::Result<Self> {
        // A closed terminal would end the process at once, and leave behind what it started.
        let hup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { int: signal(SignalKind::interrupt())?, term: signal(SignalKind::terminate())?, hup })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        let hup = async {
            match &mut self.hup {
                Some(hup) => drop(hup.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
            () = hup => {}
        }
    }
}

/// Whether SIGHUP is ignored, by the kernel's own account of this process.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status).is_some_and(|ignored| ignored & 1 != 0)
}

/// The mask of ignored signals; the lowest bit is signal 1.
fn ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_which_signals_are_ignored() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t01"), Some(0x1001));
        assert_eq!(ignored("Name:\tx\n"), None);
        assert_eq!(ignored("SigIgn:\tzz"), None);
    }
}
