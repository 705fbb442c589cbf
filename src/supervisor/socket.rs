//! The supervisor's end of the socket to the daemon, and the frames' form.
//!
//! Invariants: only the daemon's account is answered; what arrives here steers the run, what must last is
//! in the spool before it is offered; a connection that breaks costs nothing.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};

use super::frame::{Frame, FrameBody, VERSION};
use super::spool::Spool;
use crate::kernel::ids::TaskId;
use crate::kernel::limits::Limits;
use crate::process::peer;

/// The socket's name in the run folder.
pub const NAME: &str = "s";

/// What a daemon may steer, and what it is told.
#[derive(Debug)]
pub struct Control {
    /// Why the run is to stop.
    pub cancel: watch::Sender<Option<String>>,
    /// The last ordinal that the server has accepted.
    pub delivered: watch::Sender<u64>,
    /// preparing, running, finalizing, ended.
    pub state: watch::Sender<&'static str>,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            cancel: watch::Sender::new(None),
            delivered: watch::Sender::new(0),
            state: watch::Sender::new("preparing"),
        }
    }
}

/// What each connection needs.
#[derive(Debug)]
pub struct Served {
    /// The task.
    pub task: TaskId,
    /// Its claim.
    pub generation: u32,
    /// Reports and transcript.
    pub spool: Arc<Spool>,
    /// See [`Control`].
    pub control: Arc<Control>,
    /// The bounds in force.
    pub limits: Limits,
}

/// Serves the socket in the run folder until the process ends.
///
/// # Errors
/// When it can't be bound.
pub fn serve(run: &Path, uids: Vec<u32>, served: Arc<Served>) -> std::io::Result<()> {
    let listener = peer::listen(run, NAME)?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if peer::is_one_of(&stream, &uids) {
                let served = Arc::clone(&served);
                tokio::spawn(async move {
                    // A broken connection is the daemon's to renew.
                    let _ = talk(stream, &served).await;
                });
            }
        }
    });
    Ok(())
}

async fn talk(stream: UnixStream, served: &Served) -> std::io::Result<()> {
    let (mut from, mut to) = stream.into_split();
    let (sender, mut frames) = mpsc::channel(16);
    let max = served.limits.frame_bytes;
    tokio::spawn(async move {
        while let Ok(Some(value)) = read_value(&mut from, max).await {
            if sender.send(value).await.is_err() {
                break;
            }
        }
    });
    let mut reports = served.spool.watch_reports();
    let mut transcript = served.spool.watch_transcript();
    let mut out = Outgoing { to: &mut to, next: 1 };
    let last_ordinal = *reports.borrow_and_update();
    let state = (*served.control.state.borrow()).to_owned();
    let (task, generation) = (served.task, served.generation);
    out.send(FrameBody::Hello { task, generation, last_ordinal, state }).await?;
    let last_seq = *transcript.borrow_and_update();
    if last_seq > 0 {
        out.send(FrameBody::TranscriptAvailable { last_seq }).await?;
    }
    loop {
        tokio::select! {
            value = frames.recv() => {
                let Some(value) = value else { return Ok(()) };
                answer(value, served, &mut out).await?;
            }
            Ok(()) = reports.changed() => {
                let last_ordinal = *reports.borrow_and_update();
                out.send(FrameBody::ReportAvailable { last_ordinal }).await?;
            }
            Ok(()) = transcript.changed() => {
                let last_seq = *transcript.borrow_and_update();
                out.send(FrameBody::TranscriptAvailable { last_seq }).await?;
            }
        }
    }
}

async fn answer<W: AsyncWrite + Unpin>(
    value: Value,
    served: &Served,
    out: &mut Outgoing<'_, W>,
) -> std::io::Result<()> {
    let of = value.get("id").and_then(Value::as_u64).unwrap_or(0);
    let Ok(frame) = serde_json::from_value::<Frame>(value) else {
        return out.send(FrameBody::Ack { of, understood: false }).await;
    };
    // Half a frame: its own words and the last record go on top.
    let budget = served.limits.frame_bytes as u64 / 2;
    match frame.body {
        FrameBody::Ack { .. } => return Ok(()),
        FrameBody::Cancel { reason } => {
            served.control.cancel.send_if_modified(|known| {
                let first = known.is_none();
                if first {
                    *known = Some(reason);
                }
                first
            });
        }
        FrameBody::ReportsDelivered { up_to } => {
            served.control.delivered.send_if_modified(|known| {
                let more = up_to > *known;
                *known = up_to.max(*known);
                more
            });
        }
        FrameBody::PullReports { after } => {
            let reports = served
                .spool
                .reports_after(after, served.limits.frame_batch, budget)
                .map_err(std::io::Error::other)?;
            out.send(FrameBody::Reports { reports }).await?;
        }
        FrameBody::PullTranscript { after } => {
            let messages = served
                .spool
                .messages_after(after, served.limits.transcript_batch, budget)
                .map_err(std::io::Error::other)?;
            out.send(FrameBody::Transcript { messages }).await?;
        }
        FrameBody::Hello { .. }
        | FrameBody::ReportAvailable { .. }
        | FrameBody::Reports { .. }
        | FrameBody::TranscriptAvailable { .. }
        | FrameBody::Transcript { .. } => {
            return out.send(FrameBody::Ack { of, understood: false }).await;
        }
    }
    out.send(FrameBody::Ack { of, understood: true }).await
}

/// The sending half of a connection: it counts its frames.
pub(super) struct Outgoing<'a, W> {
    /// Where to.
    pub to: &'a mut W,
    /// The next frame's id.
    pub next: u64,
}

impl<W: AsyncWrite + Unpin> Outgoing<'_, W> {
    /// Sends a frame and gives its id.
    pub async fn send(&mut self, body: FrameBody) -> std::io::Result<()> {
        let frame = Frame { v: VERSION, id: self.next, body };
        self.next += 1;
        write_frame(self.to, &frame).await
    }
}

/// Writes one frame.
pub(super) async fn write_frame<W: AsyncWrite + Unpin>(to: &mut W, frame: &Frame) -> std::io::Result<()> {
    let json = serde_json::to_vec(frame)?;
    let length = u32::try_from(json.len()).map_err(|_| std::io::ErrorKind::InvalidData)?;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend(json);
    to.write_all(&bytes).await
}

/// Reads one frame, whatever its kind; none at the end.
pub(super) async fn read_value<R: AsyncRead + Unpin>(
    from: &mut R,
    max: usize,
) -> std::io::Result<Option<Value>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length).await {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other.map(drop)?,
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > max {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut json = vec![0; length];
    from.read_exact(&mut json).await?;
    Ok(Some(serde_json::from_slice(&json)?))
}
