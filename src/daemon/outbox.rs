//! Getting reports to the server: in order, again and again until it has them.
//!
//! Invariants: a report is sent under the key of (task, claim, kind, ordinal), so that sending it twice says
//! it once; the next is sent only when the one before is accepted or refused for good; what the server has
//! is noted durably, and a run is forgotten only after its last report.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::run::Daemon;
use super::state::{Delivered, RunId, read_json, write_json};
use crate::client::api::Call;
use crate::client::error::ClientError;
use crate::kernel::error_chain::Chain;
use crate::supervisor::spool::is_terminal;
use crate::wire::daemon::{Message, Messages, Report, ReportAnswer, ReportBody, report_key};

/// What came of sending one report.
#[derive(Debug)]
pub enum Sent {
    /// The server has it.
    Accepted(ReportAnswer),
    /// The server won't have it, however often it is sent.
    Refused(ClientError),
    /// Another claim of the task is the live one.
    Stale,
    /// The server doesn't know the task.
    Gone,
    /// A newer process of this daemon has its place.
    Superseded,
}

/// Sends one report; waits for the server as long as it takes.
pub async fn send(daemon: &Daemon, run: RunId, report: &Report) -> Sent {
    let path = format!("/api/daemon/tasks/{}/{}", run.task, report.body.path());
    let key = report_key(run.task, run.generation, report.body.path(), report.ordinal);
    let mut tries = 0;
    loop {
        let call = match Call::post(&path, report) {
            Ok(call) => call.key(key.clone()),
            Err(error) => return Sent::Refused(error),
        };
        let error = match daemon.api.call::<ReportAnswer>(call).await {
            Ok(answer) => {
                daemon.succeeded();
                return Sent::Accepted(answer);
            }
            Err(error) => error,
        };
        match (error.status(), error.code()) {
            (_, "daemon_superseded") => {
                daemon.failed("report", &error, &mut tries);
                return Sent::Superseded;
            }
            (Some(409), "stale_generation") => return Sent::Stale,
            (Some(404), _) => return Sent::Gone,
            // A token that is refused may be renewed; what a run has to say must not be lost by that.
            (Some(401 | 403), _) => {}
            _ if !error.is_transient() => return Sent::Refused(error),
            _ => {}
        }
        let wait = daemon.failed("report", &error, &mut tries);
        tokio::time::sleep(wait).await;
    }
}

/// The outbox of one run.
#[derive(Debug)]
pub struct Outbox {
    daemon: Arc<Daemon>,
    run: RunId,
    noted: Mutex<Delivered>,
    /// Up to where the server has the reports.
    pub ordinal: watch::Sender<u64>,
    /// Up to where the server has the transcript.
    pub seq: watch::Sender<i64>,
}

impl Outbox {
    /// Goes on where the notes say.
    pub fn open(daemon: &Arc<Daemon>, run: RunId) -> Self {
        let noted: Delivered = read_json(&daemon.state.of_run(run, "delivered")).unwrap_or_default();
        Self {
            daemon: Arc::clone(daemon),
            run,
            ordinal: watch::Sender::new(noted.ordinal),
            seq: watch::Sender::new(noted.seq),
            noted: Mutex::new(noted),
        }
    }

    /// Whether the server wants nothing more of this run.
    pub fn is_closed(&self) -> bool {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).closed
    }

    /// Tells the end of a run whose reports count anew, because what it had written was lost: under an ordinal
    /// that the server can't have seen. Nothing when the server has an end.
    pub async fn end(&self, report: &Report, ordinal: u64) {
        let noted = *self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.ended || noted.closed {
            return;
        }
        tracing::warn!(task = %self.run.task, "the run's reports were lost on the way: its end is told anew");
        let report = Report { ordinal, ..report.clone() };
        match send(&self.daemon, self.run, &report).await {
            Sent::Accepted(_) => {}
            Sent::Refused(error) => self.refused(&report, &error).await,
            Sent::Stale | Sent::Gone => return self.close("stale_generation"),
            Sent::Superseded => return,
        }
        self.note(|noted| noted.ended = true);
    }

    /// Delivers reports in their order; those that the server has are left out.
    pub async fn reports(&self, reports: &[Report]) {
        for report in reports {
            if self.is_closed() || report.ordinal <= *self.ordinal.borrow() {
                continue;
            }
            match send(&self.daemon, self.run, report).await {
                Sent::Accepted(answer) => self.heed(report, &answer),
                Sent::Refused(error) => self.refused(report, &error).await,
                Sent::Stale => return self.close("stale_generation"),
                Sent::Gone => return self.close("cancelled"),
                Sent::Superseded => return,
            }
            if self.is_closed() {
                return;
            }
            self.note(|noted| {
                noted.ordinal = report.ordinal;
                noted.ended |= is_terminal(&report.body);
            });
            self.ordinal.send_replace(report.ordinal);
        }
    }

    /// Delivers messages in their order, as many at once as a request holds; those that the server won't have
    /// are left out.
    pub async fn messages(&self, messages: &[Message]) {
        let known = *self.seq.borrow();
        let fresh: Vec<&Message> = messages.iter().filter(|message| message.seq > known).collect();
        for part in parts(&fresh, self.daemon.config.limits.body_bytes / 2) {
            self.send_messages(part.into_iter().cloned().collect()).await;
        }
    }

    async fn send_messages(&self, fresh: Vec<Message>) {
        let Some(last) = fresh.last().map(|message| message.seq) else { return };
        let path = format!("/api/daemon/tasks/{}/messages", self.run.task);
        let key = format!("messages/{}/{}/{}-{last}", self.run.task, self.run.generation, fresh[0].seq);
        let body = Messages { generation: Some(self.run.generation), messages: fresh };
        let mut tries = 0;
        while !self.is_closed() {
            let sent = match Call::post(&path, &body) {
                Ok(call) => self.daemon.api.call::<serde_json::Value>(call.key(key.clone())).await,
                Err(error) => Err(error),
            };
            match sent {
                Ok(_) => break,
                Err(error) if error.is_transient() => {
                    let wait = self.daemon.failed("messages", &error, &mut tries);
                    tokio::time::sleep(wait).await;
                }
                Err(error) => {
                    self.daemon.failed("messages", &error, &mut tries);
                    break;
                }
            }
        }
        self.note(|noted| noted.seq = last);
        self.seq.send_replace(last);
    }

    /// A task that is over by the server's word has nothing left to do here but to end.
    fn heed(&self, report: &Report, answer: &ReportAnswer) {
        let over = matches!(answer.status.as_str(), "cancelled" | "failed" | "completed");
        if over && !is_terminal(&report.body) {
            // Before the delivery is told: a start that was accepted too late must not start the agent.
            self.daemon.lives.cancel(self.run, "cancelled");
        }
    }

    async fn refused(&self, report: &Report, error: &ClientError) {
        tracing::error!(
            task = %self.run.task, report = report.body.path(), ordinal = report.ordinal,
            error = %Chain(error), "the server refuses a report",
        );
        if matches!(report.body, ReportBody::Start {}) {
            // Told as delivered it would pass for the word to go: the agent would work without the server's grant.
            return match error.code() {
                // The directory is another's by now, and the task waits without this run.
                "not_granted" | "not_received" => self.close(error.code()),
                // Nobody knows why: it is tried again from the start.
                _ => drop(self.daemon.lives.cancel(self.run, "interrupted")),
            };
        }
        let ReportBody::Complete { ending, .. } = &report.body else { return };
        // The run must not hang as running for ever because its good end can't be told.
        let fail = Report {
            body: ReportBody::Fail {
                error: format!("the server refused the completion: {}", Chain(error)),
                failure_reason: "agent_error.unknown".to_owned(),
                ending: ending.clone(),
            },
            ..report.clone()
        };
        match send(&self.daemon, self.run, &fail).await {
            Sent::Stale | Sent::Gone => self.close("stale_generation"),
            Sent::Accepted(_) | Sent::Refused(_) | Sent::Superseded => {}
        }
    }

    fn close(&self, reason: &str) {
        tracing::warn!(task = %self.run.task, generation = self.run.generation, reason, "the server wants no more of this run");
        self.note(|noted| noted.closed = true);
        self.daemon.lives.cancel(self.run, reason);
    }

    fn note(&self, change: impl FnOnce(&mut Delivered)) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut noted);
        let written = write_json(&self.daemon.state.of_run(self.run, "delivered"), &*noted);
        if let Err(error) = written {
            // Sent again after a restart, under the same keys: it costs time, nothing else.
            tracing::warn!(error = %error, "can't note what the server has");
        }
    }
}

/// Cuts a list where its JSON would grow over `budget` bytes; a message that is longer goes alone.
fn parts<'a>(messages: &[&'a Message], budget: usize) -> Vec<Vec<&'a Message>> {
    let mut parts: Vec<Vec<&Message>> = Vec::new();
    let mut used = 0;
    for message in messages {
        let bytes = serde_json::to_vec(message).map_or(0, |json| json.len());
        match parts.last_mut() {
            Some(part) if used + bytes <= budget => {
                used += bytes;
                part.push(message);
            }
            _ => {
                used = bytes;
                parts.push(vec![message]);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(seq: i64, length: usize) -> Message {
        serde_json::from_value(serde_json::json!({"seq": seq, "type": "text", "content": "x".repeat(length)}))
            .expect("a message")
    }

    #[test]
    fn messages_are_cut_into_what_a_request_holds_and_none_is_left_out() {
        let all = [message(1, 300), message(2, 300), message(3, 2_000), message(4, 10), message(5, 10)];
        let parts = parts(&all.iter().collect::<Vec<_>>(), 1_000);
        let seqs: Vec<Vec<i64>> =
            parts.iter().map(|part| part.iter().map(|message| message.seq).collect()).collect();
        assert_eq!(seqs, [vec![1, 2], vec![3], vec![4, 5]]);
    }
}
