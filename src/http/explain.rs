//! Why a task stands where it stands: the facts are gathered here, the explanation is the domain's.

use super::App;
use super::assign::damage;
use super::auth::Identity;
use super::error::ApiError;
use super::objects::task::{last_word, task};
use super::objects::{Loaded, load_one};
use crate::domain::directory::{self, Directory};
use crate::domain::task::explain::{
    AgentFacts, Cause, DaemonFacts, Facts, HolderFacts, Since, Terms, explain,
};
use crate::domain::task::{Phase, Status, Task, TaskEvent};
use crate::domain::{Event, Family, StreamKey};
use crate::fold::task_status::TaskRow;
use crate::kernel::ids::{AgentId, IssueId, RuntimeId, StreamId, TaskId, WorkspaceId};
use crate::kernel::limits::Millis;
use crate::kernel::text::last_lines;
use crate::readmodel::activity::Called;
use crate::readmodel::found::Found;
use crate::readmodel::{agent_roster, runtime_presence, task_status};
use crate::store::raw::Reading;
use crate::store::{heartbeat, read, reservations, transcript};
use crate::wire::api;
use crate::wire::feed::Link;

/// A task's explanation.
///
/// # Errors
/// `not_found`; what went wrong with the database.
pub async fn of(app: &App, who: &Identity, id: TaskId) -> Result<api::Explanation, ApiError> {
    let loaded = match task(app, who.workspace, id).await {
        Err(error) if error.is_damage() => return of_damaged(app, who, id, error).await,
        loaded => loaded?,
    };
    let state = &loaded.state;
    let (directory, unreadable) = match directory_of(app, who.workspace, state).await {
        Err(error) if error.is_damage() => (None, vec!["the history of its directory"]),
        directory => (directory?, Vec::new()),
    };
    let mut events = loaded.events.clone();
    events.extend(directory.iter().flat_map(|directory| directory.events.iter().cloned()));
    let conversation = conversation(app, who.workspace, state).await?;
    // No event of this task speaks of the others that it waits for.
    let held_by = directory.as_ref().and_then(|directory| Some(directory.state.holder.as_ref()?.who.task));
    let locked_by =
        directory.as_ref().and_then(|directory| directory.state.holder.as_ref()?.blocked.as_ref()?.by_task());
    let others = [conversation, held_by, locked_by, state.retried_by].into_iter().flatten();
    let others: Vec<StreamKey> = others.map(crate::domain::task::evolve::stream).collect();
    let names = Called::load(&app.store, &app.registry, &events, &others).await?;
    let failed = state.status() == Status::Failed;
    let detail = if failed { last_word(app, &loaded).await? } else { None };
    let since = since(&loaded, directory.as_ref());
    let stalled =
        jiff::SignedDuration::try_from(app.limits.stalled.duration()).unwrap_or(jiff::SignedDuration::MAX);
    // Whether something can be read is a question of now.
    let now = app.store.as_of().is_none();
    let damage = if now && state.status() == Status::Queued { damage(app, id).await? } else { None };
    let daemon = daemon(app, who.workspace, &state.facts.daemon, state.facts.runtime).await?;
    let holder = holder(app, who.workspace, state, directory.as_ref()).await?;
    let mut unreadable = unreadable;
    if now
        && !state.status().is_terminal()
        && !daemon.online
        && machine_is_damaged(app, who.workspace, state).await?
    {
        unreadable.push("the history of its machine, which can't come back before it can be read,");
    }
    let facts = Facts {
        damage: damage.as_deref(),
        directory: directory.as_ref().map(|directory| &directory.state),
        daemon,
        agent: agent(app, who.workspace, state).await?,
        conversation,
        ahead: ahead(app, who.workspace, state).await?,
        holder,
        last_output: last_output(app, state).await?,
        undelivered: undelivered(&loaded),
        retry: retry(app, who.workspace, state).await?,
        terms: terms(app),
        stalled: since.status.is_some_and(|at| app.now().duration_since(at) > stalled),
        since,
        names: &names,
    };
    let explained = explain(state, &facts);
    let verify = (!unreadable.is_empty()).then(|| "multica verify".to_owned());
    Ok(api::Explanation {
        task_id: id,
        name: state.name(),
        status: state.status().name().to_owned(),
        sentence: explained.sentence,
        since: explained.since,
        detail: detail
            .map(|text| last_lines(&text, app.limits.excerpt_lines, app.limits.excerpt_line_bytes).0),
        causes: explained.causes.into_iter().map(cause).chain(unreadable.iter().map(damaged)).collect(),
        ends_when: explained.ends_when,
        until: explained.until,
        advice: explained.advice,
        commands: possible(app, explained.commands).into_iter().chain(verify).collect(),
    })
}

/// The commands that help; as of a moment those that look, as of it too: what is over by now can't be acted on.
fn possible(app: &App, commands: Vec<String>) -> Vec<String> {
    let Some(then) = app.store.as_of() else { return commands };
    let looks = |command: &String| {
        ["explain", "history"].iter().any(|verb| command.starts_with(&format!("multica task {verb} ")))
    };
    let of_then = |command: String| format!("{command} --as-of {}", then.position);
    commands.into_iter().filter(looks).map(of_then).collect()
}

/// The explanation of a task whose own history can't be read: what is left is what the read models knew.
async fn of_damaged(
    app: &App,
    who: &Identity,
    id: TaskId,
    error: ApiError,
) -> Result<api::Explanation, ApiError> {
    let row = task_status::of(&app.store, &app.registry, id).await?;
    let Some(row) = row.filter(|row| row.workspace == who.workspace).map(|found| found.row) else {
        return Err(error);
    };
    let why = damage(app, id).await?.unwrap_or_else(|| "its history can't be read".to_owned());
    Ok(api::Explanation {
        task_id: id,
        status: row.status.name().to_owned(),
        sentence: format!("{} stands still: the log is damaged there", row.name),
        name: row.name,
        since: None,
        detail: None,
        causes: vec![api::Cause { sentence: why, since: None, link: None }],
        until: None,
        ends_when: Some("the log can be read there again: a newer build, or a backup".to_owned()),
        advice: Vec::new(),
        commands: vec!["multica verify".to_owned()],
    })
}

fn damaged(what: &&'static str) -> api::Cause {
    let sentence = format!("{what} can't be read: the log is damaged there");
    api::Cause { sentence, since: None, link: None }
}

/// Whether the log can't be read where it tells of the task's daemon.
async fn machine_is_damaged(app: &App, workspace: WorkspaceId, task: &Task) -> Result<bool, ApiError> {
    let stream = StreamKey::new(Family::Daemon, StreamId::of_daemon(workspace, &task.facts.daemon).0);
    let readings = read::stream_readings(&app.store, stream).await?;
    Ok(!readings.iter().all(Reading::is_known))
}

fn cause(cause: Cause) -> api::Cause {
    let link = cause.link.map(|link| Link { rel: link.rel.to_owned(), id: link.id, label: link.label });
    api::Cause { sentence: cause.sentence, since: cause.since, link }
}

async fn directory_of(
    app: &App,
    workspace: WorkspaceId,
    task: &Task,
) -> Result<Option<Loaded<Directory>>, ApiError> {
    let Some(id) = task.claim().and_then(|claim| claim.directory) else { return Ok(None) };
    load_one(app, workspace, directory::state::stream(id), directory::state::fold).await
}

/// When its agent last said something, while it is at work.
async fn last_output(app: &App, task: &Task) -> Result<Option<jiff::Timestamp>, ApiError> {
    let Phase::Running(claim) = &task.phase else { return Ok(None) };
    Ok(transcript::last_at(&app.store, task.id, claim.generation).await?)
}

/// What the directory's holder is at, when the task waits for another one.
async fn holder(
    app: &App,
    workspace: WorkspaceId,
    task: &Task,
    directory: Option<&Loaded<Directory>>,
) -> Result<Option<HolderFacts>, ApiError> {
    let held_by = directory.and_then(|directory| directory.state.holder.as_ref()).map(|held| held.who.task);
    let Some(id) = held_by.filter(|id| *id != task.id) else { return Ok(None) };
    let other = match self::task(app, workspace, id).await {
        Ok(loaded) => loaded.state,
        // What can't be read is named where it is asked for.
        Err(error) if error.is_damage() => return Ok(None),
        Err(error) => return Err(error),
    };
    let machine = daemon(app, workspace, &other.facts.daemon, other.facts.runtime).await?;
    let last_output = last_output(app, &other).await?;
    Ok(Some(HolderFacts { status: other.status(), last_output, daemon: other.facts.daemon, machine }))
}

/// Claims that went back because nobody confirmed them.
fn undelivered(task: &Loaded<Task>) -> u32 {
    let released = task
        .events
        .iter()
        .filter(|envelope| matches!(envelope.event, Event::Task(TaskEvent::ClaimReleased(_))));
    u32::try_from(released.count()).unwrap_or(u32::MAX)
}

/// Where the run in its stead stands.
async fn retry(app: &App, workspace: WorkspaceId, task: &Task) -> Result<Option<Status>, ApiError> {
    let Some(by) = task.retried_by else { return Ok(None) };
    let row = task_status::of(&app.store, &app.registry, by).await?;
    Ok(row.filter(|row| row.workspace == workspace).map(|found| found.row.status))
}

fn terms(app: &App) -> Terms {
    let span =
        |limit: Millis| jiff::SignedDuration::try_from(limit.duration()).unwrap_or(jiff::SignedDuration::MAX);
    Terms {
        queued: span(app.limits.queued_ttl),
        receipt: span(app.limits.claim_receipt),
        grace: span(app.limits.reconnect_grace),
        idle: span(app.limits.idle_watchdog),
    }
}

async fn daemon(
    app: &App,
    workspace: WorkspaceId,
    name: &str,
    runtime: RuntimeId,
) -> Result<DaemonFacts, ApiError> {
    let stream = StreamId::of_daemon(workspace, name);
    let slots_taken = match app.store.as_of() {
        None => reserved(app, &format!("daemon/{stream}/slot/")).await?,
        Some(_) => {
            let tasks = task_status::of_daemon(&app.store, &app.registry, workspace, name).await?;
            in_slots(&tasks)
        }
    };
    let slots = app.limits.daemon_slots;
    let Some(found) = runtime_presence::daemon(&app.store, &app.registry, workspace, name).await? else {
        return Ok(DaemonFacts { slots_taken, slots, ..DaemonFacts::default() });
    };
    let beats = heartbeat::of(&app.store, &[stream]).await?;
    let row = found.row;
    Ok(DaemonFacts {
        known: true,
        online: row.is_there(),
        runtime_online: row.runtimes.iter().any(|of| of.id == runtime && of.online),
        draining: row.draining,
        last_seen: beats.first().map(|beat| beat.last_seen),
        slots_taken,
        slots,
    })
}

async fn agent(app: &App, workspace: WorkspaceId, task: &Task) -> Result<AgentFacts, ApiError> {
    let id = task.facts.agent;
    let slots_taken = match app.store.as_of() {
        None => reserved(app, &format!("agent/{id}/slot/")).await?,
        Some(_) => in_slots(&claimed(app, workspace, id, None).await?),
    };
    let row = agent_roster::of(&app.store, &app.registry, workspace, id).await?;
    Ok(AgentFacts {
        archived: row.as_ref().is_some_and(|row| row.archived),
        slots_taken,
        slots: row.map_or(0, |row| row.max_concurrent_tasks),
    })
}

async fn reserved(app: &App, prefix: &str) -> Result<u32, ApiError> {
    let taken = reservations::with_prefix(&app.store, prefix).await?.len();
    Ok(u32::try_from(taken).unwrap_or(u32::MAX))
}

/// How many of these tasks have a slot: reservations aren't kept, but they follow from where tasks stand.
fn in_slots(tasks: &[Found<TaskRow>]) -> u32 {
    let with_slot =
        tasks.iter().filter(|task| matches!(task.row.status, Status::Dispatched | Status::Running)).count();
    u32::try_from(with_slot).unwrap_or(u32::MAX)
}

/// An agent's claimed tasks, of an issue if asked.
async fn claimed(
    app: &App,
    workspace: WorkspaceId,
    agent: AgentId,
    issue: Option<IssueId>,
) -> Result<Vec<Found<TaskRow>>, ApiError> {
    let claimed = [Status::Dispatched, Status::WaitingLocalDirectory, Status::Running];
    let wanted = task_status::Wanted {
        statuses: claimed.iter().map(|status| status.name().to_owned()).collect(),
        agent: Some(agent.0),
        issue: issue.map(|issue| issue.0),
        limit: i64::from(app.limits.list_most),
        ..task_status::Wanted::default()
    };
    Ok(task_status::list(&app.store, &app.registry, workspace, &wanted).await?)
}

async fn conversation(app: &App, workspace: WorkspaceId, task: &Task) -> Result<Option<TaskId>, ApiError> {
    if app.store.as_of().is_some() {
        let of_it = claimed(app, workspace, task.facts.agent, Some(task.facts.issue)).await?;
        return Ok(of_it.into_iter().map(|found| found.row.id).find(|holder| *holder != task.id));
    }
    let key = format!("conversation/{}/{}", task.facts.issue, task.facts.agent);
    let held = reservations::with_prefix(&app.store, &key).await?;
    Ok(held.values().map(|held| TaskId(held.holder)).find(|holder| *holder != task.id))
}

async fn ahead(app: &App, workspace: WorkspaceId, task: &Task) -> Result<u32, ApiError> {
    let runtimes = [task.facts.runtime];
    let waiting =
        task_status::candidates(&app.store, &app.registry, workspace, &runtimes, 1_000, &[]).await?;
    let before = waiting.iter().position(|waiting| *waiting == task.id).unwrap_or(0);
    Ok(u32::try_from(before).unwrap_or(u32::MAX))
}

fn since(task: &Loaded<Task>, directory: Option<&Loaded<Directory>>) -> Since {
    let status = task
        .events
        .iter()
        .rev()
        .find(|envelope| matches!(&envelope.event, Event::Task(event) if changes_status(event)))
        .and_then(|envelope| envelope.recorded_at);
    let holder = directory.and_then(|directory| {
        let holder = directory.state.holder.as_ref()?.who.task;
        directory
            .events
            .iter()
            .rev()
            .find(|envelope| {
                matches!(&envelope.event,
                    Event::Directory(directory::DirectoryEvent::Acquired(e)) if e.task == holder)
                    || matches!(&envelope.event,
                        Event::Directory(directory::DirectoryEvent::Promoted(e)) if e.task == holder)
            })
            .and_then(|envelope| envelope.recorded_at)
    });
    let told = |event: &Event| matches!(event, Event::Task(TaskEvent::CancelRequested(_)));
    let order = task.events.iter().rev().find(|envelope| told(&envelope.event));
    Since { status, holder, told_to_stop: order.and_then(|envelope| envelope.recorded_at) }
}

const fn changes_status(event: &TaskEvent) -> bool {
    matches!(
        event,
        TaskEvent::Queued(_)
            | TaskEvent::Claimed(_)
            | TaskEvent::ClaimReleased(_)
            | TaskEvent::Parked(_)
            | TaskEvent::Promoted(_)
            | TaskEvent::Started(_)
            | TaskEvent::Completed(_)
            | TaskEvent::Failed(_)
            | TaskEvent::Cancelled(_)
    )
}
