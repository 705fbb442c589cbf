//! Delivers events to webhooks.
//!
//! For each webhook the log is gone through once, in order: what it wanted when it happened gets a delivery, in the
//! transaction that moves the cursor. Deliveries are sent until the receiver has them or the schedule ends; of one
//! stream (a task, an issue) the later ones wait for the earlier ones, and for those only.
//!
//! Invariants: every event that was wanted is sent at least once, under one id, or given up where everybody sees it
//! (`webhook.dead_lettered`); of several servers on one log the holder of a webhook's lease delivers to it, so they
//! share the webhooks; a receiver that hangs holds up no other and no connection to the database; whatever dies, the
//! next holder goes on where cursor and deliveries are.
//!
//! Not here: what a webhook wants (`domain/webhook`), connections and signatures (`webhook`).

pub mod body;
mod scan;
mod send;
pub mod verify;
mod worker;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::AppError;
use super::decision::{Committed, Submission};
use super::secrets::{self as names, Locksmith};
use super::set_aside::{SetAside, Standing};
use super::webhook_write::WebhookWrite;
use super::writer::Writer;
use crate::domain::webhook::{Outcome, WebhookCommand};
use crate::domain::{Actor, ActorKind, Via};
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::{CommandId, CorrelationId, EventId, SecretId, WebhookId, WorkspaceId, digest_uuid};
use crate::kernel::limits::Limits;
use crate::kernel::world::World;
use crate::readmodel::{self, Registry};
use crate::store::webhooks::{self as deliveries, Cursor, LIVE};
use crate::store::{Store, secrets};
use crate::webhook::send::Sender;
use crate::webhook::sign;

/// Delivers to the webhooks of an installation.
pub struct Webhooks {
    /// Writes what there is to tell.
    pub writer: Writer,
    /// The database.
    pub store: Store,
    /// The read models.
    pub registry: Arc<Registry>,
    /// Clock and randomness.
    pub world: Arc<dyn World>,
    /// The bounds in force.
    pub limits: Limits,
    /// The way out.
    pub sender: Sender,
    /// Opens the secrets.
    pub locksmith: Locksmith,
    /// Webhooks whose stream can't be read.
    pub set_aside: SetAside<WebhookId>,
}

/// The webhooks that are being worked on in this process.
#[derive(Default)]
struct Workers {
    tasks: JoinSet<()>,
    of: HashMap<Id, WebhookId>,
}

/// What came of a test.
#[derive(Debug, Clone, Copy)]
pub struct Test {
    /// What the receiver said.
    pub outcome: Outcome,
    /// How long it took.
    pub took: std::time::Duration,
}

impl Webhooks {
    /// Delivers until told to stop.
    pub async fn run(self: Arc<Self>, holder: Uuid, shutdown: CancellationToken) {
        let mut head = self.store.head();
        let mut workers = Workers::default();
        loop {
            if let Err(error) = self.round(holder, &mut workers, &shutdown).await {
                tracing::warn!(error = %Chain(&error), "webhooks could not be looked after, trying again");
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                // What happens in a burst goes together.
                () = tokio::time::sleep(self.limits.webhook_pause.duration()) => {}
            }
            tokio::select! {
                () = shutdown.cancelled() => break,
                _ = head.changed() => {}
                () = tokio::time::sleep(self.limits.head_poll.duration()) => {}
            }
        }
        while workers.tasks.join_next().await.is_some() {}
    }

    /// Starts a worker for each webhook that has something to do and none yet.
    async fn round(
        self: &Arc<Self>,
        holder: Uuid,
        workers: &mut Workers,
        shutdown: &CancellationToken,
    ) -> Result<(), AppError> {
        while let Some(ended) = workers.tasks.try_join_next_with_id() {
            workers.of.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
        }
        let mut cursors: BTreeMap<WebhookId, Vec<Cursor>> = BTreeMap::new();
        for cursor in deliveries::cursors(&self.store, None).await? {
            cursors.entry(cursor.webhook).or_default().push(cursor);
        }
        for found in readmodel::webhooks::all(&self.store, &self.registry).await? {
            let (id, workspace) = (found.row.id, found.workspace);
            let known = cursors.remove(&id).unwrap_or_default();
            if found.row.removed {
                if !known.is_empty() {
                    self.clear(workspace, id).await?;
                }
                continue;
            }
            if !known.iter().any(|cursor| cursor.replay == LIVE) {
                deliveries::begin(&self.store, id, workspace, found.row.began).await?;
            }
            let off = found.row.off.is_some();
            let work = known.iter().any(|cursor| cursor.behind || (cursor.due && !off)) || known.is_empty();
            let aside = self.set_aside.standing(&id, Instant::now()) == Standing::Waits;
            let busy = workers.of.values().any(|busy| *busy == id);
            if work && !aside && !busy {
                let work = Arc::clone(self).work(workspace, id, holder, shutdown.clone());
                workers.of.insert(workers.tasks.spawn(work).id(), id);
            }
        }
        Ok(())
    }

    /// Forgets a webhook that is gone: its secrets, and what became of its deliveries.
    async fn clear(&self, workspace: WorkspaceId, webhook: WebhookId) -> Result<(), AppError> {
        let head = names::all_of_webhook(webhook);
        for name in secrets::names(&self.store, workspace, &head, std::time::Duration::ZERO).await? {
            secrets::clear(&self.store, workspace, &name).await?;
        }
        deliveries::clear(&self.store, webhook).await?;
        Ok(())
    }

    /// Makes a secret for a webhook and puts it in its place: its id, and how it is shown. It counts once an event
    /// says so.
    ///
    /// # Errors
    /// [`AppError`].
    pub async fn make_secret(
        &self,
        workspace: WorkspaceId,
        webhook: WebhookId,
    ) -> Result<(SecretId, String), AppError> {
        let id = SecretId(self.world.uuid_v7());
        let secret = self.world.random();
        let name = names::of_webhook(webhook, id);
        let locked =
            self.locksmith.lock(workspace, &name, self.world.random(), &secret).ok_or_else(|| {
                AppError::Corrupt { what: "a secret can't be locked with this installation's key".to_owned() }
            })?;
        secrets::set(&self.store, workspace, &name, &locked).await?;
        Ok((id, sign::shown(&secret)))
    }

    /// Forgets a secret that no event came to tell of.
    pub async fn forget_secret(&self, workspace: WorkspaceId, webhook: WebhookId, secret: SecretId) {
        let name = names::of_webhook(webhook, secret);
        if let Err(error) = secrets::clear(&self.store, workspace, &name).await {
            tracing::warn!(%webhook, error = %Chain(&error), "a secret that signs nothing could not be cleared");
        }
    }

    /// Writes a command of the server's own.
    async fn submit(
        &self,
        of: (WorkspaceId, WebhookId),
        kind: &'static str,
        mark: &[&[u8]],
        causation: Option<i64>,
        command: WebhookCommand,
    ) -> Result<Committed, AppError> {
        let (workspace, webhook) = of;
        let mut parts: Vec<&[u8]> = vec![b"webhook", kind.as_bytes(), webhook.0.as_bytes()];
        parts.extend_from_slice(mark);
        let id = digest_uuid(&parts);
        let submission = Submission {
            command_id: CommandId(id),
            event_seed: EventId(self.world.uuid_v7()),
            kind,
            workspace,
            fingerprint: [0; 16],
            actor: Actor { kind: ActorKind::System, id: "webhooks".to_owned(), via: Via::Policy },
            correlation: CorrelationId(id),
            causation,
            occurred_at: self.world.now(),
            decision: Box::new(WebhookWrite { workspace, webhook, command, most: self.limits.webhooks }),
        };
        self.writer.submit(submission).await
    }
}
