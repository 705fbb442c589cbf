//! Events as people read them in the feed, with what they speak of.
//!
//! Invariants: one entry for each event, in order; names are those of now.

use std::collections::{BTreeMap, BTreeSet};

use super::found::{Found, several};
use super::{ReadModelError, Registry, access, task_status};
use crate::domain::directory::DirectoryEvent;
use crate::domain::issue::IssueEvent;
use crate::domain::task::TaskEvent;
use crate::domain::{Actor, ActorKind, Envelope, Event, Family, Via, codec};
use crate::fold::access::MemberRow;
use crate::fold::agent_roster::{self, AgentRow};
use crate::fold::directory_queue::{self, DirectoryRow};
use crate::fold::issue_board::{self, IssueRow};
use crate::fold::project_resources::{self, ProjectRow};
use crate::fold::runtime_presence::{self, DaemonRow};
use crate::fold::task_status::TaskRow;
use crate::kernel::ids::{AgentId, ContentId, DirectoryId, IssueId, ProjectId, StreamId, TaskId, UserId};
use crate::store::{Store, read};
use crate::wire::feed::{ActorName, Entry, Link, StreamName};

/// The events' entries.
///
/// # Errors
/// [`ReadModelError`].
pub async fn entries(
    store: &Store,
    registry: &Registry,
    events: &[Envelope],
) -> Result<Vec<Entry>, ReadModelError> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let names = Names::load(store, registry, events).await?;
    Ok(events.iter().map(|event| names.entry(event)).collect())
}

/// What things are called.
#[derive(Default)]
struct Names {
    tasks: BTreeMap<TaskId, TaskRow>,
    issues: BTreeMap<IssueId, String>,
    agents: BTreeMap<AgentId, String>,
    projects: BTreeMap<ProjectId, String>,
    directories: BTreeMap<DirectoryId, String>,
    daemons: BTreeMap<StreamId, (String, String)>,
    members: BTreeMap<String, String>,
}

impl Names {
    async fn load(store: &Store, registry: &Registry, events: &[Envelope]) -> Result<Self, ReadModelError> {
        let mut names = Self::default();
        let tasks: BTreeSet<TaskId> = events.iter().filter_map(task_of).collect();
        for found in task_status::of_ids(store, registry, tasks).await? {
            names.tasks.insert(found.row.id, found.row);
        }
        names.load_things(store, registry, events).await?;
        names.load_members(store, registry, events).await?;
        Ok(names)
    }

    async fn load_things(
        &mut self,
        store: &Store,
        registry: &Registry,
        events: &[Envelope],
    ) -> Result<(), ReadModelError> {
        let of = |family: Family| {
            events.iter().filter(move |event| event.stream.family == family).map(|event| event.stream.id)
        };
        let mut issues: BTreeSet<IssueId> = of(Family::Issue).map(IssueId).collect();
        issues.extend(self.tasks.values().map(|task| task.issue));
        let mut agents: BTreeSet<AgentId> = of(Family::Agent).map(AgentId).collect();
        agents.extend(self.tasks.values().map(|task| task.agent));
        agents.extend(
            events
                .iter()
                .filter(|event| event.actor.kind == ActorKind::Agent)
                .filter_map(|event| event.actor.id.parse::<AgentId>().ok()),
        );
        let mut directories: BTreeSet<DirectoryId> = of(Family::Directory).map(DirectoryId).collect();
        directories.extend(self.tasks.values().filter_map(|task| task.directory));
        let daemons: BTreeSet<StreamId> = of(Family::Daemon).map(StreamId).collect();

        let keys: Vec<String> = issues.into_iter().map(issue_board::key).collect();
        let found: Vec<Found<IssueRow>> = several(store, registry.get("issue_board")?, &keys).await?;
        let mut projects: BTreeSet<ProjectId> = of(Family::Project).map(ProjectId).collect();
        projects.extend(found.iter().filter_map(|found| found.row.project));
        projects.extend(self.tasks.values().filter_map(|task| task.project));
        self.issues = found.into_iter().map(|found| (found.row.id, found.row.key)).collect();

        let keys: Vec<String> = agents.into_iter().map(agent_roster::key).collect();
        let found: Vec<Found<AgentRow>> = several(store, registry.get("agent_roster")?, &keys).await?;
        self.agents = found.into_iter().map(|found| (found.row.id, found.row.name)).collect();

        let keys: Vec<String> = directories.into_iter().map(directory_queue::key).collect();
        let found: Vec<Found<DirectoryRow>> = several(store, registry.get("directory_queue")?, &keys).await?;
        self.directories = found.into_iter().map(|found| (found.row.id, found.row.label)).collect();

        let keys: Vec<String> = daemons.into_iter().map(runtime_presence::key).collect();
        let found: Vec<Found<DaemonRow>> = several(store, registry.get("runtime_presence")?, &keys).await?;
        self.daemons = found
            .into_iter()
            .map(|found| (found.row.id, (found.row.daemon, found.row.device_name)))
            .collect();

        let keys: Vec<String> = projects.into_iter().map(project_resources::key).collect();
        let found: Vec<Found<ProjectRow>> = several(store, registry.get("project_resources")?, &keys).await?;
        let titles: Vec<ContentId> = found.iter().map(|found| found.row.title.id).collect();
        let texts = read::contents(store, &titles).await?;
        self.projects = found
            .into_iter()
            .map(|found| (found.row.id, texts.get(&found.row.title.id).cloned().unwrap_or_default()))
            .collect();
        Ok(())
    }

    async fn load_members(
        &mut self,
        store: &Store,
        registry: &Registry,
        events: &[Envelope],
    ) -> Result<(), ReadModelError> {
        let mut wanted = BTreeSet::new();
        for event in events.iter().filter(|event| event.actor.kind == ActorKind::Member) {
            if let Ok(user) = event.actor.id.parse::<UserId>() {
                wanted.insert((event.workspace, user));
            }
        }
        let mut found: Vec<Found<MemberRow>> = Vec::new();
        for (workspace, user) in wanted {
            found.extend(access::member(store, registry, workspace, user).await?);
        }
        let ids: Vec<ContentId> = found.iter().map(|found| found.row.name.id).collect();
        let texts = read::contents(store, &ids).await?;
        self.members = found
            .into_iter()
            .map(|found| {
                let name = texts.get(&found.row.name.id).cloned().unwrap_or_default();
                (found.row.user.to_string(), name)
            })
            .collect();
        Ok(())
    }

    fn entry(&self, event: &Envelope) -> Entry {
        let event_type =
            codec::event_type(&event.event).unwrap_or_else(|_| event.stream.family.name().to_owned());
        Entry {
            position: event.position.unwrap_or_default(),
            text: self.text(event, &event_type),
            event_type,
            workspace: event.workspace.to_string(),
            stream: StreamName {
                kind: event.stream.family.name().to_owned(),
                id: event.stream.id.to_string(),
            },
            actor: self.actor(&event.actor),
            occurred_at: event.occurred_at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            recorded_at: event
                .recorded_at
                .map(|at| at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
                .unwrap_or_default(),
            links: self.links(event),
        }
    }

    fn text(&self, event: &Envelope, event_type: &str) -> String {
        let name = event_type.split_once('.').map_or(event_type, |(_, name)| name).replace('_', " ");
        let subject = self.links(event).first().map(|link| link.label.clone()).unwrap_or_default();
        format!("{} {subject}: {name}", event.stream.family.name())
    }

    fn actor(&self, actor: &Actor) -> ActorName {
        let (kind, name) = match actor.kind {
            ActorKind::Member => ("member", self.members.get(&actor.id).cloned()),
            ActorKind::Agent => {
                ("agent", actor.id.parse::<AgentId>().ok().and_then(|id| self.agents.get(&id).cloned()))
            }
            ActorKind::Daemon => ("daemon", None),
            ActorKind::System => ("system", None),
        };
        ActorName {
            kind: kind.to_owned(),
            id: actor.id.clone(),
            name: name.filter(|name| !name.is_empty()).unwrap_or_else(|| actor.id.clone()),
            via: via(actor.via).to_owned(),
        }
    }

    fn links(&self, event: &Envelope) -> Vec<Link> {
        let mut links = Vec::new();
        let mut link = |rel: &str, id: String, label: Option<&String>| {
            let label = label.cloned().unwrap_or_default();
            links.push(Link { rel: rel.to_owned(), id, label });
        };
        let id = event.stream.id;
        match event.stream.family {
            Family::Issue => link("issue", id.to_string(), self.issues.get(&IssueId(id))),
            Family::Agent => link("agent", id.to_string(), self.agents.get(&AgentId(id))),
            Family::Project => link("project", id.to_string(), self.projects.get(&ProjectId(id))),
            Family::Directory => link("directory", id.to_string(), self.directories.get(&DirectoryId(id))),
            Family::Daemon => {
                if let Some((daemon, device)) = self.daemons.get(&StreamId(id)) {
                    link("daemon", daemon.clone(), Some(device));
                }
            }
            Family::Task | Family::Workspace | Family::Operation => {}
        }
        let Some(task) = task_of(event) else { return links };
        let Some(row) = self.tasks.get(&task) else {
            link("task", task.to_string(), None);
            return links;
        };
        link("task", task.to_string(), Some(&row.name));
        if event.stream.family != Family::Issue {
            link("issue", row.issue.to_string(), Some(&row.issue_key));
        }
        link("agent", row.agent.to_string(), Some(&row.agent_name));
        if let Some(project) = row.project {
            link("project", project.to_string(), self.projects.get(&project));
        }
        if event.stream.family != Family::Directory
            && let Some(directory) = directory_of(event)
        {
            link("directory", directory.to_string(), self.directories.get(&directory));
        }
        links
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

/// The task that an event is about.
fn task_of(event: &Envelope) -> Option<TaskId> {
    match &event.event {
        Event::Task(_) => Some(TaskId(event.stream.id)),
        Event::Directory(e) => Some(match e {
            DirectoryEvent::Acquired(e) => e.task,
            DirectoryEvent::Queued(e) => e.task,
            DirectoryEvent::Promoted(e) => e.task,
            DirectoryEvent::LeftQueue(e) => e.task,
            DirectoryEvent::LockBlocked(e) => e.task,
            DirectoryEvent::LockTaken(e) => e.task,
            DirectoryEvent::Released(e) => e.task,
            DirectoryEvent::HolderLost(e) => e.task,
        }),
        Event::Issue(IssueEvent::Commented(e)) => e.task,
        Event::Issue(IssueEvent::StatusChanged(e)) => e.because_of,
        _ => None,
    }
}

fn directory_of(event: &Envelope) -> Option<DirectoryId> {
    match &event.event {
        Event::Task(TaskEvent::DirectoryEntered(e)) => Some(e.directory),
        Event::Task(TaskEvent::Parked(e)) => Some(e.directory),
        Event::Task(TaskEvent::Promoted(e)) => Some(e.directory),
        _ => None,
    }
}
