//! Read model `daemon_orders`: what daemons have been told to do and haven't answered.
//!
//! Rows: `cancel/<task>`, `promoted/<task>`, `probe/<order>`, each an [`OrderRow`], gone once it is
//! answered or pointless; `claim/<task>`, a [`ClaimRow`], which knows whose daemon a task's order is for.
//! An order's id is the id of the event that gave it (a probe brings its own). A new order under an old key
//! has a new id and a new position.

use serde::{Deserialize, Serialize};

use super::{At, FoldError, Mode, ReadModel, Rows};
use crate::domain::daemon::DaemonEvent;
use crate::domain::task::TaskEvent;
use crate::domain::{Envelope, Event};
use crate::kernel::ids::{DirectoryId, OrderId, StreamId, TaskId};

const NAME: &str = "daemon_orders";

/// See the module.
pub struct DaemonOrders;

/// What an order asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderKind {
    /// Stop a claim.
    Cancel,
    /// A directory is the task's.
    Promoted,
    /// Look at a path.
    Probe,
}

/// An open order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderRow {
    /// Its id.
    pub id: OrderId,
    /// The daemon's stream.
    pub daemon_stream: StreamId,
    /// What it asks.
    pub order_kind: OrderKind,
    /// The task.
    pub task: Option<TaskId>,
    /// The claim.
    pub generation: Option<u32>,
    /// The directory, for `promoted`.
    pub directory: Option<DirectoryId>,
    /// The path, for `probe`: for the daemon alone.
    pub path: Option<String>,
    /// When it was given.
    pub given_at: At,
}

/// Which daemon has a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// The daemon's own id.
    pub claimed_by: String,
    /// The claim.
    pub generation: u32,
}

fn claim_key(task: TaskId) -> String {
    format!("claim/{task}")
}

fn cancel_key(task: TaskId) -> String {
    format!("cancel/{task}")
}

fn promoted_key(task: TaskId) -> String {
    format!("promoted/{task}")
}

fn probe_key(order: OrderId) -> String {
    format!("probe/{order}")
}

impl ReadModel for DaemonOrders {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> u32 {
        1
    }

    fn mode(&self) -> Mode {
        Mode::Inline
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        match &event.event {
            Event::Daemon(DaemonEvent::DirectoryProbeRequested(e)) => vec![probe_key(e.order)],
            Event::Daemon(DaemonEvent::DirectoryProbed(e)) => vec![probe_key(e.order)],
            Event::Task(happened) => of_task(TaskId(event.stream.id), happened),
            _ => Vec::new(),
        }
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        match &event.event {
            Event::Daemon(DaemonEvent::DirectoryProbeRequested(e)) => {
                let order = OrderRow {
                    id: e.order,
                    daemon_stream: StreamId(event.stream.id),
                    order_kind: OrderKind::Probe,
                    task: None,
                    generation: None,
                    directory: None,
                    path: Some(e.path.clone()),
                    given_at: At::now(rows),
                };
                rows.put(&probe_key(e.order), event.workspace, order);
                Ok(())
            }
            Event::Daemon(DaemonEvent::DirectoryProbed(e)) => {
                rows.remove(&probe_key(e.order));
                Ok(())
            }
            Event::Task(happened) => task_event(rows, event, TaskId(event.stream.id), happened),
            _ => Ok(()),
        }
    }
}

fn of_task(task: TaskId, event: &TaskEvent) -> Vec<String> {
    match event {
        TaskEvent::Claimed(_) => vec![claim_key(task)],
        TaskEvent::Promoted(_) => vec![promoted_key(task)],
        TaskEvent::CancelRequested(_) => vec![claim_key(task), cancel_key(task)],
        TaskEvent::ClaimReceived(_) | TaskEvent::Parked(_) => vec![promoted_key(task)],
        TaskEvent::CancelReceived(_) | TaskEvent::CancelAcknowledged(_) => vec![cancel_key(task)],
        TaskEvent::Cancelled(_) | TaskEvent::Failed(_) | TaskEvent::Completed(_) => {
            vec![promoted_key(task), claim_key(task)]
        }
        TaskEvent::ClaimReleased(_) => vec![claim_key(task)],
        _ => Vec::new(),
    }
}

fn task_event(
    rows: &mut Rows,
    event: &Envelope,
    task: TaskId,
    happened: &TaskEvent,
) -> Result<(), FoldError> {
    let order = |order_kind, daemon: &str, generation, directory, given_at| OrderRow {
        id: OrderId(event.event_id.0),
        daemon_stream: StreamId::of_daemon(event.workspace, daemon),
        order_kind,
        task: Some(task),
        generation: Some(generation),
        directory,
        path: None,
        given_at,
    };
    match happened {
        TaskEvent::Claimed(e) => {
            let row = ClaimRow { claimed_by: e.daemon.clone(), generation: e.generation };
            rows.put(&claim_key(task), event.workspace, row);
        }
        TaskEvent::ClaimReleased(_) => rows.remove(&claim_key(task)),
        TaskEvent::Promoted(e) => {
            let row = order(OrderKind::Promoted, &e.daemon, e.generation, Some(e.directory), At::now(rows));
            rows.put(&promoted_key(task), event.workspace, row);
        }
        TaskEvent::CancelRequested(e) => {
            let claim: Option<ClaimRow> = rows.get(NAME, &claim_key(task))?;
            if let (Some(claim), Some(generation)) = (claim, e.generation) {
                let row = order(OrderKind::Cancel, &claim.claimed_by, generation, None, At::now(rows));
                rows.put(&cancel_key(task), event.workspace, row);
            }
        }
        TaskEvent::ClaimReceived(_) | TaskEvent::Parked(_) => rows.remove(&promoted_key(task)),
        TaskEvent::CancelReceived(_) | TaskEvent::CancelAcknowledged(_) => rows.remove(&cancel_key(task)),
        TaskEvent::Cancelled(_) | TaskEvent::Failed(_) | TaskEvent::Completed(_) => {
            rows.remove(&promoted_key(task));
            rows.remove(&claim_key(task));
        }
        _ => {}
    }
    Ok(())
}
