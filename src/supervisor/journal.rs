//! What a supervisor writes down about its own steps, so that another can finish them.
//!
//! Invariants: a record that announces an effect is on disk before the effect; marks that something is
//! done need no sync, because recovery looks at the world for each announced step.

use serde::{Deserialize, Serialize};

use crate::process::identity::Identity;
use crate::wire::daemon::ReportBody;

/// One record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Entry {
    /// A supervisor has begun on this claim; what stood before is over.
    Began {},
    /// It goes on in the work directory of an earlier run.
    GoesOn {
        /// That directory.
        path: String,
    },
    /// What prepare will do, before it does the first of it.
    PreparePlan {
        /// The steps, in order.
        steps: Vec<PrepareStep>,
    },
    /// All of it is done.
    Prepared {},
    /// From here on there may be an agent.
    Spawning {},
    /// There is.
    Started {
        /// It.
        agent: Identity,
    },
    /// The run is to be stopped.
    CancelAsked {
        /// See [`super::frame::FrameBody::Cancel`].
        reason: String,
    },
    /// The agent is gone and the tree is empty.
    Exited {
        /// The exit code.
        code: Option<i32>,
        /// The signal.
        signal: Option<i32>,
        /// Processes besides the agent that were still there.
        killed: u32,
    },
    /// What will be reported at the end, known before the place is put in order.
    Verdict {
        /// `complete`, `fail` or `cancel-ack`.
        report: Box<ReportBody>,
    },
    /// What finalize will do, before it does the first of it.
    FinalizePlan {
        /// The steps, in order.
        steps: Vec<FinalizeStep>,
    },
    /// One of those is done.
    Done {
        /// It.
        step: FinalizeStep,
    },
    /// Somebody else had the directory: nothing was done, nothing is left to do.
    Blocked {},
    /// The terminal report is in the spool: nothing is left to do.
    Ended {},
}

/// One effect of prepare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum PrepareStep {
    /// An empty directory for the agent, in the env root.
    MakeWorkDirectory {},
    /// A directory for context files.
    MakeDirectory {
        /// Relative to the work directory.
        path: String,
    },
    /// A context file.
    WriteFile {
        /// Relative to the work directory.
        path: String,
    },
    /// The managed block of the brief file.
    WriteBrief {
        /// Relative to the work directory.
        path: String,
    },
}

/// One effect of finalize.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalizeStep {
    /// No process of the run is left.
    EmptyTree,
    /// No context file of the run is left.
    RemoveSidecars,
    /// The run's folder for temporary files outside of its env root is gone.
    RemoveTemporary,
    /// The place's last state is in the spool.
    ReportPlace,
    /// The directory's lock is given up.
    Unlock,
    /// The terminal report is in the spool.
    ReportEnd,
}

/// The records since the last beginning: what the present claim's last supervisor did.
#[must_use]
pub fn latest(entries: &[Entry]) -> &[Entry] {
    let start = entries.iter().rposition(|entry| matches!(entry, Entry::Began {})).unwrap_or(0);
    &entries[start..]
}

/// Whether nothing is left to do.
#[must_use]
pub fn is_over(entries: &[Entry]) -> bool {
    matches!(latest(entries).last(), None | Some(Entry::Blocked {} | Entry::Ended {}))
}
