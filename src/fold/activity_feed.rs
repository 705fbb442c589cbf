//! Read model `activity_feed`: one row for each event, with what the feed filters by.
//!
//! Rows: `event/<position, 19 digits>`, an [`EntryRow`]; `subject/<stream id>`, a [`SubjectRow`] that knows
//! what a task or an issue belongs to. The sentence is made when it is read (`domain/sentence`), from the
//! event in the log: an erased text is gone from it at once.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{FoldError, Mode, ReadModel, Rows};
use crate::domain::daemon::DaemonEvent;
use crate::domain::issue::{Assignee, Author, IssueEvent};
use crate::domain::task::TaskEvent;
use crate::domain::{Actor, ActorKind, Envelope, Event, Family, codec};
use crate::kernel::ids::{AgentId, DirectoryId, IssueId, ProjectId, TaskId};

const NAME: &str = "activity_feed";

/// See the module.
pub struct ActivityFeed;

/// What an event is about: the columns to filter by.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SubjectRow {
    /// The task.
    pub task: Option<TaskId>,
    /// The issue.
    pub issue: Option<IssueId>,
    /// The agent.
    pub agent: Option<AgentId>,
    /// The project.
    pub project: Option<ProjectId>,
    /// The directory.
    pub directory: Option<DirectoryId>,
    /// The daemon's own id.
    pub daemon: Option<String>,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryRow {
    /// The log's position.
    pub event_position: i64,
    /// `<family>.<name>`.
    pub event_type: String,
    /// The stream's family.
    pub family: Family,
    /// The stream.
    pub stream: Uuid,
    /// Who did it.
    pub actor: Actor,
    /// What it is about.
    pub subject: SubjectRow,
}

/// The key of an event's row; keys order as positions do.
#[must_use]
pub fn key(position: i64) -> String {
    format!("event/{position:019}")
}

fn subject_key(stream: Uuid) -> String {
    format!("subject/{stream}")
}

/// The keys of the subjects that an event's own subject is made from.
pub(super) fn subject_keys(event: &Envelope) -> Vec<String> {
    let mut keys = vec![subject_key(event.stream.id)];
    if let Event::Directory(happened) = &event.event {
        keys.push(subject_key(happened.task().0));
    }
    keys
}

impl ReadModel for ActivityFeed {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> u32 {
        1
    }

    fn mode(&self) -> Mode {
        Mode::Follower
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        let mut keys = vec![key(event.position.unwrap_or_default())];
        keys.extend(subject_keys(event));
        keys
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let key = key(event.position.unwrap_or_default());
        let poison = |reason: String| FoldError { read_model: NAME, key: key.clone(), reason };
        let position = event.position.ok_or_else(|| poison("the event has no position".to_owned()))?;
        let event_type = codec::event_type(&event.event).map_err(|error| poison(error.to_string()))?;
        let subject = subject(NAME, rows, event)?;
        let entry = EntryRow {
            event_position: position,
            event_type,
            family: event.stream.family,
            stream: event.stream.id,
            actor: event.actor.clone(),
            subject,
        };
        rows.put(&key, event.workspace, entry);
        Ok(())
    }
}

/// What an event is about; remembers what later events of its stream are about.
pub(super) fn subject(
    read_model: &'static str,
    rows: &mut Rows,
    event: &Envelope,
) -> Result<SubjectRow, FoldError> {
    let own = subject_key(event.stream.id);
    let known: Option<SubjectRow> = rows.get(read_model, &own)?;
    let mut subject = known.clone().unwrap_or_default();
    match &event.event {
        Event::Operation(_) | Event::Workspace(_) | Event::Webhook(_) | Event::Unknown(_) => {}
        Event::Project(_) => subject.project = Some(ProjectId(event.stream.id)),
        Event::Issue(e) => of_issue(&mut subject, IssueId(event.stream.id), e),
        Event::Agent(_) => subject.agent = Some(AgentId(event.stream.id)),
        Event::Daemon(DaemonEvent::Registered(e)) => subject.daemon = Some(e.daemon.clone()),
        Event::Daemon(_) => {}
        Event::Task(e) => of_task(&mut subject, TaskId(event.stream.id), e),
        Event::Directory(e) => {
            subject = rows.get(read_model, &subject_key(e.task().0))?.unwrap_or_default();
            subject.directory = Some(DirectoryId(event.stream.id));
        }
    }
    let remembered = matches!(event.event, Event::Issue(_) | Event::Daemon(_) | Event::Task(_));
    if remembered && known.as_ref() != Some(&subject) {
        rows.put(&own, event.workspace, subject.clone());
    }
    Ok(with_actor(subject, event))
}

/// What an agent does in a task of its own is about that agent too.
fn with_actor(mut subject: SubjectRow, event: &Envelope) -> SubjectRow {
    if let Event::Issue(happened) = &event.event {
        subject.agent = match happened {
            IssueEvent::Assigned(e) => agent_of(e.assignee),
            IssueEvent::Created(e) => agent_of(e.assignee),
            IssueEvent::Commented(e) => match e.author {
                Author::Agent(agent) => Some(agent),
                Author::Member(_) => None,
            },
            IssueEvent::Updated(_) | IssueEvent::StatusChanged(_) => None,
        };
        subject.task = match happened {
            IssueEvent::Commented(e) => e.task,
            IssueEvent::StatusChanged(e) => e.because_of,
            IssueEvent::Created(_) | IssueEvent::Updated(_) | IssueEvent::Assigned(_) => None,
        };
    }
    if subject.agent.is_none() && event.actor.kind == ActorKind::Agent {
        subject.agent = event.actor.id.parse().ok();
    }
    subject
}

fn agent_of(assignee: Option<Assignee>) -> Option<AgentId> {
    match assignee {
        Some(Assignee::Agent(agent)) => Some(agent),
        Some(Assignee::Member(_)) | None => None,
    }
}

fn of_issue(subject: &mut SubjectRow, issue: IssueId, event: &IssueEvent) {
    subject.issue = Some(issue);
    match event {
        IssueEvent::Created(e) => subject.project = e.project,
        IssueEvent::Updated(e) => subject.project = e.project.or(subject.project),
        IssueEvent::Assigned(_) | IssueEvent::StatusChanged(_) | IssueEvent::Commented(_) => {}
    }
}

fn of_task(subject: &mut SubjectRow, task: TaskId, event: &TaskEvent) {
    match event {
        TaskEvent::Queued(e) => {
            subject.task = Some(task);
            subject.issue = Some(e.issue);
            subject.agent = Some(e.agent);
            subject.project = e.project;
            subject.daemon = Some(e.daemon.clone());
        }
        TaskEvent::Claimed(e) => subject.daemon = Some(e.daemon.clone()),
        TaskEvent::DirectoryEntered(e) => subject.directory = Some(e.directory),
        TaskEvent::Parked(e) => subject.directory = Some(e.directory),
        TaskEvent::Promoted(e) => subject.directory = Some(e.directory),
        _ => {}
    }
}
