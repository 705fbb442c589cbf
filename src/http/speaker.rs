//! Who may speak for a daemon: the one check of every route that a daemon uses.
//!
//! Invariants: a member speaks for the daemons that they registered first, an admin for each one of the
//! workspace; a daemon's token speaks for its one daemon, while whoever made it may; what a route names
//! instead, a runtime or a task, leads to its daemon here.
//!
//! Not here: the rule itself (`domain::daemon`), whether the process is the live one (`routes::daemon`).

use super::App;
use super::auth::{Caller, Identity};
use super::error::ApiError;
use super::objects::Loaded;
use super::objects::task::task;
use crate::domain::daemon::may_speak;
use crate::domain::task::Task;
use crate::fold::runtime_presence::DaemonRow;
use crate::kernel::ids::{RuntimeId, TaskId};
use crate::readmodel::runtime_presence;

impl Identity {
    /// Whether the caller may speak for a daemon, with its row: none for one that has never registered.
    ///
    /// # Errors
    /// `other_daemon`, `daemon_of_another_member`, `task_token_limited`.
    pub async fn may_speak_for(&self, app: &App, daemon: &str) -> Result<Option<DaemonRow>, ApiError> {
        if matches!(&self.caller, Caller::Daemon { daemon: own, .. } if own != daemon) {
            return Err(ApiError::Forbidden {
                code: "other_daemon",
                sentence: "this token is for another daemon",
            });
        }
        let member = self.user()?;
        let found = runtime_presence::daemon(&app.store, &app.registry, self.workspace, daemon).await?;
        let row = found.map(|found| found.row);
        may_speak(row.as_ref().map(|row| row.owner), member, self.role)?;
        Ok(row)
    }

    /// Speaks for a daemon that may be new.
    ///
    /// # Errors
    /// Those of [`Self::may_speak_for`].
    pub async fn registers(&mut self, app: &App, daemon: &str) -> Result<(), ApiError> {
        self.may_speak_for(app, daemon).await?;
        self.daemon = Some(daemon.to_owned());
        Ok(())
    }

    /// Speaks for a daemon that has registered.
    ///
    /// # Errors
    /// Those of [`Self::may_speak_for`], and `not_found`.
    pub async fn speaks_for(&mut self, app: &App, daemon: &str) -> Result<DaemonRow, ApiError> {
        let row = self.may_speak_for(app, daemon).await?.ok_or(ApiError::NotFound("daemon"))?;
        self.daemon = Some(daemon.to_owned());
        Ok(row)
    }

    /// Speaks for the daemon of a runtime.
    ///
    /// # Errors
    /// Those of [`Self::speaks_for`].
    pub async fn speaks_for_runtime(&mut self, app: &App, id: RuntimeId) -> Result<DaemonRow, ApiError> {
        let pointer = runtime_presence::runtime(&app.store, &app.registry, self.workspace, id)
            .await?
            .ok_or(ApiError::NotFound("runtime"))?;
        self.speaks_for(app, &pointer.daemon).await
    }

    /// Speaks for the daemon of a task.
    ///
    /// # Errors
    /// Those of [`Self::speaks_for`].
    pub async fn speaks_for_task(&mut self, app: &App, id: TaskId) -> Result<Loaded<Task>, ApiError> {
        let loaded = task(app, self.workspace, id).await?;
        self.speaks_for(app, &loaded.state.facts.daemon).await?;
        Ok(loaded)
    }
}
