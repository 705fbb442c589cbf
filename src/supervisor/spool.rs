//! Where a run's reports and transcript wait until the server has them.
//!
//! Invariants: a report is on disk before anybody can see it; ordinals count from 1 without a gap over
//! all starts of the same claim; there is one terminal report at most.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use super::records::{Header, Records, RecordsError, peek};
use crate::kernel::ids::TaskId;
use crate::kernel::limits::Limits;
use crate::wire::daemon::{Message, Report, ReportBody};

/// The spool's name in the run folder.
pub const SPOOL: &str = "spool";
/// The transcript's.
pub const TRANSCRIPT: &str = "transcript";

/// The longest terminal report: its output or error is bounded, JSON may escape each byte.
const TERMINAL_BYTES: u64 = 1_024 * 1_024;

/// Reports and transcript of one run, shared by the run and the socket.
#[derive(Debug)]
pub struct Spool {
    inner: Mutex<Inner>,
    last_ordinal: watch::Sender<u64>,
    last_seq: watch::Sender<i64>,
}

#[derive(Debug)]
struct Inner {
    generation: u32,
    reserve: u64,
    reports: Records,
    transcript: Records,
    terminal: bool,
    transcript_full: bool,
}

/// Whether a report ends its run.
#[must_use]
pub const fn is_terminal(body: &ReportBody) -> bool {
    matches!(body, ReportBody::Complete { .. } | ReportBody::Fail { .. } | ReportBody::CancelAck { .. })
}

impl Spool {
    /// Opens both files; also gives the reports that are in.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn open(run: &Path, header: &Header, limits: &Limits) -> Result<(Self, Vec<Report>), RecordsError> {
        let (reports, known) =
            Records::open_mirrored::<Report>(&run.join(SPOOL), header, limits.spool_bytes)?;
        let (transcript, messages) =
            Records::open::<Message>(&run.join(TRANSCRIPT), header, limits.transcript_bytes)?;
        let last_seq = messages.last().map_or(0, |message| message.seq);
        let terminal = known.iter().any(|report| is_terminal(&report.body));
        let spool = Self {
            last_ordinal: watch::Sender::new(reports.len() as u64),
            last_seq: watch::Sender::new(last_seq),
            inner: Mutex::new(Inner {
                generation: header.generation,
                reserve: (limits.spool_bytes / 2).min(TERMINAL_BYTES),
                reports,
                transcript,
                terminal,
                transcript_full: false,
            }),
        };
        Ok((spool, known))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a report and gives its ordinal. A second terminal report is none.
    ///
    /// # Errors
    /// [`RecordsError::Full`] and what the system says.
    pub fn report(&self, body: ReportBody) -> Result<u64, RecordsError> {
        let mut inner = self.lock();
        let last = inner.reports.len() as u64;
        let terminal = is_terminal(&body);
        if terminal && inner.terminal {
            return Ok(last);
        }
        let ordinal = last + 1;
        // The end must always fit, also when all the rest is full.
        let free = if terminal { 0 } else { inner.reserve };
        let report = Report { generation: inner.generation, ordinal, occurred_at: Timestamp::now(), body };
        inner.reports.append_leaving(&report, true, free)?;
        inner.terminal |= terminal;
        drop(inner);
        self.last_ordinal.send_replace(ordinal);
        Ok(ordinal)
    }

    /// Adds transcript messages, numbering them on; past the bound they are dropped, once said so.
    ///
    /// # Errors
    /// What the system says.
    pub fn messages(&self, messages: Vec<Message>) -> Result<(), RecordsError> {
        let mut inner = self.lock();
        let mut seq = *self.last_seq.borrow();
        for mut message in messages {
            if inner.transcript_full {
                break;
            }
            message.seq = seq + 1;
            match inner.transcript.append(&message, false) {
                Ok(()) => seq += 1,
                Err(RecordsError::Full { .. }) => inner.transcript_full = true,
                Err(error) => return Err(error),
            }
        }
        drop(inner);
        self.last_seq.send_replace(seq);
        Ok(())
    }

    /// Puts the reports back as they were written, see [`Records::restore`].
    ///
    /// # Errors
    /// What the system says.
    pub fn restore(&self) -> Result<bool, RecordsError> {
        self.lock().reports.restore()
    }

    /// Whether the terminal report is in.
    #[must_use]
    pub fn has_terminal(&self) -> bool {
        self.lock().terminal
    }

    /// The reports after an ordinal: at most `count`, at most `budget` bytes, but one at least.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn reports_after(&self, after: u64, count: usize, budget: u64) -> Result<Vec<Report>, RecordsError> {
        self.lock().reports.read(usize::try_from(after).unwrap_or(usize::MAX), count, budget)
    }

    /// The messages after a seq: at most `count`, at most `budget` bytes, but one at least.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn messages_after(
        &self,
        after: i64,
        count: usize,
        budget: u64,
    ) -> Result<Vec<Message>, RecordsError> {
        self.lock().transcript.read(usize::try_from(after).unwrap_or(0), count, budget)
    }

    /// The last report's ordinal, to be watched.
    pub fn watch_reports(&self) -> watch::Receiver<u64> {
        self.last_ordinal.subscribe()
    }

    /// The last message's seq, to be watched.
    pub fn watch_transcript(&self) -> watch::Receiver<i64> {
        self.last_seq.subscribe()
    }
}

/// Reads a run's reports from disk: how a daemon goes on when the supervisor is gone.
///
/// # Errors
/// [`RecordsError`].
pub fn read_reports(
    env_root: &Path,
    task: TaskId,
    generation: u32,
    limits: &Limits,
) -> Result<Vec<Report>, RecordsError> {
    peek(env_root, SPOOL, task, generation, limits.spool_bytes)
}

/// Reads a run's transcript from disk.
///
/// # Errors
/// [`RecordsError`].
pub fn read_transcript(
    env_root: &Path,
    task: TaskId,
    generation: u32,
    limits: &Limits,
) -> Result<Vec<Message>, RecordsError> {
    peek(env_root, TRANSCRIPT, task, generation, limits.transcript_bytes)
}
