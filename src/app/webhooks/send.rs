//! One attempt at one delivery, and what follows from it.

use std::time::{Duration, Instant};

use super::{Test, Webhooks, body};
use crate::app::AppError;
use crate::app::secrets as names;
use crate::domain::webhook::{DeadLettered, OffBecause, Outcome, Problem, Webhook, WebhookCommand, delivery};
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::WorkspaceId;
use crate::store::webhooks::{self as deliveries, Due, State};
use crate::store::{read, secrets};
use crate::webhook::address::Target;
use crate::webhook::send::Message;

impl Webhooks {
    /// Sends a delivery once and writes down what came of it. What can't be written down is sent again.
    pub(super) async fn attempt(&self, workspace: WorkspaceId, webhook: &Webhook, due: Due) {
        let settled = async {
            let (outcome, took) = self.sent(workspace, webhook, &due).await?;
            let next = self.next(workspace, webhook, &due, outcome).await;
            deliveries::settle(&self.store, webhook.id, &due, outcome, took, next).await?;
            Ok::<_, AppError>(())
        };
        if let Err(error) = settled.await {
            let (webhook, position) = (webhook.id, due.position);
            tracing::warn!(%webhook, position, error = %Chain(&error), "a delivery could not be seen to");
        }
    }

    /// Sends a test.
    ///
    /// # Errors
    /// [`AppError`]; what the receiver does is none.
    pub async fn test(&self, workspace: WorkspaceId, webhook: &Webhook) -> Result<Test, AppError> {
        let id = format!("test_{}", self.world.uuid_v7().simple());
        let body = body::of_test(&webhook.name, self.world.now());
        let (outcome, took) = self.send(workspace, webhook, id, body).await?;
        Ok(Test { outcome, took })
    }

    async fn sent(
        &self,
        workspace: WorkspaceId,
        webhook: &Webhook,
        due: &Due,
    ) -> Result<(Outcome, Duration), AppError> {
        let started = Instant::now();
        let event = read::at_positions(&self.store, &[due.position]).await?.pop();
        let Some(body) = event.as_ref().and_then(body::of_event) else {
            return Ok((Outcome::failed(Problem::EventUnreadable), started.elapsed()));
        };
        self.send(workspace, webhook, delivery::id(webhook.id, due.position), body).await
    }

    async fn send(
        &self,
        workspace: WorkspaceId,
        webhook: &Webhook,
        id: String,
        body: Vec<u8>,
    ) -> Result<(Outcome, Duration), AppError> {
        let Ok(target) = webhook.url.parse::<Target>() else {
            return Ok((Outcome::failed(Problem::AddressRefused), Duration::ZERO));
        };
        let now = self.world.now();
        let mut keys = Vec::new();
        for secret in webhook.secrets(now) {
            let name = names::of_webhook(webhook.id, secret);
            let locked = secrets::get(&self.store, workspace, &name).await?;
            let Some(key) = locked.and_then(|locked| self.locksmith.open(workspace, &name, &locked)) else {
                return Ok((Outcome::failed(Problem::SecretUnreadable), Duration::ZERO));
            };
            keys.push(key);
        }
        // No connection to the database is held from here on.
        let message = Message { id, timestamp: now.as_second(), body };
        Ok(self.sender.send(&target, message, &keys).await)
    }

    /// What becomes of a delivery after an attempt.
    async fn next(
        &self,
        workspace: WorkspaceId,
        webhook: &Webhook,
        due: &Due,
        outcome: Outcome,
    ) -> (State, Duration) {
        let Some(problem) = outcome.problem else { return (State::Delivered, Duration::ZERO) };
        let attempts = u32::try_from(due.attempts).unwrap_or(u32::MAX).saturating_add(1);
        let random = self.world.random();
        let random = u32::from_be_bytes([random[0], random[1], random[2], random[3]]);
        let of = (workspace, webhook.id);
        let (position, round) = (due.position.to_be_bytes(), due.round.to_be_bytes());
        let told = if problem == Problem::Gone {
            let mark: [&[u8]; 3] = [&position, &round, &attempts.to_be_bytes()];
            let command = WebhookCommand::Disable(OffBecause::Gone);
            self.submit(of, "webhook.disable", &mark, Some(due.position), command).await.map(drop)
        } else {
            Ok(())
        };
        let wait = delivery::wait(&self.limits, attempts, outcome, random);
        if let (Some(wait), Ok(())) = (wait, &told) {
            return (State::Waiting, wait);
        }
        let given_up = async {
            told?;
            let dead = DeadLettered { position: due.position, attempts, problem, status: outcome.status };
            let command = WebhookCommand::RecordDead { dead, most: self.limits.webhook_dead };
            let mark: [&[u8]; 2] = [&position, &round];
            self.submit(of, "webhook.give_up", &mark, Some(due.position), command).await
        };
        match given_up.await {
            Ok(_) => (State::Dead, Duration::ZERO),
            // Nothing is given up in silence: it is tried once more after a while.
            Err(error) => {
                let position = due.position;
                tracing::warn!(webhook = %webhook.id, position, error = %Chain(&error), "could not be told of");
                (State::Waiting, self.limits.webhook_retry_after.duration())
            }
        }
    }
}
