//! Read model `counters`: the last number given, for issues of a workspace and runs of an issue.
//!
//! Rows: `issues/<workspace>`, `runs/<issue>`, each a [`CounterRow`]. The number after it is a proposal; the
//! reservation of `fold/reservations` settles races.

use serde::{Deserialize, Serialize};

use super::{FoldError, Mode, ReadModel, Rows};
use crate::domain::issue::IssueEvent;
use crate::domain::task::TaskEvent;
use crate::domain::{Envelope, Event};
use crate::kernel::ids::{IssueId, WorkspaceId};

const NAME: &str = "counters";

/// See the module.
pub struct Counters;

/// A counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterRow {
    /// The highest number given.
    pub value: u32,
}

/// The key of a workspace's counter of issues.
#[must_use]
pub fn issues_key(workspace: WorkspaceId) -> String {
    format!("issues/{workspace}")
}

/// The key of an issue's counter of runs.
#[must_use]
pub fn runs_key(issue: IssueId) -> String {
    format!("runs/{issue}")
}

fn drawn(event: &Envelope) -> Option<(String, u32)> {
    match &event.event {
        Event::Issue(IssueEvent::Created(e)) => Some((issues_key(event.workspace), e.number)),
        Event::Task(TaskEvent::Queued(e)) => Some((runs_key(e.issue), e.run)),
        _ => None,
    }
}

impl ReadModel for Counters {
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
        drawn(event).map(|(key, _)| key).into_iter().collect()
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let Some((key, number)) = drawn(event) else { return Ok(()) };
        let last: Option<CounterRow> = rows.get(NAME, &key)?;
        let value = last.map_or(number, |last| last.value.max(number));
        rows.put(&key, event.workspace, CounterRow { value });
        Ok(())
    }
}
