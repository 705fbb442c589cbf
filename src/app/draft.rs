//! A decision over several streams, each step seeing what the steps before it changed.
//!
//! Invariants: pure; a refusal of one step refuses the whole; slots freed by an earlier step may be
//! taken by a later one (the append applies frees before takes).
//!
//! Not here: which steps a use case takes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use uuid::Uuid;

use super::decision::{Decided, Doer, Halt, NewEvent, View};
use crate::domain::directory::{self, Directory, DirectoryCommand, DirectoryEvent};
use crate::domain::task::{self, Phase, Task, TaskCommand, TaskEvent};
use crate::domain::{Event, Impossible, NewContent, StreamKey};
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::{DirectoryId, IssueId, TaskId, WorkspaceId};

impl From<Impossible> for Halt {
    fn from(impossible: Impossible) -> Self {
        Self::Corrupt(Chain(&impossible).to_string())
    }
}

/// A command in the making.
pub struct Draft<'v> {
    /// What is loaded.
    pub view: &'v View,
    /// Whose command it is.
    pub workspace: WorkspaceId,
    tasks: BTreeMap<TaskId, Option<Task>>,
    directories: BTreeMap<DirectoryId, Option<Directory>>,
    freed: BTreeSet<Uuid>,
    taken: BTreeSet<String>,
    gone: BTreeSet<String>,
    doer: Option<Doer>,
    decided: Decided,
}

impl<'v> Draft<'v> {
    /// An empty one.
    #[must_use]
    pub fn new(view: &'v View, workspace: WorkspaceId) -> Self {
        Self {
            view,
            workspace,
            tasks: BTreeMap::new(),
            directories: BTreeMap::new(),
            freed: BTreeSet::new(),
            taken: BTreeSet::new(),
            gone: BTreeSet::new(),
            doer: None,
            decided: Decided::default(),
        }
    }

    /// The task as it stands after the steps so far; none when it isn't this workspace's.
    ///
    /// # Errors
    /// [`Halt`] when it isn't loaded or can't be folded.
    pub fn task(&mut self, id: TaskId) -> Result<Option<&Task>, Halt> {
        if !self.tasks.contains_key(&id) {
            let events = self.view.stream(task::evolve::stream(id))?;
            let mine = events.first().is_none_or(|first| first.workspace == self.workspace);
            let folded = if mine { task::evolve::fold(events)? } else { None };
            self.tasks.insert(id, folded);
        }
        Ok(self.tasks.get(&id).and_then(Option::as_ref))
    }

    /// The task, which has to be there.
    ///
    /// # Errors
    /// `not_found` besides those of [`Self::task`].
    pub fn needed_task(&mut self, id: TaskId) -> Result<Task, Halt> {
        self.task(id)?.cloned().ok_or_else(|| crate::domain::Refusal::not_found("task").into())
    }

    /// The directory as it stands after the steps so far.
    ///
    /// # Errors
    /// [`Halt`] when it isn't loaded or can't be folded.
    pub fn directory(&mut self, id: DirectoryId) -> Result<Option<&Directory>, Halt> {
        if !self.directories.contains_key(&id) {
            let folded = directory::state::fold(self.view.stream(directory::state::stream(id))?)?;
            self.directories.insert(id, folded);
        }
        Ok(self.directories.get(&id).and_then(Option::as_ref))
    }

    /// Decides a command on a task and keeps its events; says how many there were.
    ///
    /// # Errors
    /// [`Halt`] with the task's refusal.
    pub fn tell_task(&mut self, id: TaskId, command: TaskCommand) -> Result<usize, Halt> {
        let mut state = self.task(id)?.cloned();
        let events = task::decide::decide(state.as_ref(), command)?;
        let count = events.len();
        for event in events {
            state = Some(
                task::evolve::evolve(id, state, &event)
                    .ok_or_else(|| Halt::Corrupt(format!("task {id} can't hold what it decided")))?,
            );
            self.note_slots(id, &event);
            self.push(task::evolve::stream(id), event);
        }
        self.tasks.insert(id, state);
        Ok(count)
    }

    /// Decides a command on a directory and keeps its events; says how many there were.
    ///
    /// # Errors
    /// [`Halt`] with the directory's refusal.
    pub fn tell_directory(&mut self, id: DirectoryId, command: DirectoryCommand) -> Result<usize, Halt> {
        let mut state = self.directory(id)?.cloned();
        let events: Vec<DirectoryEvent> = directory::decide::decide(state.as_ref(), command)?;
        let count = events.len();
        for event in events {
            state = Some(
                directory::state::evolve(state, &event)
                    .ok_or_else(|| Halt::Corrupt(format!("directory {id} can't hold what it decided")))?,
            );
            self.push(directory::state::stream(id), event);
        }
        self.directories.insert(id, state);
        Ok(count)
    }

    fn note_slots(&mut self, id: TaskId, event: &TaskEvent) {
        match event {
            TaskEvent::Parked(_)
            | TaskEvent::ClaimReleased(_)
            | TaskEvent::Completed(_)
            | TaskEvent::Failed(_)
            | TaskEvent::Cancelled(_) => {
                self.freed.insert(id.0);
            }
            _ => {}
        }
    }

    /// Finds and takes the lowest free number below `max` under `prefix`.
    ///
    /// # Errors
    /// [`Halt`] when the prefix isn't loaded.
    pub fn take_number(&mut self, prefix: &str, max: u32) -> Result<Option<u32>, Halt> {
        let found = self.free_number(prefix, max)?;
        if let Some(k) = found {
            self.taken.insert(format!("{prefix}{k}"));
        }
        Ok(found)
    }

    /// Finds the lowest free number below `max` under `prefix`; none once `max` are held, whichever they are: a
    /// limit may have been lowered since they were taken.
    ///
    /// # Errors
    /// [`Halt`] when the prefix isn't loaded.
    pub fn free_number(&self, prefix: &str, max: u32) -> Result<Option<u32>, Halt> {
        let held = self.view.reservations(prefix)?;
        let held = held.iter().filter(|(_, holder)| !self.freed.contains(*holder)).map(|(key, _)| key);
        let taken = self.taken.iter().filter(|key| key.starts_with(prefix));
        let held: BTreeSet<&String> = held.chain(taken).collect();
        if held.len() >= usize::try_from(max).unwrap_or(usize::MAX) {
            return Ok(None);
        }
        Ok((0..max).find(|k| !held.contains(&format!("{prefix}{k}"))))
    }

    /// Whether anybody who wasn't ended by a step of this draft holds a key that begins so.
    ///
    /// # Errors
    /// [`Halt`] when the prefix isn't loaded.
    pub fn is_held(&self, prefix: &str) -> Result<bool, Halt> {
        let held = self.view.reservations(prefix)?;
        Ok(held.values().any(|holder| !self.freed.contains(holder))
            || self.taken.iter().any(|key| key.starts_with(prefix)))
    }

    /// Notes that a step of this draft gives a daemon up: nothing goes to it any more.
    pub fn note_gone(&mut self, daemon: &str) {
        self.gone.insert(daemon.to_owned());
    }

    /// Whether a step of this draft gave that daemon up.
    #[must_use]
    pub fn is_gone(&self, daemon: &str) -> bool {
        self.gone.contains(daemon)
    }

    /// Notes a key as taken by a step of this draft, so that a later step finds it held.
    pub fn note_taken(&mut self, key: String) {
        self.taken.insert(key);
    }

    /// The next run number of an issue: one more than the greatest ever given.
    ///
    /// # Errors
    /// [`Halt`] when its runs aren't loaded.
    pub fn next_run(&mut self, issue: IssueId) -> Result<u32, Halt> {
        let prefix = format!("run/{issue}/");
        let held = self.view.reservations(&prefix)?;
        let greatest = held
            .keys()
            .chain(self.taken.iter())
            .filter_map(|key| key.strip_prefix(&prefix))
            .filter_map(|n| n.parse::<u32>().ok())
            .max()
            .unwrap_or(0);
        self.taken.insert(format!("{prefix}{}", greatest + 1));
        Ok(greatest + 1)
    }

    /// Whether a task of the issue is queued, claimed, parked or runs.
    ///
    /// # Errors
    /// [`Halt`] when its reservations aren't loaded.
    pub fn is_active(&self, issue: IssueId) -> Result<bool, Halt> {
        Ok(self.is_held(&format!("pending/{issue}/"))? || self.is_held(&format!("conversation/{issue}/"))?)
    }

    /// Keeps an event.
    pub fn push(&mut self, stream: StreamKey, event: impl Into<Event>) {
        self.decided.events.push(NewEvent { doer: self.doer, ..NewEvent::new(stream, event) });
    }

    /// Takes steps whose events are somebody else's doing than the command's sender.
    ///
    /// # Errors
    /// Those of the steps.
    pub fn done_by<T>(
        &mut self,
        doer: Doer,
        steps: impl FnOnce(&mut Self) -> Result<T, Halt>,
    ) -> Result<T, Halt> {
        let before = self.doer.replace(doer);
        let done = steps(self);
        self.doer = before;
        done
    }

    /// Keeps a text that a kept event refers to.
    pub fn attach(&mut self, content: &NewContent) {
        self.decided.contents.push(content.clone());
    }

    /// How many events are kept.
    #[must_use]
    pub fn events(&self) -> usize {
        self.decided.events.len()
    }

    /// The finished command with its answer.
    #[must_use]
    pub fn finish(mut self, result: Value) -> Decided {
        self.decided.result = result;
        self.decided
    }

    /// The answer that every report gets: where the task stands, and its live claim.
    ///
    /// # Errors
    /// Those of [`Self::task`].
    pub fn standing(&mut self, id: TaskId) -> Result<Value, Halt> {
        let task = self.needed_task(id)?;
        Ok(serde_json::json!({"task": id, "status": task.status().name(), "generation": task.generation}))
    }
}

/// The claim of a task that isn't over.
#[must_use]
pub const fn live_claim(task: &Task) -> Option<&task::Claim> {
    match &task.phase {
        Phase::Dispatched(claim) | Phase::Parked(claim) | Phase::Running(claim) => Some(claim),
        Phase::Queued | Phase::Ended { .. } => None,
    }
}
