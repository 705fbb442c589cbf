//! What the server does by itself: overdue receipts, free directories, silent daemons, expired tasks, old
//! transcripts.
//!
//! Invariants: one process does it, the holder of a lease; what is due is judged by the database's clock;
//! a command's id derives from (policy, position, target), so that a repeat is the same command; every
//! duty is judged again by its decision.
//!
//! Not here: the decisions (`task_sweep`, `directory_promote`).

mod presence;
mod retention;
mod timed;

use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::AppError;
use super::decision::{Committed, Decision, Submission};
use super::set_aside::{SetAside, Standing};
use super::writer::Writer;
use crate::domain::{Actor, ActorKind, Via};
use crate::kernel::digest;
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::{CommandId, CorrelationId, EventId, WorkspaceId, digest_uuid};
use crate::kernel::limits::Limits;
use crate::kernel::world::World;
use crate::readmodel::Registry;
use crate::store::{Store, lease};

const LEASE: &str = "policies";

/// What the policies work with.
pub struct Policies {
    /// Writes commands.
    pub writer: Writer,
    /// The database.
    pub store: Store,
    /// The read models.
    pub registry: Arc<Registry>,
    /// Clock and randomness.
    pub world: Arc<dyn World>,
    /// The bounds in force.
    pub limits: Limits,
    /// For how many days transcripts are kept; none: for ever.
    pub keep_transcripts: Option<u32>,
    /// Duties about what can't be read in the log.
    pub set_aside: SetAside<String>,
}

/// Who a policy's command is about, and what makes a repeat the same one.
struct Duty {
    policy: &'static str,
    workspace: WorkspaceId,
    position: i64,
    target: String,
}

impl Policies {
    /// Does what is due, round after round, while this process holds the lease.
    pub async fn run(self, holder: Uuid, shutdown: CancellationToken) {
        let mut healthy_since = Instant::now();
        let mut search = retention::Search::default();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep(self.limits.sweep.duration()) => {}
            }
            match self.round(holder, healthy_since, &mut search).await {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "a round of timed duties failed, trying again");
                    // Daemons could not beat while the database was away: they get their time again.
                    healthy_since = Instant::now();
                }
            }
        }
        drop(lease::release(&self.store, LEASE, holder).await);
    }

    async fn round(
        &self,
        holder: Uuid,
        healthy_since: Instant,
        search: &mut retention::Search,
    ) -> Result<(), AppError> {
        if !lease::acquire(&self.store, LEASE, holder, self.limits.lease.duration()).await? {
            return Ok(());
        }
        self.overdue_receipts().await?;
        self.expired().await?;
        self.free_directories().await?;
        if healthy_since.elapsed() >= self.limits.unreachable.duration() {
            self.silent_daemons().await?;
        }
        self.old_transcripts(search).await?;
        self.left_over().await
    }

    async fn submit(&self, duty: Duty, decision: impl Decision) -> Result<Option<Committed>, AppError> {
        let what = format!("{}/{}/{}", duty.policy, duty.workspace, duty.target);
        if self.set_aside.standing(&what, Instant::now()) == Standing::Waits {
            return Ok(None);
        }
        let position = duty.position.to_be_bytes();
        let id = digest_uuid(&[
            b"policy",
            duty.policy.as_bytes(),
            duty.workspace.0.as_bytes(),
            &position,
            duty.target.as_bytes(),
        ]);
        let print = digest::sha256(&[duty.policy.as_bytes(), &position, duty.target.as_bytes()]);
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&print[..16]);
        let submission = Submission {
            command_id: CommandId(id),
            event_seed: EventId(self.world.uuid_v7()),
            kind: duty.policy,
            workspace: duty.workspace,
            fingerprint,
            actor: Actor { kind: ActorKind::System, id: duty.policy.to_owned(), via: Via::Policy },
            correlation: CorrelationId(id),
            causation: Some(duty.position).filter(|position| *position > 0),
            occurred_at: self.world.now(),
            decision: Box::new(decision),
        };
        let answer = self.writer.submit(submission).await;
        if !answer.as_ref().is_err_and(AppError::is_damage) {
            self.set_aside.clear(&what);
        }
        match answer {
            Ok(committed) => Ok(Some(committed)),
            // The other duties are none the worse for it.
            Err(error) if error.is_damage() => {
                let again = self.set_aside.note(what.clone(), Instant::now());
                let chain = Chain(&error);
                tracing::error!(duty = what, error = %chain, ?again, "the log is damaged where a duty needs it");
                Ok(None)
            }
            // What was due isn't any more, or somebody else is at it: the next round looks again.
            Err(AppError::Refused(refusal)) => {
                tracing::debug!(policy = duty.policy, code = refusal.code, "a duty was refused");
                Ok(None)
            }
            Err(AppError::Conflict) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
