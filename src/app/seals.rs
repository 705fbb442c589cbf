//! Seals the log: by itself once it has grown for a while, and when asked to.
//!
//! Invariants: a seal lies at its place before the event says so: a crash in between leaves a seal too many,
//! never one too few; of several servers on one log the holder of a lease seals; nothing is sealed twice
//! because it was sealed.
//!
//! Not here: places (`seal`), what seals are good for (`store::verify`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::AppError;
use super::decision::Submission;
use super::operation_write::OperationWrite;
use super::writer::Writer;
use crate::domain::operation::{self, NOWHERE, OperationCommand, OperationEvent, Sealed};
use crate::domain::{Actor, ActorKind, Envelope, Event, Via};
use crate::kernel::digest::hex;
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::{CommandId, CorrelationId, EventId, digest_uuid};
use crate::kernel::limits::Limits;
use crate::kernel::world::World;
use crate::seal::{Means, Place, SealError};
use crate::store::raw::{FORMAT, Reading};
use crate::store::{LOG, Store, lease, read};
use crate::wire::api::Seal;

const LEASE: &str = "seals";

/// Why the log could not be sealed.
#[derive(Debug, thiserror::Error)]
pub enum SealingError {
    /// The log.
    #[error("the log can't be sealed")]
    App(#[from] AppError),
    /// The place.
    #[error("the seal can't be put at its place")]
    Place(#[from] SealError),
}

impl From<crate::store::StoreError> for SealingError {
    fn from(error: crate::store::StoreError) -> Self {
        Self::App(error.into())
    }
}

/// What seals the log of this installation.
pub struct Seals {
    /// The places that it seals to by itself; none, and it doesn't.
    pub places: Vec<Place>,
    /// How places are written.
    pub means: Means,
    /// The id of the installation's key: seals of another log in the same place are none of ours.
    pub installation: String,
    /// Writes the events.
    pub writer: Writer,
    /// The database.
    pub store: Store,
    /// Clock and randomness.
    pub world: Arc<dyn World>,
    /// The bounds in force.
    pub limits: Limits,
}

/// The last that is known of a sealing.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// The sealed position; 0 where nothing was sealed.
    up_to: i64,
    /// How many positions after it only tell of seals.
    told: i64,
    /// Since when it is so.
    since: Instant,
}

impl Last {
    fn is_due(self, head: i64, limits: &Limits) -> bool {
        // What came while a seal was put is new too.
        let new = head - self.up_to - self.told;
        new > 0 && (new >= limits.seal_events || self.since.elapsed() >= limits.seal_every.duration())
    }
}

impl Seals {
    /// The seal of the log as it is; none where nothing has happened.
    ///
    /// # Errors
    /// [`AppError`].
    pub async fn now(&self) -> Result<Option<Seal>, AppError> {
        let (position, hash) = read::head_block(&self.store).await?;
        Ok((position > 0).then(|| Seal {
            format: FORMAT,
            installation: self.installation.clone(),
            log: LOG,
            position,
            block: hex(&hash),
            sealed_at: self.world.now(),
        }))
    }

    /// Whether a block of that hash ends there.
    ///
    /// # Errors
    /// [`AppError`].
    pub async fn stands(&self, position: i64, block: &str) -> Result<bool, AppError> {
        Ok(read::block(&self.store, position).await?.is_some_and(|hash| hex(&hash) == block))
    }

    /// Puts a seal at every place.
    ///
    /// # Errors
    /// [`SealError`] of the first place that doesn't take it.
    pub async fn put(&self, seal: &Seal) -> Result<(), SealError> {
        for place in &self.places {
            place.put(seal, &self.means).await?;
        }
        Ok(())
    }

    /// Seals whenever it is due, until told to stop.
    pub async fn run(self: Arc<Self>, holder: Uuid, shutdown: CancellationToken) {
        if self.places.is_empty() {
            return;
        }
        let mut last = None;
        let mut pause = self.limits.sweep.duration();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = match self.round(holder, &mut last).await {
                Ok(()) => self.limits.sweep.duration(),
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "the log could not be sealed, trying again");
                    self.limits.seal_retry.duration()
                }
            };
        }
    }

    async fn round(&self, holder: Uuid, last: &mut Option<Last>) -> Result<(), SealingError> {
        let head = *self.store.head().borrow();
        if head == 0 || last.is_some_and(|last| !last.is_due(head, &self.limits)) {
            return Ok(());
        }
        // Longer than putting a seal takes: git has its own bound.
        let span = self.limits.lease.duration() + self.limits.git_timeout.duration() * 4;
        if !lease::acquire(&self.store, LEASE, holder, span).await? {
            return Ok(());
        }
        let sealed = self.seal_if_due(last).await;
        lease::release(&self.store, LEASE, holder).await?;
        sealed
    }

    async fn seal_if_due(&self, last: &mut Option<Last>) -> Result<(), SealingError> {
        // Another server may have done it.
        let known = self.last().await?;
        *last = Some(known);
        let Some(seal) = self.now().await? else { return Ok(()) };
        if !known.is_due(seal.position, &self.limits) {
            return Ok(());
        }
        self.put(&seal).await?;
        for (n, place) in (0_u64..).zip(&self.places) {
            self.record(&seal, place, n).await?;
        }
        tracing::info!(position = seal.position, "the log was sealed");
        let told = i64::try_from(self.places.len()).unwrap_or_default();
        *last = Some(Last { up_to: seal.position, told, since: Instant::now() });
        Ok(())
    }

    async fn record(&self, seal: &Seal, place: &Place, n: u64) -> Result<(), AppError> {
        let id = digest_uuid(&[b"seal", &seal.position.to_be_bytes(), &n.to_be_bytes()]);
        let sealed = Sealed { up_to: seal.position, block: seal.block.clone(), place: place.kind() };
        let submission = Submission {
            command_id: CommandId(id),
            event_seed: EventId(self.world.uuid_v7()),
            kind: "operation.seal",
            workspace: NOWHERE,
            fingerprint: [0; 16],
            actor: Actor { kind: ActorKind::System, id: LEASE.to_owned(), via: Via::Policy },
            correlation: CorrelationId(id),
            causation: None,
            occurred_at: self.world.now(),
            decision: Box::new(OperationWrite {
                workspace: NOWHERE,
                command: OperationCommand::RecordSealed(sealed),
            }),
        };
        self.writer.submit(submission).await.map(drop)
    }

    /// The last sealing, by the log; what was never sealed counts from its first event on.
    async fn last(&self) -> Result<Last, AppError> {
        let readings = read::stream_readings(&self.store, operation::evolve::stream(NOWHERE)).await?;
        // What can't be read is no seal: it keeps nobody from sealing.
        let events: Vec<Envelope> = readings.into_iter().filter_map(Reading::whole).collect();
        let (mut up_to, mut from) = (0, events.first().and_then(|event| event.recorded_at));
        for event in &events {
            if let Event::Operation(OperationEvent::Sealed(sealed)) = &event.event
                && sealed.up_to > up_to
            {
                (up_to, from) = (sealed.up_to, event.recorded_at);
            }
        }
        let tells = |event: &&Envelope| {
            let is_seal = matches!(event.event, Event::Operation(OperationEvent::Sealed(_)));
            is_seal && event.position.is_some_and(|position| position > up_to)
        };
        let told = i64::try_from(events.iter().filter(tells).count()).unwrap_or_default();
        let now = read::now(&self.store).await?;
        let age = from
            .map_or(Duration::ZERO, |from| Duration::try_from(now.duration_since(from)).unwrap_or_default());
        let since = Instant::now();
        Ok(Last { up_to, told, since: since.checked_sub(age).unwrap_or(since) })
    }
}
