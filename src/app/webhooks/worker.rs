//! What is done for one webhook while there is something to do.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Webhooks;
use crate::app::AppError;
use crate::app::secrets as names;
use crate::domain::webhook::{self, Webhook};
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::{WebhookId, WorkspaceId};
use crate::store::{lease, read, secrets, webhooks as deliveries};

/// Deliveries that are being sent, and the streams they are of.
#[derive(Default)]
struct Sending {
    tasks: JoinSet<()>,
    streams: HashMap<Id, Uuid>,
}

impl Sending {
    fn over(&mut self, ended: Result<(Id, ()), JoinError>) {
        // One that came to grief is due still.
        self.streams.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
    }
}

impl Webhooks {
    /// Goes through the log for a webhook and sends what is due, while this process has its lease and there is
    /// something to do.
    pub(super) async fn work(
        self: Arc<Self>,
        workspace: WorkspaceId,
        webhook: WebhookId,
        holder: Uuid,
        shutdown: CancellationToken,
    ) {
        let lease = format!("webhook/{webhook}");
        match self.work_on(workspace, webhook, &lease, holder, &shutdown).await {
            Ok(()) => self.set_aside.clear(&webhook),
            Err(error) if error.is_damage() => {
                let again = self.set_aside.note(webhook, Instant::now());
                tracing::error!(%webhook, error = %Chain(&error), ?again, "the log is damaged where a webhook is");
            }
            Err(error) => {
                tracing::warn!(%webhook, error = %Chain(&error), "a webhook can't be delivered to, trying again");
            }
        }
        drop(lease::release(&self.store, &lease, holder).await);
    }

    async fn work_on(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        webhook: WebhookId,
        lease: &str,
        holder: Uuid,
        shutdown: &CancellationToken,
    ) -> Result<(), AppError> {
        // Longer than an attempt takes: nobody else begins one beside it.
        let span = self.limits.lease.duration() + self.limits.webhook_timeout.duration();
        let mut head = self.store.head();
        let mut sending = Sending::default();
        let mut tidied = false;
        loop {
            if shutdown.is_cancelled() || !lease::acquire(&self.store, lease, holder, span).await? {
                return Ok(());
            }
            let scanned = self.scan(webhook).await?;
            while let Some(ended) = sending.tasks.try_join_next_with_id() {
                sending.over(ended);
            }
            let Some(state) = self.state(webhook).await? else { return Ok(()) };
            if !tidied {
                self.tidy(workspace, &state).await?;
                tidied = true;
            }
            self.start(workspace, &Arc::new(state), scanned.up_to, &mut sending).await?;
            if scanned.moved {
                continue;
            }
            if sending.tasks.is_empty() {
                return Ok(());
            }
            let news = async {
                drop(head.changed().await);
                tokio::time::sleep(self.limits.webhook_pause.duration()).await;
            };
            tokio::select! {
                () = shutdown.cancelled() => {}
                ended = sending.tasks.join_next_with_id() => ended.into_iter().for_each(|ended| sending.over(ended)),
                () = news => {}
                () = tokio::time::sleep(self.limits.head_poll.duration()) => {}
            }
        }
    }

    async fn state(&self, id: WebhookId) -> Result<Option<Webhook>, AppError> {
        let events = read::stream(&self.store, webhook::evolve::stream(id)).await?;
        let state = webhook::evolve::fold(&events)
            .map_err(|impossible| AppError::Corrupt { what: Chain(&impossible).to_string() })?;
        Ok(state.filter(|state| !state.removed))
    }

    /// Forgets secrets that sign nothing any more, and what was delivered long ago.
    async fn tidy(&self, workspace: WorkspaceId, state: &Webhook) -> Result<(), AppError> {
        let kept: BTreeSet<String> =
            state.secrets(self.world.now()).map(|secret| names::of_webhook(state.id, secret)).collect();
        // One that a request is just about to tell of is younger.
        let settled = self.limits.http_timeout.duration() * 2;
        let head = names::all_of_webhook(state.id);
        for name in secrets::names(&self.store, workspace, &head, settled).await? {
            if !kept.contains(&name) {
                secrets::clear(&self.store, workspace, &name).await?;
            }
        }
        deliveries::forget(&self.store, state.id, self.limits.webhook_kept.duration()).await?;
        Ok(())
    }

    /// Starts to send what is due up to a position, as far as there is room.
    async fn start(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        state: &Arc<Webhook>,
        up_to: i64,
        sending: &mut Sending,
    ) -> Result<(), AppError> {
        let room = self.limits.webhook_at_once.saturating_sub(sending.tasks.len());
        if state.off.is_some() || room == 0 {
            return Ok(());
        }
        let busy: Vec<Uuid> = sending.streams.values().copied().collect();
        for one in deliveries::due(&self.store, state.id, &busy, up_to, room).await? {
            let (hooks, state, stream) = (Arc::clone(self), Arc::clone(state), one.stream);
            let sent = sending.tasks.spawn(async move { hooks.attempt(workspace, &state, one).await });
            sending.streams.insert(sent.id(), stream);
        }
        Ok(())
    }
}
