//! One connection to a supervisor: what it reports goes out, what is wanted of it goes in.
//!
//! Invariant: a reason to stop goes to the supervisor before the word that the server has its start, so that
//! a task cancelled in that moment never starts its agent. The terminal report isn't taken from here: its
//! supervisor ends right after it, and the rest is read from disk, transcript first.

use std::future::pending;
use std::pin::Pin;

use tokio::sync::watch;

use super::enter::cancelled;
use super::outbox::Outbox;
use crate::supervisor::frame::FrameBody;
use crate::supervisor::remote::Remote;
use crate::supervisor::spool::is_terminal;

type Delivery<'a> = Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>;

/// Talks until the connection is gone.
pub async fn converse(remote: &mut Remote, outbox: &Outbox, cancel: &mut watch::Receiver<Option<String>>) {
    let mut told = false;
    let mut ordinals = outbox.ordinal.subscribe();
    let mut reports: Delivery<'_> = None;
    let mut messages: Delivery<'_> = None;
    let (mut last_ordinal, mut last_seq) = (0, 0);
    let (mut pulling_reports, mut pulling_messages, mut at_end) = (false, false, false);
    loop {
        let delivered = *outbox.ordinal.borrow();
        if last_ordinal > delivered && !pulling_reports && reports.is_none() && !at_end {
            pulling_reports = true;
            if remote.send(FrameBody::PullReports { after: delivered }).await.is_err() {
                return;
            }
        }
        let seen = *outbox.seq.borrow();
        if last_seq > seen && !pulling_messages && messages.is_none() {
            pulling_messages = true;
            if remote.send(FrameBody::PullTranscript { after: seen }).await.is_err() {
                return;
            }
        }
        let to_send = tokio::select! {
            biased;
            reason = cancelled(cancel), if !told => {
                told = true;
                FrameBody::Cancel { reason }
            }
            Ok(()) = ordinals.changed() => FrameBody::ReportsDelivered { up_to: *ordinals.borrow_and_update() },
            () = progress(&mut reports) => {
                reports = None;
                continue;
            }
            () = progress(&mut messages) => {
                messages = None;
                continue;
            }
            frame = remote.next() => {
                let Some(frame) = frame else { return };
                match frame.body {
                    FrameBody::Hello { last_ordinal: last, .. } => {
                        last_ordinal = last_ordinal.max(last);
                        // A supervisor that a daemon before this one started may wait for this word.
                        FrameBody::ReportsDelivered { up_to: delivered }
                    }
                    FrameBody::ReportAvailable { last_ordinal: last } => {
                        last_ordinal = last_ordinal.max(last);
                        continue;
                    }
                    FrameBody::TranscriptAvailable { last_seq: last } => {
                        last_seq = last_seq.max(last);
                        continue;
                    }
                    FrameBody::Reports { reports: batch } => {
                        pulling_reports = false;
                        let open: Vec<_> = batch.iter().take_while(|r| !is_terminal(&r.body)).cloned().collect();
                        at_end = open.len() < batch.len() || batch.is_empty();
                        if !open.is_empty() {
                            reports = Some(Box::pin(async move { outbox.reports(&open).await }));
                        }
                        continue;
                    }
                    FrameBody::Transcript { messages: batch } => {
                        pulling_messages = false;
                        if batch.is_empty() {
                            last_seq = seen;
                        } else {
                            messages = Some(Box::pin(async move { outbox.messages(&batch).await }));
                        }
                        continue;
                    }
                    FrameBody::Cancel { .. }
                    | FrameBody::PullReports { .. }
                    | FrameBody::ReportsDelivered { .. }
                    | FrameBody::PullTranscript { .. }
                    | FrameBody::Ack { .. } => continue,
                }
            }
        };
        if remote.send(to_send).await.is_err() {
            return;
        }
    }
}

/// Goes on with a delivery; without one there is nothing to wait for.
async fn progress(delivery: &mut Delivery<'_>) {
    match delivery {
        Some(delivery) => delivery.await,
        None => pending().await,
    }
}
