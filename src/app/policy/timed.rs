//! Duties of single tasks and directories.

use super::{AppError, Duty, Policies};
use crate::app::directory_promote::DirectoryPromote;
use crate::app::task_sweep::{QueuedExpired, ReceiptOverdue};
use crate::readmodel::{directory_queue, timers};

impl Policies {
    /// Claims and promotions that nobody has confirmed in time.
    pub(super) async fn overdue_receipts(&self) -> Result<(), AppError> {
        let after = self.limits.claim_receipt.duration();
        for task in timers::unconfirmed(&self.store, &self.registry, after).await? {
            let duty = Duty {
                policy: "receipt_overdue",
                workspace: task.workspace,
                position: task.position,
                target: format!("{}/{}", task.row.task, task.row.generation),
            };
            let decision = ReceiptOverdue {
                workspace: task.workspace,
                task: task.row.task,
                generation: task.row.generation,
                daemon_slots: self.limits.daemon_slots,
            };
            self.submit(duty, decision).await?;
        }
        Ok(())
    }

    /// Tasks that nobody has claimed in time.
    pub(super) async fn expired(&self) -> Result<(), AppError> {
        let after = self.limits.queued_ttl.duration();
        for task in timers::unclaimed(&self.store, &self.registry, after).await? {
            let duty = Duty {
                policy: "queued_expired",
                workspace: task.workspace,
                position: task.position,
                target: format!("{}/{}", task.row.task, task.row.generation),
            };
            self.submit(duty, QueuedExpired { workspace: task.workspace, task: task.row.task }).await?;
        }
        Ok(())
    }

    /// Free directories with somebody waiting: a slot or a daemon may have come free since.
    pub(super) async fn free_directories(&self) -> Result<(), AppError> {
        for directory in directory_queue::free_with_waiters(&self.store, &self.registry).await? {
            // The position alone would give a round that promoted nobody its own name for ever; such a
            // round writes nothing, and what writes nothing isn't stored.
            let duty = Duty {
                policy: "directory_free",
                workspace: directory.workspace,
                position: directory.position,
                target: directory.row.id.to_string(),
            };
            let decision = DirectoryPromote {
                workspace: directory.workspace,
                directory: directory.row.id,
                daemon_slots: self.limits.daemon_slots,
            };
            self.submit(duty, decision).await?;
        }
        Ok(())
    }
}
