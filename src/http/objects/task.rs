//! Tasks.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Loaded, Texts, ids, load, load_one};
use crate::domain::directory::{self, Directory, LockBlocked};
use crate::domain::task::failure::{self, Again};
use crate::domain::task::{
    self, Ending, Outcome, ParkedBecause, Phase, Queued, Status, Task, TaskEvent, Trigger, Usage,
};
use crate::domain::{ContentRef, Event};
use crate::fold::runtime_presence::DaemonRow;
use crate::http::App;
use crate::http::error::ApiError;
use crate::kernel::ids::{DirectoryId, TaskId, WorkspaceId};
use crate::readmodel::{runtime_presence, task_status};
use crate::wire::api;

/// Tasks.
///
/// # Errors
/// See [`load`].
pub async fn tasks(app: &App, workspace: WorkspaceId, ids: &[TaskId]) -> Result<Vec<Loaded<Task>>, ApiError> {
    let keys: Vec<_> = ids.iter().copied().map(task::evolve::stream).collect();
    load(app, workspace, &keys, task::evolve::fold).await
}

/// One task.
///
/// # Errors
/// `not_found`; see [`load`].
pub async fn task(app: &App, workspace: WorkspaceId, id: TaskId) -> Result<Loaded<Task>, ApiError> {
    let found = load_one(app, workspace, task::evolve::stream(id), task::evolve::fold).await?;
    found.ok_or_else(|| ApiError::unknown("task", id))
}

/// Tasks as the API shows them, with what parked ones wait for.
///
/// # Errors
/// What went wrong with the database.
pub async fn task_values(
    app: &App,
    workspace: WorkspaceId,
    tasks: &[Loaded<Task>],
) -> Result<Vec<api::Task>, ApiError> {
    let texts = Texts::load(app, ids(tasks.iter().flat_map(|task| task_texts(task)))).await?;
    let waits = Waits::load(app, workspace, tasks).await?;
    let helps = Helps::load(app, workspace, tasks).await?;
    Ok(tasks.iter().map(|task| task_value(workspace, task, &texts, &waits, &helps)).collect())
}

/// What a task that is over said last: its output, or what went wrong exactly; none when it said nothing.
///
/// # Errors
/// What went wrong with the database.
pub async fn last_word(app: &App, task: &Loaded<Task>) -> Result<Option<String>, ApiError> {
    let Some(reference) = task_texts(task).pop() else { return Ok(None) };
    let texts = Texts::load(app, vec![reference.id]).await?;
    Ok(Some(texts.of(reference).to_owned()).filter(|text| !text.is_empty()))
}

fn task_texts(task: &Loaded<Task>) -> Vec<&ContentRef> {
    task.events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::Task(TaskEvent::Completed(e)) => e.output.as_ref(),
            Event::Task(TaskEvent::Failed(e)) => e.detail.as_ref(),
            _ => None,
        })
        .collect()
}

/// Directories that parked tasks wait for, and the names of who holds them.
struct Waits {
    directories: BTreeMap<DirectoryId, Directory>,
    names: BTreeMap<TaskId, String>,
}

impl Waits {
    async fn load(app: &App, workspace: WorkspaceId, tasks: &[Loaded<Task>]) -> Result<Self, ApiError> {
        let mut ids: Vec<DirectoryId> = tasks
            .iter()
            .filter_map(|task| match &task.state.phase {
                Phase::Parked(claim) => claim.directory,
                Phase::Queued | Phase::Dispatched(_) | Phase::Running(_) | Phase::Ended { .. } => None,
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let keys: Vec<_> = ids.iter().copied().map(directory::state::stream).collect();
        let loaded = load(app, workspace, &keys, directory::state::fold).await?;
        let directories: BTreeMap<DirectoryId, Directory> = loaded
            .into_iter()
            .filter_map(|it| Some((DirectoryId(it.events.first()?.stream.id), it.state)))
            .collect();
        let holders = directories.values().filter_map(|directory| directory.holder.as_ref());
        let named = holders.flat_map(|holder| {
            [Some(holder.who.task), holder.blocked.as_ref().and_then(LockBlocked::by_task)]
        });
        let named: Vec<TaskId> = named.flatten().collect();
        let names = task_status::of_ids(&app.store, &app.registry, named).await?;
        let names = names.into_iter().filter(|found| found.workspace == workspace);
        let names = names.map(|found| (found.row.id, found.row.name)).collect();
        Ok(Self { directories, names })
    }

    fn of(&self, task: &Loaded<Task>) -> Option<api::Waiting> {
        let Phase::Parked(claim) = &task.state.phase else { return None };
        let parked = task.events.iter().rev().find_map(|envelope| match &envelope.event {
            Event::Task(TaskEvent::Parked(e)) => Some((e, envelope.recorded_at)),
            _ => None,
        });
        let (parked, since) = parked?;
        let directory = claim.directory.and_then(|id| self.directories.get(&id));
        let holds = directory.and_then(|directory| directory.holder.as_ref());
        let (own, other) = match holds {
            Some(holder) if holder.who.task == task.state.id => (Some(holder), None),
            other => (None, other),
        };
        let holder = other.map(|holder| holder.who.task);
        let lock = own.and_then(|holder| holder.blocked.as_ref());
        let name = |task: TaskId| self.names.get(&task).cloned();
        let place = directory.and_then(|directory| directory.place_in_line(task.state.id)).unwrap_or(0);
        Some(api::Waiting {
            directory_id: parked.directory,
            label: parked.label.clone(),
            holder_task_id: holder,
            holder_name: holder.and_then(name),
            place,
            because: because(parked.because).to_owned(),
            locked_by: lock.map(|lock| lock.who(|task| name(task).unwrap_or_else(|| task.to_string()))),
            locked_by_task_id: lock.and_then(LockBlocked::by_task),
            since,
        })
    }
}

const fn because(because: ParkedBecause) -> &'static str {
    match because {
        ParkedBecause::Held => "held",
        ParkedBecause::ForeignLock => "foreign_lock",
        ParkedBecause::PromotionUnanswered => "promotion_unanswered",
    }
}

#[derive(Default)]
struct Times {
    queued: Option<Timestamp>,
    dispatched: Option<Timestamp>,
    parked: Option<Timestamp>,
    started: Option<Timestamp>,
    completed: Option<Timestamp>,
    told_to_stop: Option<Timestamp>,
    usage: BTreeMap<u32, Vec<Usage>>,
}

impl Times {
    fn of(task: &Loaded<Task>) -> Self {
        let mut times = Self::default();
        for envelope in &task.events {
            let Event::Task(event) = &envelope.event else { continue };
            let at = envelope.recorded_at;
            match event {
                TaskEvent::Queued(_) | TaskEvent::ClaimReleased(_) => {
                    times.queued = at;
                    times.dispatched = None;
                }
                TaskEvent::Claimed(_) | TaskEvent::Promoted(_) => times.dispatched = at,
                TaskEvent::Parked(_) => times.parked = at,
                TaskEvent::Started(_) => times.started = at,
                TaskEvent::CancelRequested(_) => times.told_to_stop = at,
                TaskEvent::Completed(_) | TaskEvent::Failed(_) | TaskEvent::Cancelled(_) => {
                    times.completed = at;
                }
                TaskEvent::UsageRecorded(e) => {
                    times.usage.insert(e.generation, e.usage.clone());
                }
                _ => {}
            }
        }
        times
    }
}

fn task_value(
    workspace: WorkspaceId,
    task: &Loaded<Task>,
    texts: &Texts,
    waits: &Waits,
    helps: &Helps,
) -> api::Task {
    let state = &task.state;
    let facts = &state.facts;
    let times = Times::of(task);
    let (reason, ending) = ended(&state.phase);
    let text = task_texts(task).last().map(|reference| texts.of(reference).to_owned());
    let branch_name = ending.and_then(|ending| ending.branch.clone());
    let (result, error) = if state.status() == Status::Completed {
        (text.map(|output| api::TaskResult { output, branch_name: branch_name.clone() }), None)
    } else {
        (None, text)
    };
    let (retry_of, rerun_of) = match &facts.trigger {
        Trigger::Retry { of, .. } => (Some(*of), None),
        Trigger::Rerun { of } => (None, Some(*of)),
        Trigger::Assignment | Trigger::Comment { .. } => (None, None),
    };
    api::Task {
        id: state.id,
        name: state.name(),
        workspace_id: workspace,
        issue_id: facts.issue,
        issue_key: facts.issue_key.clone(),
        project_id: facts.project,
        run: facts.run,
        agent_id: facts.agent,
        agent_name: facts.agent_name.clone(),
        runtime_id: facts.runtime,
        daemon_id: facts.daemon.clone(),
        provider: facts.provider.clone(),
        status: state.status().name().to_owned(),
        priority: facts.priority,
        generation: state.generation,
        attempt: facts.attempt,
        max_attempts: facts.max_attempts,
        waiting: waits.of(task),
        directory_id: state.claim().and_then(|claim| claim.directory),
        session_id: state.claim().and_then(|claim| claim.session_id.clone()),
        branch_name,
        relative_work_dir: work_dir(task).map(|path| shown_work_dir(workspace, state.id, path)),
        result,
        error,
        failure: reason.as_deref().and_then(|code| helps.of(state, code)),
        failure_reason: reason,
        usage: times.usage.into_values().flatten().collect(),
        retry_of_task_id: retry_of,
        rerun_of_task_id: rerun_of,
        retried_by: state.retried_by,
        stopping_since: times.told_to_stop.filter(|_| state.is_stopping()),
        queued_at: times.queued,
        dispatched_at: times.dispatched,
        parked_at: times.parked,
        started_at: times.started,
        completed_at: times.completed,
        created_at: task.created_at(),
        transcript_gone: None,
        more: for_public_clients(facts, retry_of),
    }
}

fn ended(phase: &Phase) -> (Option<String>, Option<&Ending>) {
    match phase {
        Phase::Ended { outcome: Outcome::Completed { ending }, .. } => (None, Some(ending)),
        Phase::Ended { outcome: Outcome::Failed { reason, ending }, .. } => {
            (Some(reason.clone()), Some(ending))
        }
        Phase::Ended { outcome: Outcome::Cancelled { reason }, .. } => (reason.clone(), None),
        Phase::Queued | Phase::Dispatched(_) | Phase::Parked(_) | Phase::Running(_) => (None, None),
    }
}

/// What the next step of a failed task hangs on: where the run in its stead stands, and which daemons are there.
struct Helps {
    retries: BTreeMap<TaskId, Status>,
    there: BTreeSet<String>,
}

impl Helps {
    async fn load(app: &App, workspace: WorkspaceId, tasks: &[Loaded<Task>]) -> Result<Self, ApiError> {
        let failed: Vec<&Task> =
            tasks.iter().map(|task| &task.state).filter(|task| task.status() == Status::Failed).collect();
        if failed.is_empty() {
            return Ok(Self { retries: BTreeMap::new(), there: BTreeSet::new() });
        }
        let retries: Vec<TaskId> = failed.iter().filter_map(|task| task.retried_by).collect();
        let retries = task_status::of_ids(&app.store, &app.registry, retries).await?;
        let retries = retries.into_iter().filter(|found| found.workspace == workspace);
        let daemons = runtime_presence::daemons(&app.store, &app.registry, workspace).await?;
        let there = daemons.into_iter().map(|found| found.row).filter(DaemonRow::is_there);
        Ok(Self {
            retries: retries.map(|found| (found.row.id, found.row.status)).collect(),
            there: there.map(|row| row.daemon).collect(),
        })
    }

    fn of(&self, task: &Task, code: &str) -> Option<api::Failure> {
        let retry = task.retried_by.and_then(|by| self.retries.get(&by).copied());
        let again = Again::of(task.retried_by.is_some(), retry);
        failure::find(code).map(|known| api::Failure {
            code: known.code.to_owned(),
            sentence: known.sentence.to_owned(),
            next_step: known.next_step(again, self.there.contains(&task.facts.daemon)).to_owned(),
            retryable: known.retryable,
        })
    }
}

fn for_public_clients(facts: &Queued, retry_of: Option<TaskId>) -> Map<String, Value> {
    let (kind, trigger_comment) = match &facts.trigger {
        Trigger::Comment { comment } => ("comment", Some(comment)),
        Trigger::Assignment | Trigger::Rerun { .. } | Trigger::Retry { .. } => ("direct", None),
    };
    api::more(json!({
        "kind": kind, "trigger_comment_id": trigger_comment, "parent_task_id": retry_of,
        "is_leader_task": false, "delivered_comment_ids": [], "chat_session_id": null,
        "autopilot_run_id": null,
    }))
}

fn work_dir(task: &Loaded<Task>) -> Option<&str> {
    task.events.iter().rev().find_map(|envelope| match &envelope.event {
        Event::Task(TaskEvent::Prepared(e)) => Some(e.work_dir.as_str()),
        _ => None,
    })
}

/// A work directory without what would tell an account's name: from the workspace on where it is the
/// task's own, else from the home on, else its last part.
fn shown_work_dir(workspace: WorkspaceId, id: TaskId, path: &str) -> String {
    let path = path.replace('\\', "/");
    let own = format!("{workspace}/{}/workdir", id.key());
    if path.ends_with(&format!("/{own}")) {
        return own;
    }
    let in_a_home = ["/Users/", "/home/", "C:/Users/"].iter().find_map(|homes| path.strip_prefix(homes));
    let shown = match in_a_home.map(|from_account| from_account.split_once('/').unwrap_or_default().1) {
        Some("") => "~",
        Some(rest) => rest,
        None => path.rsplit('/').next().unwrap_or_default(),
    };
    shown.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S052: what the server shows of an env root is what the daemon made of the same id.
    #[test]
    fn a_work_directory_is_shown_without_the_account_s_name() {
        let id: TaskId = "0190aaaa-0000-7000-8000-0123456789ab".parse().unwrap();
        let workspace = WorkspaceId(uuid::Uuid::nil());
        let shown = |path: &str| shown_work_dir(workspace, id, path);
        let own = format!("{workspace}/0123456789ab/workdir");
        assert_eq!(shown(&format!("/home/ada/multica_workspaces/{own}")), own);
        assert_eq!(shown(&format!("C:\\Users\\ada\\work\\{}", own.replace('/', "\\"))), own);
        assert_eq!(shown("/home/ada/code/game"), "code/game");
        assert_eq!(shown("C:\\Users\\ada\\code"), "code");
        assert_eq!(shown("/srv/secret/game"), "game");
        assert_eq!((shown("/home/ada"), shown("/home/ada/")), ("~".to_owned(), "~".to_owned()));
    }
}
