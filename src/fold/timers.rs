//! Read model `timers`: what has to happen by itself when too much time has gone by.
//!
//! Rows: `receipt/<task>` (a claim or promotion without receipt), `queued/<task>` (nobody took it), each a
//! [`TimerRow`]. How long is too long is the reader's matter; the clock is the database's.

use serde::{Deserialize, Serialize};

use super::{At, FoldError, Mode, ReadModel, Rows};
use crate::domain::task::wait::{self, Kind, Turn};
use crate::domain::{Envelope, Event};
use crate::kernel::ids::TaskId;

const NAME: &str = "timers";

/// See the module.
pub struct Timers;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerKind {
    /// The receipt of a claim.
    Receipt,
    /// The receipt of a promotion.
    Promotion,
    /// A claim.
    Queued,
}

/// A timer that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerRow {
    /// What is waited for.
    pub timer_kind: TimerKind,
    /// The task.
    pub task: TaskId,
    /// The claim; 0 while there is none.
    pub generation: u32,
    /// Since when.
    pub since: At,
}

fn receipt_key(task: TaskId) -> String {
    format!("receipt/{task}")
}

fn queued_key(task: TaskId) -> String {
    format!("queued/{task}")
}

impl ReadModel for Timers {
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
        let Event::Task(happened) = &event.event else { return Vec::new() };
        let task = TaskId(event.stream.id);
        match wait::turn(happened) {
            Turn::GoesOn => Vec::new(),
            Turn::Begins(..) | Turn::Ends => vec![receipt_key(task), queued_key(task)],
        }
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let Event::Task(happened) = &event.event else { return Ok(()) };
        let task = TaskId(event.stream.id);
        let (receipt, queued) = (receipt_key(task), queued_key(task));
        let turn = wait::turn(happened);
        if turn != Turn::GoesOn {
            rows.remove(&receipt);
            rows.remove(&queued);
        }
        let Turn::Begins(kind, generation) = turn else { return Ok(()) };
        let (key, timer_kind) = match kind {
            Kind::Claim => (queued, TimerKind::Queued),
            Kind::Receipt => (receipt, TimerKind::Receipt),
            Kind::PromotionReceipt => (receipt, TimerKind::Promotion),
        };
        let since = At::now(rows);
        rows.put(&key, event.workspace, TimerRow { timer_kind, task, generation, since });
        Ok(())
    }
}
