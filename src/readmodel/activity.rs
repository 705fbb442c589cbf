//! Events as people read them in the feed, with what they speak of.
//!
//! Invariants: one entry for each event, in order; names are those of now.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::found::{Found, several};
use super::{ReadModelError, Registry, access, agent_roster, runtime_presence, task_status};
use crate::domain::daemon::DaemonEvent;
use crate::domain::issue::IssueEvent;
use crate::domain::sentence::{self, Names};
use crate::domain::task::{TaskEvent, Trigger};
use crate::domain::{Actor, ActorKind, ContentRef, Envelope, Event, Family, StreamKey, Via, codec};
use crate::fold::directory_queue::{self, DirectoryRow};
use crate::fold::issue_board::{self, IssueRow};
use crate::fold::project_resources::{self, ProjectRow};
use crate::fold::task_status::TaskRow;
use crate::fold::webhooks::{self, WebhookRow};
use crate::kernel::ids::{
    AgentId, ContentId, DirectoryId, IssueId, ProjectId, RuntimeId, StreamId, TaskId, UserId, WebhookId,
    WorkspaceId,
};
use crate::kernel::text::ERASED;
use crate::store::raw::{RawEvent, Reading};
use crate::store::refused::Refused;
use crate::store::{Store, read};
use crate::wire::feed::{ActorName, Entry, Link, StreamName};

/// The events' entries. One that can't be read has an entry too, which says so.
///
/// # Errors
/// [`ReadModelError`].
pub async fn entries(
    store: &Store,
    registry: &Registry,
    readings: Vec<Reading>,
) -> Result<Vec<Entry>, ReadModelError> {
    told(store, registry, readings, true).await
}

/// [`entries`] that quote nothing: for what leaves the installation, where no erasure reaches it.
///
/// # Errors
/// [`ReadModelError`].
pub async fn entries_unquoted(
    store: &Store,
    registry: &Registry,
    readings: Vec<Reading>,
) -> Result<Vec<Entry>, ReadModelError> {
    told(store, registry, readings, false).await
}

async fn told(
    store: &Store,
    registry: &Registry,
    readings: Vec<Reading>,
    quoted: bool,
) -> Result<Vec<Entry>, ReadModelError> {
    if readings.is_empty() {
        return Ok(Vec::new());
    }
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    for reading in readings {
        match reading {
            Reading::Whole(event) => whole.push(*event),
            Reading::Damaged(row) => damaged.push(*row),
        }
    }
    let mut names = Called::load(store, registry, &whole, &[]).await?;
    if !quoted {
        names.contents.clear();
    }
    let mut entries: Vec<Entry> = whole.iter().map(|event| names.entry(event)).collect();
    if !damaged.is_empty() {
        entries.extend(damaged.into_iter().map(unreadable));
        // Stable: events of one position there are none, and the rest stays as it was told.
        entries.sort_by_key(|entry| entry.position);
    }
    Ok(entries)
}

/// What can be told of an event that can't be read: all that its row says beside the damage.
#[must_use]
pub fn unreadable(row: RawEvent) -> Entry {
    Entry {
        position: row.seq,
        text: "did something that can't be read: the log is damaged here, see `multica verify`".to_owned(),
        event_type: row.event_type,
        workspace: row.workspace.to_string(),
        stream: StreamName { kind: row.family, id: row.stream.to_string() },
        actor: ActorName {
            name: row.actor_type.clone(),
            kind: row.actor_type,
            id: row.actor_id,
            via: row.actor_via,
        },
        occurred_at: micros(Some(row.occurred_at)),
        recorded_at: micros(Some(row.recorded_at)),
        links: Vec::new(),
    }
}

/// What things are called.
#[derive(Default)]
pub struct Called {
    tasks: BTreeMap<TaskId, TaskRow>,
    issues: BTreeMap<IssueId, String>,
    agents: BTreeMap<AgentId, String>,
    projects: BTreeMap<ProjectId, String>,
    directories: BTreeMap<DirectoryId, String>,
    daemons: BTreeMap<String, String>,
    machines: BTreeMap<Uuid, String>,
    providers: BTreeMap<RuntimeId, String>,
    members: BTreeMap<UserId, String>,
    webhooks: BTreeMap<WebhookId, String>,
    contents: BTreeMap<ContentId, String>,
}

impl Names for Called {
    fn task(&self, id: TaskId) -> Option<String> {
        self.tasks.get(&id).map(|row| row.name.clone())
    }
    fn issue(&self, id: IssueId) -> Option<String> {
        self.issues.get(&id).cloned()
    }
    fn agent(&self, id: AgentId) -> Option<String> {
        self.agents.get(&id).cloned()
    }
    fn project(&self, id: ProjectId) -> Option<String> {
        self.projects.get(&id).cloned()
    }
    fn directory(&self, id: DirectoryId) -> Option<String> {
        self.directories.get(&id).cloned()
    }
    fn daemon(&self, id: &str) -> Option<String> {
        self.daemons.get(id).cloned()
    }
    fn member(&self, id: UserId) -> Option<String> {
        self.members.get(&id).cloned()
    }
    fn content(&self, id: ContentId) -> Option<String> {
        self.contents.get(&id).cloned()
    }
    fn machine(&self, stream: Uuid) -> Option<String> {
        self.machines.get(&stream).cloned()
    }
    fn webhook(&self, id: WebhookId) -> Option<String> {
        self.webhooks.get(&id).cloned()
    }
    fn provider(&self, runtime: RuntimeId) -> Option<String> {
        self.providers.get(&runtime).cloned()
    }
}

impl Called {
    /// Loads the names of all that the events speak of, and of what lies in further streams.
    ///
    /// # Errors
    /// [`ReadModelError`].
    pub async fn load(
        store: &Store,
        registry: &Registry,
        events: &[Envelope],
        further: &[StreamKey],
    ) -> Result<Self, ReadModelError> {
        let mut names = Self::default();
        let streams = events.iter().map(|event| event.stream).chain(further.iter().copied());
        let mut tasks: BTreeSet<TaskId> =
            streams.filter(|key| key.family == Family::Task).map(|key| TaskId(key.id)).collect();
        for event in events {
            tasks.extend(tasks_of(event));
        }
        for found in task_status::of_ids(store, registry, tasks).await? {
            names.tasks.insert(found.row.id, found.row);
        }
        names.load_work(store, registry, events, further).await?;
        let workspaces: BTreeSet<WorkspaceId> = events.iter().map(|event| event.workspace).collect();
        for workspace in workspaces {
            names.load_workspace(store, registry, workspace).await?;
        }
        let mut texts = Vec::new();
        for event in events {
            contents_of(event, &mut texts);
        }
        names.contents = read::contents(store, &texts).await?;
        Ok(names)
    }

    async fn load_work(
        &mut self,
        store: &Store,
        registry: &Registry,
        events: &[Envelope],
        further: &[StreamKey],
    ) -> Result<(), ReadModelError> {
        let of = |family: Family| {
            let streams = events.iter().map(|event| event.stream).chain(further.iter().copied());
            streams.filter(move |key| key.family == family).map(|key| key.id)
        };
        let mut issues: BTreeSet<IssueId> = of(Family::Issue).map(IssueId).collect();
        issues.extend(self.tasks.values().map(|task| task.issue));
        let mut directories: BTreeSet<DirectoryId> = of(Family::Directory).map(DirectoryId).collect();
        directories.extend(self.tasks.values().filter_map(|task| task.directory));
        directories.extend(events.iter().filter_map(directory_of));

        let keys: Vec<String> = issues.into_iter().map(issue_board::key).collect();
        let found: Vec<Found<IssueRow>> = several(store, registry.get("issue_board")?, &keys).await?;
        let mut projects: BTreeSet<ProjectId> = of(Family::Project).map(ProjectId).collect();
        projects.extend(found.iter().filter_map(|found| found.row.project));
        projects.extend(self.tasks.values().filter_map(|task| task.project));
        self.issues = found.into_iter().map(|found| (found.row.id, found.row.key)).collect();

        let keys: Vec<String> = directories.into_iter().map(directory_queue::key).collect();
        let found: Vec<Found<DirectoryRow>> = several(store, registry.get("directory_queue")?, &keys).await?;
        self.directories = found.into_iter().map(|found| (found.row.id, found.row.label)).collect();

        let keys: Vec<String> = of(Family::Webhook).map(|id| webhooks::key(WebhookId(id))).collect();
        let found: Vec<Found<WebhookRow>> = several(store, registry.get("webhooks")?, &keys).await?;
        self.webhooks = found.into_iter().map(|found| (found.row.id, found.row.name)).collect();

        let keys: Vec<String> = projects.into_iter().map(project_resources::key).collect();
        let found: Vec<Found<ProjectRow>> = several(store, registry.get("project_resources")?, &keys).await?;
        let titles: Vec<ContentId> = found.iter().map(|found| found.row.title.id).collect();
        let texts = read::contents(store, &titles).await?;
        self.projects = found
            .into_iter()
            .filter_map(|found| Some((found.row.id, texts.get(&found.row.title.id)?.clone())))
            .collect();
        Ok(())
    }

    /// Loads what people, agents and machines of a workspace are called.
    ///
    /// # Errors
    /// [`ReadModelError`].
    pub async fn load_workspace(
        &mut self,
        store: &Store,
        registry: &Registry,
        workspace: WorkspaceId,
    ) -> Result<(), ReadModelError> {
        let members = access::members(store, registry, workspace).await?;
        let ids: Vec<ContentId> = members.iter().map(|found| found.row.name.id).collect();
        let texts = read::contents(store, &ids).await?;
        self.members.extend(
            members
                .into_iter()
                .filter_map(|found| Some((found.row.user, texts.get(&found.row.name.id)?.clone()))),
        );
        let agents = agent_roster::of_workspace(store, registry, workspace, true).await?;
        self.agents.extend(agents.into_iter().map(|found| (found.row.id, found.row.name)));
        let daemons = runtime_presence::daemons(store, registry, workspace).await?;
        self.machines.extend(daemons.iter().map(|found| {
            (StreamId::of_daemon(workspace, &found.row.daemon).0, found.row.device_name.clone())
        }));
        let runtimes = daemons.iter().flat_map(|found| &found.row.runtimes);
        self.providers.extend(runtimes.map(|runtime| (runtime.id, runtime.provider.clone())));
        self.daemons.extend(daemons.into_iter().map(|found| (found.row.daemon, found.row.device_name)));
        Ok(())
    }

    /// An actor by its kind and what it is called; none for what isn't known.
    #[must_use]
    pub fn actor_called(&self, name: &str) -> Option<(ActorKind, String)> {
        // Whoever was erased is called like every other who was.
        let same = |called: &String| called.to_lowercase() == name.to_lowercase() && called != ERASED;
        let member = self.members.iter().find(|(_, called)| same(called));
        let agent = self.agents.iter().find(|(_, called)| same(called));
        let daemon = self.daemons.iter().find(|(_, called)| same(called));
        member
            .map(|(id, _)| (ActorKind::Member, id.to_string()))
            .or_else(|| agent.map(|(id, _)| (ActorKind::Agent, id.to_string())))
            .or_else(|| daemon.map(|(id, _)| (ActorKind::Daemon, id.clone())))
    }

    /// The short texts that an event refers to.
    pub fn texts(&self, event: &Envelope) -> impl Iterator<Item = &str> {
        let mut ids = Vec::new();
        contents_of(event, &mut ids);
        ids.into_iter().filter_map(|id| self.contents.get(&id).map(String::as_str))
    }

    fn actor(&self, actor: &Actor) -> ActorName {
        ActorName {
            kind: kind(actor.kind).to_owned(),
            id: actor.id.clone(),
            name: sentence::actor_name(actor, self),
            via: via(actor.via).to_owned(),
        }
    }

    /// A refused command as an entry: its type is what was asked for, its position the head then.
    #[must_use]
    pub fn refused(&self, workspace: WorkspaceId, refused: &Refused) -> Entry {
        let about = &refused.about;
        let sentence = sentence::refused(&refused.actor, &refused.kind, about, &refused.refusal, self);
        let stream = sentence::subject(&refused.kind, about).or_else(|| about.first().copied());
        let at = micros(Some(refused.recorded_at));
        Entry {
            position: refused.position,
            text: sentence.text,
            event_type: refused.kind.clone(),
            workspace: workspace.to_string(),
            stream: StreamName {
                kind: stream.map(|key| key.family.name().to_owned()).unwrap_or_default(),
                id: stream.map(|key| key.id.to_string()).unwrap_or_default(),
            },
            actor: self.actor(&refused.actor),
            occurred_at: at.clone(),
            recorded_at: at,
            links: linked(sentence.links),
        }
    }

    /// An event as an entry.
    #[must_use]
    pub fn entry(&self, event: &Envelope) -> Entry {
        let sentence = sentence::render(event, self);
        let event_type =
            codec::event_type(&event.event).unwrap_or_else(|_| event.stream.family.name().to_owned());
        let mut links = linked(sentence.links);
        self.further_links(event, &mut links);
        Entry {
            position: event.position.unwrap_or_default(),
            text: sentence.text,
            event_type,
            workspace: event.workspace.to_string(),
            stream: StreamName {
                kind: event.stream.family.name().to_owned(),
                id: event.stream.id.to_string(),
            },
            actor: self.actor(&event.actor),
            occurred_at: micros(Some(event.occurred_at)),
            recorded_at: micros(event.recorded_at),
            links,
        }
    }

    /// What the sentence doesn't name but a filter asks for.
    fn further_links(&self, event: &Envelope, links: &mut Vec<Link>) {
        let mut add = |rel: &str, id: String, label: Option<String>| {
            if !links.iter().any(|link| link.rel == rel && link.id == id) {
                links.push(Link { rel: rel.to_owned(), id, label: label.unwrap_or_default() });
            }
        };
        if let Some(directory) = directory_of(event) {
            add("directory", directory.to_string(), self.directory(directory));
        }
        let Some(task) = task_of(event) else { return };
        add("task", task.to_string(), self.task(task));
        let Some(row) = self.tasks.get(&task) else { return };
        add("issue", row.issue.to_string(), Some(row.issue_key.clone()));
        add("agent", row.agent.to_string(), Some(row.agent_name.clone()));
        if let Some(project) = row.project {
            add("project", project.to_string(), self.project(project));
        }
    }
}

fn linked(links: Vec<sentence::Link>) -> Vec<Link> {
    links.into_iter().map(|link| Link { rel: link.rel.to_owned(), id: link.id, label: link.label }).collect()
}

fn micros(at: Option<jiff::Timestamp>) -> String {
    at.map(|at| at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()).unwrap_or_default()
}

const fn kind(kind: ActorKind) -> &'static str {
    match kind {
        ActorKind::Member => "member",
        ActorKind::Agent => "agent",
        ActorKind::Daemon => "daemon",
        ActorKind::System => "system",
    }
}

/// Every task that an event names.
fn tasks_of(event: &Envelope) -> Vec<TaskId> {
    let mut tasks: Vec<TaskId> = task_of(event).into_iter().collect();
    match &event.event {
        Event::Task(TaskEvent::Queued(e)) => match &e.trigger {
            Trigger::Rerun { of } | Trigger::Retry { of, .. } => tasks.push(*of),
            Trigger::Assignment | Trigger::Comment { .. } => {}
        },
        Event::Task(TaskEvent::Parked(e)) => tasks.extend(e.holder),
        Event::Task(TaskEvent::Retried(e)) => tasks.push(e.by),
        Event::Directory(e) => tasks.extend(e.tasks()),
        _ => {}
    }
    tasks
}

/// Short texts that an event refers to.
fn contents_of(event: &Envelope, into: &mut Vec<ContentId>) {
    let Ok(encoded) = codec::encode(&event.event) else { return };
    let Ok(data) = serde_json::from_str::<serde_json::Value>(&encoded.data) else { return };
    let Some(members) = data.as_object() else { return };
    for value in members.values() {
        if let Ok(reference) = serde_json::from_value::<ContentRef>(value.clone())
            && reference.bytes <= sentence::QUOTED_BYTES
        {
            into.push(reference.id);
        }
    }
}

const fn via(via: Via) -> &'static str {
    match via {
        Via::Cli => "cli",
        Via::Web => "web",
        Via::Api => "api",
        Via::Daemon => "daemon",
        Via::Policy => "policy",
        Via::Up => "up",
    }
}

/// Whether an event is about that task.
#[must_use]
pub fn concerns(event: &Envelope, task: TaskId) -> bool {
    task_of(event) == Some(task)
}

/// Whether a daemon's event says that it went away, came back or takes nothing more: what a task on that
/// runtime waits for or is lost by.
#[must_use]
pub fn is_presence(event: &Envelope, runtime: RuntimeId) -> bool {
    match &event.event {
        Event::Daemon(DaemonEvent::RuntimeWentOffline(e) | DaemonEvent::RuntimeCameBack(e)) => {
            e.runtime == runtime
        }
        Event::Daemon(event) => matches!(
            event,
            DaemonEvent::Registered(_)
                | DaemonEvent::DeclaredDead(_)
                | DaemonEvent::DrainStarted(_)
                | DaemonEvent::Deregistered(_)
        ),
        _ => false,
    }
}

/// The task that an event is about.
fn task_of(event: &Envelope) -> Option<TaskId> {
    match &event.event {
        Event::Task(_) => Some(TaskId(event.stream.id)),
        Event::Directory(e) => Some(e.task()),
        Event::Issue(IssueEvent::Commented(e)) => e.task,
        Event::Issue(IssueEvent::StatusChanged(e)) => e.because_of,
        _ => None,
    }
}

fn directory_of(event: &Envelope) -> Option<DirectoryId> {
    match &event.event {
        Event::Directory(_) => Some(DirectoryId(event.stream.id)),
        Event::Task(TaskEvent::DirectoryEntered(e)) => Some(e.directory),
        Event::Task(TaskEvent::Parked(e)) => Some(e.directory),
        Event::Task(TaskEvent::Promoted(e)) => Some(e.directory),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::directory::{DirectoryEvent, LockBlocked, LockingRun};
    use crate::domain::schemas::samples;
    use crate::domain::spec::{envelope, id};

    /// Else its sentence calls it by the end of its id.
    #[test]
    fn each_task_that_a_sentence_names_is_among_those_whose_names_are_loaded() {
        let by_ours = DirectoryEvent::LockBlocked(LockBlocked {
            task: TaskId(id(1)),
            pid: None,
            program: None,
            run: Some(LockingRun::Task { task: TaskId(id(4)) }),
        });
        for event in samples().into_iter().chain([by_ours.into()]) {
            let stream = StreamKey::new(event.family(), id(1));
            let event = envelope(1, stream, 1, event);
            let loaded = tasks_of(&event);
            let links = sentence::render(&event, &sentence::NoNames).links;
            for named in links.iter().filter(|link| link.rel == "task") {
                assert!(loaded.iter().any(|task| task.to_string() == named.id), "{named:?} of {event:?}");
            }
        }
    }
}
