//! The one writer of a server: takes commands off a bounded queue, decides them in batches, appends.
//!
//! Invariants: a caller is answered after the commit, or told that nothing (or that it is unknown what)
//! happened; commands of a batch see the effects of those before them; a result is stored exactly when
//! the command wrote events or a rule refused it; a lost answer is asked for again with the same batch.
//!
//! Not here: rules (`domain`), the statement (`store::append`), who may send a command (`http`).

mod attempt;
mod cache;
pub mod check;
mod draft;
mod inline;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::cache::{Results, Streams};
use self::check::EventCheck;
use super::AppError;
use super::decision::{Committed, Submission};
use crate::domain::Refusal;
use crate::kernel::ids::CommandId;
use crate::kernel::world::World;
use crate::readmodel::Registry;
use crate::store::Store;
use crate::store::append::{Appender, StoredResult};

/// Times that the writer lets others run before it closes a batch: who was just answered sends the next.
const YIELDS: usize = 5;

/// What a writer is made of.
pub struct WriterParts {
    /// The database.
    pub store: Store,
    /// The read models whose inline part the append keeps; installed before.
    pub registry: Arc<Registry>,
    /// What each event must pass.
    pub check: Arc<dyn EventCheck>,
    /// For each batch's marker.
    pub world: Arc<dyn World>,
    /// The program's version; stands in each event's `meta`.
    pub version: String,
}

type Answer = Result<Committed, AppError>;

struct Waiting {
    submission: Submission,
    reply: oneshot::Sender<Answer>,
}

struct Job {
    waiting: Waiting,
    /// Lost races so far.
    losses: u32,
    /// The same command, sent again while this one was on its way.
    twins: Vec<Waiting>,
}

impl Job {
    fn answer(self, answer: Answer) {
        // A caller that went away will ask again under the same key.
        drop(self.waiting.reply.send(answer));
    }
}

/// The way to the writer; cheap to clone. The writer ends when the last one is dropped.
#[derive(Clone)]
pub struct Writer {
    queue: mpsc::Sender<Waiting>,
    retry_after: Duration,
}

impl Writer {
    /// Starts the writer.
    #[must_use]
    pub fn start(parts: WriterParts) -> (Self, JoinHandle<()>) {
        let limits = parts.store.limits().clone();
        let (queue, waiting) = mpsc::channel(limits.writer_queue.max(1));
        let meta = serde_json::json!({ "build": parts.version }).to_string();
        let desk = Desk {
            appender: Appender::new(&parts.store),
            streams: Streams::new(limits.cached_streams),
            results: Results::new(limits.cached_results),
            head: 0,
            meta,
            parts,
        };
        let task = tokio::spawn(desk.run(waiting));
        (Self { queue, retry_after: Duration::from_secs(1) }, task)
    }

    /// Carries a command out and answers after its commit.
    ///
    /// # Errors
    /// [`AppError`].
    pub async fn submit(&self, submission: Submission) -> Result<Committed, AppError> {
        let (reply, answer) = oneshot::channel();
        self.queue.try_send(Waiting { submission, reply }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => AppError::Overloaded { retry_after: self.retry_after },
            mpsc::error::TrySendError::Closed(_) => AppError::Stopping,
        })?;
        answer.await.unwrap_or(Err(AppError::Stopping))
    }
}

/// The writer at work.
struct Desk {
    parts: WriterParts,
    appender: Appender,
    streams: Streams,
    results: Results,
    /// The head after our last append.
    head: i64,
    meta: String,
}

impl Desk {
    async fn run(mut self, mut queue: mpsc::Receiver<Waiting>) {
        let most = self.parts.store.limits().batch_commands.max(1);
        let mut waiting: VecDeque<Job> = VecDeque::new();
        loop {
            if waiting.is_empty() {
                match queue.recv().await {
                    Some(first) => waiting.push_back(job(first)),
                    None => return,
                }
            }
            for _ in 0..YIELDS {
                tokio::task::yield_now().await;
            }
            while waiting.len() < most {
                let Ok(next) = queue.try_recv() else { break };
                waiting.push_back(job(next));
            }
            let take = waiting.len().min(most);
            let batch = self.admit(waiting.drain(..take));
            if batch.is_empty() {
                continue;
            }
            for again in self.carry_out(batch).await.into_iter().rev() {
                waiting.push_front(again);
            }
        }
    }

    /// Answers what is known, and ties repeats to the first of their kind.
    fn admit(&self, jobs: impl Iterator<Item = Job>) -> Vec<Job> {
        let mut batch: Vec<Job> = Vec::new();
        let mut first: BTreeMap<CommandId, usize> = BTreeMap::new();
        for job in jobs {
            let id = job.waiting.submission.command_id;
            if let Some(stored) = self.results.get(id) {
                let stored = stored.clone();
                self::answer_stored(job, &stored);
            } else if let Some(first) = first.get(&id) {
                let Job { waiting, twins, .. } = job;
                batch[*first].twins.push(waiting);
                batch[*first].twins.extend(twins);
            } else {
                first.insert(id, batch.len());
                batch.push(job);
            }
        }
        batch
    }

    /// Carries a batch out, halving it where the database refuses it; returns what must go again.
    async fn carry_out(&mut self, batch: Vec<Job>) -> Vec<Job> {
        let mut parts = vec![batch];
        let mut again = Vec::new();
        while let Some(mut part) = parts.pop() {
            match self.attempt(&mut part).await {
                attempt::Outcome::Done => again.append(&mut part),
                attempt::Outcome::Halve => {
                    let second = part.split_off(part.len() / 2);
                    parts.push(second);
                    parts.push(part);
                }
            }
        }
        again
    }
}

fn job(waiting: Waiting) -> Job {
    Job { waiting, losses: 0, twins: Vec::new() }
}

/// Answers a job and its twins with a stored result.
fn answer_stored(job: Job, stored: &StoredResult) {
    let Job { waiting, twins, .. } = job;
    for waiting in std::iter::once(waiting).chain(twins) {
        let answer = answer_of(stored, &waiting.submission);
        drop(waiting.reply.send(answer));
    }
}

fn answer_of(stored: &StoredResult, submission: &Submission) -> Answer {
    if stored.fingerprint != submission.fingerprint {
        return Err(AppError::IdempotencyKeyReused);
    }
    if stored.refused {
        let refusal: Refusal = serde_json::from_value(stored.result.clone())
            .map_err(|error| AppError::Corrupt { what: format!("stored refusal: {error}") })?;
        return Err(AppError::Refused(refusal));
    }
    Ok(Committed {
        result: stored.result.clone(),
        position: stored.position,
        events: stored.events,
        repeated: true,
    })
}
