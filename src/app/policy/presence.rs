//! Daemons that fell silent, and those that are given up.

use super::{AppError, Duty, Policies};
use crate::app::daemon_write::DaemonWrite;
use crate::app::task_sweep::DaemonLost;
use crate::domain::daemon::DaemonCommand;
use crate::domain::task::Status;
use crate::kernel::ids::TaskId;
use crate::readmodel::{directory_queue, runtime_presence, task_status};
use crate::store::heartbeat::{self, Heartbeat};

impl Policies {
    /// Marks silent daemons' runtimes offline, and gives up those that stay silent.
    pub(super) async fn silent_daemons(&self) -> Result<(), AppError> {
        for beat in heartbeat::all(&self.store).await? {
            if beat.silent < self.limits.unreachable.duration() {
                continue;
            }
            let Some(standing) =
                runtime_presence::daemon(&self.store, &self.registry, beat.workspace, &beat.daemon).await?
            else {
                continue;
            };
            if standing.row.online {
                self.went_offline(&beat).await?;
            }
            let over = beat.silent >= self.limits.reconnect_grace.duration();
            if over && !standing.row.dead {
                self.give_up(&beat, standing.row.signed_off).await?;
            }
        }
        Ok(())
    }

    async fn went_offline(&self, beat: &Heartbeat) -> Result<(), AppError> {
        let duty = Duty {
            policy: "daemon_silent",
            workspace: beat.workspace,
            position: 0,
            target: format!("{}/{}", beat.daemon, beat.last_seen.as_microsecond()),
        };
        let command = DaemonCommand::GoOffline { runtimes: Vec::new(), last_seen: Some(beat.last_seen) };
        let decision = DaemonWrite {
            workspace: beat.workspace,
            daemon: beat.daemon.clone(),
            command,
            result: serde_json::Value::Null,
        };
        self.submit(duty, decision).await?;
        Ok(())
    }

    async fn give_up(&self, beat: &Heartbeat, signed_off: bool) -> Result<(), AppError> {
        let found = task_status::of_daemon(&self.store, &self.registry, beat.workspace, &beat.daemon).await?;
        let directories =
            directory_queue::held_by_daemon(&self.store, &self.registry, beat.workspace, &beat.daemon)
                .await?;
        // Who signs off leaves in order, and what waits there keeps its place; but a task that it left
        // running, or a directory that it left held, would stay so for ever.
        let left = found.iter().any(|task| matches!(task.row.status, Status::Running | Status::Dispatched));
        if signed_off && !left && directories.is_empty() {
            return Ok(());
        }
        let tasks: Vec<(TaskId, TaskId)> =
            found.into_iter().map(|task| (task.row.id, TaskId(self.world.uuid_v7()))).collect();
        let duty = Duty {
            policy: "daemon_lost",
            workspace: beat.workspace,
            position: 0,
            target: format!("{}/{}", beat.daemon, beat.last_seen.as_microsecond()),
        };
        let decision = DaemonLost {
            workspace: beat.workspace,
            daemon: beat.daemon.clone(),
            reason: "reconnect_grace_over".to_owned(),
            last_seen: Some(beat.last_seen),
            tasks,
            directories,
            daemon_slots: self.limits.daemon_slots,
        };
        self.submit(duty, decision).await?;
        Ok(())
    }
}
