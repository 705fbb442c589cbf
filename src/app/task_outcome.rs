//! How a task ends, and everything that ends with it.
//!
//! Invariants: the outcome, the run queued in its stead, the issue's way back to `todo`, the agent's last
//! word as a comment, the directory's release and the next promotion are one append.
//!
//! Not here: which outcome (`task_report`, `task_sweep`).

use super::decision::{Doer, Halt};
use super::directory_promote::promote_first;
use super::draft::Draft;
use super::load;
use crate::domain::directory::DirectoryCommand;
use crate::domain::issue::{Author, Commented, IssueEvent, StatusChanged};
use crate::domain::task::{Ending, Outcome, Phase, Queued, Task, TaskCommand, Trigger, failure};
use crate::domain::{Event, Family, NewContent, StreamKey};
use crate::kernel::ids::{CommentId, IssueId, TaskId};

/// The reason of a run that was interrupted; its retry doesn't count as another attempt.
const INTERRUPTED: &str = "runtime_recovery";

/// A comment that an ending writes in the agent's name.
pub struct LastWord {
    /// The comment.
    pub comment: CommentId,
    /// What it says, redacted.
    pub body: NewContent,
}

/// A failure.
pub struct Failure<'a> {
    /// The claim; none when the server says it.
    pub generation: Option<u32>,
    /// The failure reason.
    pub reason: &'a str,
    /// What exactly.
    pub detail: Option<&'a NewContent>,
    /// What the machine knows.
    pub ending: Ending,
    /// The id of the run that may be queued in its stead.
    pub retry: TaskId,
    /// The comment that tells it on the issue when there is no retry.
    pub last_word: Option<&'a LastWord>,
}

/// Fails a task, queues its retry or takes the issue back to `todo`.
///
/// # Errors
/// [`Halt`] with the task's refusal, or missing facts.
pub fn fail(draft: &mut Draft<'_>, id: TaskId, failure: Failure<'_>) -> Result<(), Halt> {
    let before = draft.needed_task(id)?;
    let command = TaskCommand::Fail {
        generation: failure.generation,
        reason: failure.reason.to_owned(),
        detail: failure.detail.map(|content| content.reference.clone()),
        ending: failure.ending,
    };
    if draft.tell_task(id, command)? == 0 {
        return Ok(());
    }
    if let Some(detail) = failure.detail {
        draft.attach(detail);
    }
    if matches!(before.phase, Phase::Ended { .. }) {
        return Ok(());
    }
    if !retry(draft, &before, failure.reason, failure.retry)? {
        back_to_todo(draft, before.facts.issue, id)?;
        if let Some(last_word) = failure.last_word {
            comment(draft, &before, "system", last_word)?;
        }
    }
    Ok(())
}

/// Queues another run when the reason is worth it and attempts are left; says whether it did.
fn retry(draft: &mut Draft<'_>, ended: &Task, reason: &str, by: TaskId) -> Result<bool, Halt> {
    let facts = &ended.facts;
    let worth = failure::find(reason).is_some_and(|known| known.retryable);
    let attempt = if reason == INTERRUPTED { facts.attempt } else { facts.attempt + 1 };
    if !worth || attempt > facts.max_attempts {
        return Ok(false);
    }
    let Some(agent) = load::agent(draft.view, draft.workspace, facts.agent)? else { return Ok(false) };
    // A newer run that waits already wins.
    if agent.archived || draft.is_held(&format!("pending/{}/{}", facts.issue, facts.agent))? {
        return Ok(false);
    }
    let run = draft.next_run(facts.issue)?;
    let trigger = Trigger::Retry { of: ended.id, reason: reason.to_owned() };
    let queued = Queued { run, attempt, trigger, ..facts.clone() };
    draft.done_by(Doer::Rule("retry"), |draft| {
        draft.tell_task(ended.id, TaskCommand::MarkRetried { by })?;
        draft.tell_task(by, TaskCommand::Queue(queued))
    })?;
    draft.note_taken(format!("pending/{}/{}", facts.issue, facts.agent));
    Ok(true)
}

/// Takes an issue in progress back to `todo` when nothing of it is active any more.
///
/// # Errors
/// [`Halt`] when facts are missing.
pub fn back_to_todo(draft: &mut Draft<'_>, issue: IssueId, because_of: TaskId) -> Result<(), Halt> {
    let in_progress =
        load::issue(draft.view, draft.workspace, issue)?.is_some_and(|issue| issue.status == "in_progress");
    if in_progress && !draft.is_active(issue)? {
        let event = IssueEvent::StatusChanged(StatusChanged {
            from: "in_progress".to_owned(),
            to: "todo".to_owned(),
            because_of: Some(because_of),
        });
        return draft.done_by(Doer::Rule("back_to_todo"), |draft| {
            draft.push(StreamKey::new(Family::Issue, issue), event);
            Ok(())
        });
    }
    Ok(())
}

/// Completes a task; its last word becomes a comment unless the agent has commented itself.
///
/// # Errors
/// [`Halt`] with the task's refusal, or missing facts.
pub fn complete(
    draft: &mut Draft<'_>,
    id: TaskId,
    generation: u32,
    output: Option<&NewContent>,
    last_word: Option<&LastWord>,
    ending: Ending,
) -> Result<(), Halt> {
    let before = draft.needed_task(id)?;
    let reference = output.map(|content| content.reference.clone());
    if draft.tell_task(id, TaskCommand::Complete { generation, output: reference, ending })? == 0 {
        return Ok(());
    }
    if let Some(output) = output {
        draft.attach(output);
    }
    let done = draft.needed_task(id)?;
    let completed = matches!(&done.phase, Phase::Ended { outcome: Outcome::Completed { .. }, .. });
    if let Some(last_word) = last_word
        && completed
        && !matches!(before.phase, Phase::Ended { .. })
        && !has_commented(draft, &done)?
    {
        comment(draft, &done, "comment", last_word)?;
    }
    Ok(())
}

fn has_commented(draft: &Draft<'_>, task: &Task) -> Result<bool, Halt> {
    let events = draft.view.stream(StreamKey::new(Family::Issue, task.facts.issue))?;
    Ok(events.iter().any(|envelope| {
        matches!(&envelope.event, Event::Issue(IssueEvent::Commented(said))
            if said.task == Some(task.id) && matches!(said.author, Author::Agent(_)))
    }))
}

/// Writes the agent's last word as its comment: the daemon only passes it on.
fn comment(draft: &mut Draft<'_>, task: &Task, kind: &str, last_word: &LastWord) -> Result<(), Halt> {
    let parent = match &task.facts.trigger {
        Trigger::Comment { comment } => Some(*comment),
        Trigger::Assignment | Trigger::Rerun { .. } | Trigger::Retry { .. } => None,
    };
    let event = IssueEvent::Commented(Commented {
        comment: last_word.comment,
        author: Author::Agent(task.facts.agent),
        kind: kind.to_owned(),
        body: last_word.body.reference.clone(),
        parent,
        task: Some(task.id),
    });
    draft.done_by(Doer::Agent(task.facts.agent), |draft| {
        draft.push(StreamKey::new(Family::Issue, task.facts.issue), event);
        draft.attach(&last_word.body);
        Ok(())
    })
}

/// Frees the directory of an ended task's claim, or its place in the queue, and promotes the next.
///
/// # Errors
/// [`Halt`] when facts are missing.
pub fn free_directory(
    draft: &mut Draft<'_>,
    id: TaskId,
    generation: u32,
    daemon_slots: u32,
) -> Result<(), Halt> {
    let task = draft.needed_task(id)?;
    if !matches!(task.phase, Phase::Ended { .. }) {
        return Ok(());
    }
    let directory =
        task.claim().filter(|claim| claim.generation == generation).and_then(|claim| claim.directory);
    if let Some(directory) = directory {
        let reason = task.status().name().to_owned();
        draft.tell_directory(directory, DirectoryCommand::Leave { task: id, reason })?;
        promote_first(draft, directory, daemon_slots, None)?;
    }
    Ok(())
}
