//! Recorded history with another value of a timer: which tasks would have gone differently.
//!
//! ```text
//! parameter        waits from                    until
//! queued_ttl       queued, claim released        claimed, over
//! claim_receipt    claimed, promoted             received, parked again, over
//! reconnect_grace  the machine's last heartbeat  it is back
//! ```
//!
//! Invariants: pure; the other values hold from a moment on, and a wait that is too long by then ends at that
//! moment; the rule that fires is today's `decide`, asked with the task as it was; only the first
//! difference of a task is told, since what is recorded after it would not have happened; what isn't in the log
//! isn't guessed: a task that would have waited on is told with an open end; what a person, or the loss of a
//! machine, did to a task isn't taken for the timer's doing.
//!
//! Not here: where history is read (`http`), the timers in force (`app/policy`).

mod silence;
mod waits;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;

use self::silence::Silences;
use self::waits::{Doing, Wait};
use super::task::wait::{self, Turn};
use super::task::{self, Ending, Phase, Task, TaskCommand, TaskEvent};
use super::{Envelope, Event, codec};
use crate::kernel::ids::TaskId;

/// A timer whose inputs are in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Parameter {
    /// How long a task waits to be claimed before it fails.
    QueuedTtl,
    /// How long a claim or promotion waits for its receipt before it is taken back.
    ClaimReceipt,
    /// How long a machine may be silent before its running tasks are lost.
    ReconnectGrace,
}

impl Parameter {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::QueuedTtl, Self::ClaimReceipt, Self::ReconnectGrace];

    /// Its name, the same as among the limits.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueuedTtl => "queued_ttl",
            Self::ClaimReceipt => "claim_receipt",
            Self::ReconnectGrace => "reconnect_grace",
        }
    }
}

/// No [`Parameter`] has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no timer of recorded history has this name")]
pub struct NoParameter;

impl FromStr for Parameter {
    type Err = NoParameter;

    fn from_str(name: &str) -> Result<Self, NoParameter> {
        Self::ALL.into_iter().find(|parameter| parameter.name() == name).ok_or(NoParameter)
    }
}

/// What would have become of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instead {
    /// It would have failed with this reason.
    Fails(&'static str),
    /// Its claim would have been taken back.
    ClaimReleased,
    /// It would have lost its grant and waited for its directory again.
    ParkedAgain,
    /// It would have waited on, until that time; how that would have ended isn't in the log.
    WaitsOn,
    /// It would have gone on: its machine was back in time.
    GoesOn,
}

/// A task that would have gone differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The task.
    pub task: TaskId,
    /// People's name for it: `GAME-12#3`.
    pub name: String,
    /// The timer that would have made the difference.
    pub parameter: Parameter,
    /// Since when it waited.
    pub since: Timestamp,
    /// The end of the wait, had the timer had that value.
    pub due: Timestamp,
    /// What would have become of it.
    pub instead: Instead,
    /// What is recorded: the event that ended the wait, its position and time; none while it still waits.
    pub recorded: Option<Recorded>,
}

/// The event that ended a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its position.
    pub position: i64,
    /// Its time, by the database.
    pub at: Timestamp,
    /// Its type, `task.claimed`.
    pub event_type: String,
    /// The failure reason, or why a claim went back.
    pub reason: Option<String>,
}

impl Recorded {
    fn of(event: &Envelope, happened: &TaskEvent, at: Timestamp) -> Self {
        Self {
            position: event.position.unwrap_or_default(),
            at,
            event_type: codec::event_type(&event.event).unwrap_or_default(),
            reason: waits::reason(happened),
        }
    }
}

/// Goes through recorded history, event by event in the order of positions.
pub struct WhatIf {
    values: BTreeMap<Parameter, Duration>,
    from: Timestamp,
    tasks: HashMap<TaskId, Run>,
    silences: Silences,
    diverged: HashSet<TaskId>,
    /// Lost with their machine, and what is known of when the new value would have given up.
    pending: Vec<Lost>,
}

/// A task that its machine's silence took from it.
struct Lost {
    daemon: String,
    /// What would have become of it, had its machine been waited for and come back.
    back: Instead,
    difference: Difference,
}

/// What is recorded of a task, as it comes by.
#[derive(Clone, Copy)]
struct Seen<'e> {
    event: &'e Envelope,
    happened: &'e TaskEvent,
    at: Timestamp,
    doing: Doing,
}

impl Seen<'_> {
    fn is_firing(self, parameter: Parameter) -> bool {
        waits::is_firing(parameter, self.happened, self.doing)
    }
}

/// A task that isn't over.
struct Run {
    state: Task,
    wait: Option<Wait>,
}

impl WhatIf {
    /// Begins, with other values of some timers from a moment on. The history is taken from its beginning.
    #[must_use]
    pub fn new(values: BTreeMap<Parameter, Duration>, from: Timestamp) -> Self {
        Self {
            values,
            from,
            tasks: HashMap::new(),
            silences: Silences::default(),
            diverged: HashSet::new(),
            pending: Vec::new(),
        }
    }

    /// Takes one event; the differences that it decides.
    pub fn take(&mut self, event: &Envelope) -> Vec<Difference> {
        let Some(at) = event.recorded_at else { return Vec::new() };
        match &event.event {
            Event::Task(happened) => self.task(event, happened, at),
            Event::Daemon(happened) => {
                let back = self.silences.take(event, happened, at);
                back.map(|daemon| self.is_back(&daemon, at)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// The end of the log: what would have ended by now and still waits.
    pub fn end(&mut self, now: Timestamp) -> Vec<Difference> {
        let mut found = Vec::new();
        for id in self.tasks.keys().copied().collect::<Vec<_>>() {
            found.extend(self.overdue(id, now, None));
        }
        // Machines that never came back: their tasks would be waited for until then.
        for Lost { difference, .. } in std::mem::take(&mut self.pending) {
            if difference.due > now {
                found.push(Difference { instead: Instead::WaitsOn, ..difference });
            }
        }
        found.sort_by_key(|difference| (difference.due, difference.task));
        found
    }

    fn task(&mut self, event: &Envelope, happened: &TaskEvent, at: Timestamp) -> Vec<Difference> {
        let id = TaskId(event.stream.id);
        let mut found = Vec::new();
        if self.tasks.contains_key(&id) {
            let seen = Seen { event, happened, at, doing: self.silences.doing(event) };
            if !waits::leads_to_an_end(happened) {
                found.extend(self.overdue(id, at, Some(seen)));
                found.extend(self.fired(id, seen));
            }
        }
        let run = self.tasks.remove(&id);
        let (state, mut wait) = run.map_or((None, None), |run| (Some(run.state), run.wait));
        // What can't follow is damaged, and told by `verify`.
        let Some(state) = task::evolve::evolve(id, state, happened) else { return found };
        waits::note(&mut wait, happened, at);
        if !state.status().is_terminal() {
            self.tasks.insert(id, Run { state, wait });
        }
        found
    }

    /// Whether a timer would have fired on this task before `at`, at which this was recorded of it.
    fn overdue(&mut self, id: TaskId, at: Timestamp, seen: Option<Seen<'_>>) -> Option<Difference> {
        if self.diverged.contains(&id) {
            return None;
        }
        let run = self.tasks.get(&id)?;
        // A wait is judged when it ends: it may be told of by events in between.
        let ended = run.wait.filter(|_| seen.is_none_or(|seen| wait::turn(seen.happened) != Turn::GoesOn));
        let silent = run.state.claim().and_then(|claim| self.silences.since(&claim.daemon));
        let waits = [
            ended.map(|wait| (wait.parameter(), wait.since)),
            silent.map(|since| (Parameter::ReconnectGrace, since)),
        ];
        let (due, parameter, since, instead) = waits
            .into_iter()
            .flatten()
            .filter_map(|(parameter, since)| {
                let due = self.due(parameter, since).filter(|due| *due < at)?;
                // The timer fired in what is recorded too: the same end, at another time.
                let same = seen.is_some_and(|seen| seen.is_firing(parameter));
                let instead = fires(&run.state, parameter).filter(|_| !same)?;
                Some((due, parameter, since, instead))
            })
            .min_by_key(|(due, parameter, ..)| (*due, *parameter))?;
        let recorded = seen.map(|seen| Recorded::of(seen.event, seen.happened, seen.at));
        let name = run.state.name();
        self.diverged.insert(id);
        Some(Difference { task: id, name, parameter, since, due, instead, recorded })
    }

    /// A timer fired in what is recorded: whether the other value would have waited on.
    fn fired(&mut self, id: TaskId, seen: Seen<'_>) -> Option<Difference> {
        if self.diverged.contains(&id) || seen.at < self.from {
            return None;
        }
        let run = self.tasks.get(&id)?;
        let parameter = Parameter::ALL.into_iter().find(|kind| seen.is_firing(*kind))?;
        let daemon = run.state.claim().map(|claim| claim.daemon.clone());
        let since = match parameter {
            Parameter::ReconnectGrace => self.silences.since(daemon.as_ref()?)?,
            Parameter::QueuedTtl | Parameter::ClaimReceipt => {
                run.wait.filter(|wait| wait.parameter() == parameter)?.since
            }
        };
        let due = self.due(parameter, since).filter(|due| *due > seen.at)?;
        let difference = Difference {
            task: id,
            name: run.state.name(),
            parameter,
            since,
            due,
            instead: Instead::WaitsOn,
            recorded: Some(Recorded::of(seen.event, seen.happened, seen.at)),
        };
        if parameter == Parameter::ReconnectGrace {
            // Whether its machine came back in time is told by what comes.
            let failed = matches!(seen.happened, TaskEvent::Failed(_));
            // A claim that nobody had confirmed may have gone back by then for that.
            let back = if failed { Instead::GoesOn } else { Instead::WaitsOn };
            self.pending.push(Lost { daemon: daemon?, back, difference });
            return None;
        }
        self.diverged.insert(id);
        Some(difference)
    }

    fn is_back(&mut self, daemon: &str, at: Timestamp) -> Vec<Difference> {
        let mut found = Vec::new();
        let mine = |run: &Run| run.state.claim().is_some_and(|claim| claim.daemon == daemon);
        let tasks: Vec<TaskId> = self.tasks.iter().filter(|(_, run)| mine(run)).map(|(id, _)| *id).collect();
        for id in tasks {
            found.extend(self.overdue(id, at, None));
        }
        self.silences.over(daemon);
        for lost in std::mem::take(&mut self.pending) {
            if lost.daemon != daemon {
                self.pending.push(lost);
            } else if lost.difference.due > at && self.diverged.insert(lost.difference.task) {
                found.push(Difference { instead: lost.back, ..lost.difference });
            }
        }
        found.sort_by_key(|difference| (difference.due, difference.task));
        found
    }

    fn due(&self, parameter: Parameter, since: Timestamp) -> Option<Timestamp> {
        Some(since.checked_add(*self.values.get(&parameter)?).ok()?.max(self.from))
    }
}

/// What today's rules do with a task when a timer fires on it; none when they leave it alone.
fn fires(state: &Task, parameter: Parameter) -> Option<Instead> {
    let fail = |reason: &'static str| {
        let command = TaskCommand::Fail {
            generation: None,
            reason: reason.to_owned(),
            detail: None,
            ending: Ending::default(),
        };
        (command, Instead::Fails(reason))
    };
    let release = |generation| {
        let reason = "no_receipt".to_owned();
        (TaskCommand::ReleaseClaim { generation, reason }, Instead::ClaimReleased)
    };
    let (command, instead) = match (&state.phase, parameter) {
        (Phase::Queued, Parameter::QueuedTtl) => fail("queued_expired"),
        (Phase::Dispatched(claim), Parameter::ClaimReceipt | Parameter::ReconnectGrace)
            if !claim.received && !claim.promoted =>
        {
            release(claim.generation)
        }
        // The directory's queue takes it back; what that needs beside the task isn't asked here.
        (Phase::Dispatched(claim), Parameter::ClaimReceipt) if !claim.received => {
            return Some(Instead::ParkedAgain);
        }
        (Phase::Dispatched(claim), Parameter::ReconnectGrace) if claim.promoted => {
            return Some(Instead::ParkedAgain);
        }
        (Phase::Dispatched(_) | Phase::Running(_), Parameter::ReconnectGrace) => fail("runtime_offline"),
        _ => return None,
    };
    let decided = task::decide::decide(Some(state), command).ok()?;
    (!decided.is_empty()).then_some(instead)
}

#[cfg(test)]
mod tests;
