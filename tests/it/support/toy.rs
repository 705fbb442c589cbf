//! Read models and decisions that are no more than the tests need.

use std::collections::BTreeMap;

use multica::app::decision::{Decided, Decision, Halt, NewEvent, Submission, View};
use multica::app::operation_write::OperationWrite;
use multica::domain::operation::{Erased, ErasedOf, OperationCommand};
use multica::domain::project::event::{Created, Deleted, ProjectEvent, Updated};
use multica::domain::{Actor, ActorKind, Envelope, Event, Family, NewContent, Refusal, StreamKey, Via};
use multica::fold::history::History;
use multica::fold::{FoldError, Mode, ReadModel, Rows};
use multica::kernel::ids::{CommandId, ContentId, CorrelationId, EventId, UserId, WorkspaceId};
use multica::readmodel::{Registry, Sql, history};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// Projects with the number of their changes, and per workspace how many there are.
pub struct Projects {
    pub version: u32,
}

#[derive(Clone, Serialize, Deserialize)]
struct ProjectRow {
    status: String,
    changes: u32,
    changed_at: Value,
}

#[derive(Clone, Serialize, Deserialize)]
struct CountRow {
    projects: u32,
}

impl ReadModel for Projects {
    fn name(&self) -> &'static str {
        "toy_projects"
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn mode(&self) -> Mode {
        Mode::Inline
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        match &event.event {
            Event::Project(_) => vec![event.stream.id.to_string(), format!("count/{}", event.workspace)],
            _ => Vec::new(),
        }
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let key = event.stream.id.to_string();
        let count_key = format!("count/{}", event.workspace);
        let mut count: CountRow = rows.get(self.name(), &count_key)?.unwrap_or(CountRow { projects: 0 });
        match &event.event {
            Event::Project(ProjectEvent::Created(created)) => {
                count.projects += 1;
                let row =
                    ProjectRow { status: created.status.clone(), changes: 1, changed_at: rows.recorded_at() };
                rows.put(&key, event.workspace, row);
                rows.put(&count_key, event.workspace, count);
                Ok(())
            }
            Event::Project(ProjectEvent::Deleted(_)) => {
                // One can be deleted again: there is no rule against it here.
                count.projects -= u32::from(rows.get::<ProjectRow>(self.name(), &key)?.is_some());
                rows.remove(&key);
                rows.put(&count_key, event.workspace, count);
                Ok(())
            }
            Event::Project(ProjectEvent::Updated(updated)) => {
                let Some(mut row) = rows.get::<ProjectRow>(self.name(), &key)? else { return Ok(()) };
                row.status = updated.status.clone().unwrap_or(row.status);
                row.changes += 1;
                row.changed_at = rows.recorded_at();
                rows.put(&key, event.workspace, row);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Every event by its position; chokes on a status called poison.
pub struct Feed;

impl ReadModel for Feed {
    fn name(&self) -> &'static str {
        "toy_feed"
    }

    fn version(&self) -> u32 {
        1
    }

    fn mode(&self) -> Mode {
        Mode::Follower
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        event.position.map(|position| format!("{position:012}")).into_iter().collect()
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let key = format!("{:012}", event.position.unwrap_or_default());
        if let Event::Project(ProjectEvent::Updated(Updated { status: Some(status), .. })) = &event.event
            && status == "poison"
        {
            return Err(FoldError { read_model: self.name(), key, reason: "poison".to_owned() });
        }
        let row = json!({ "stream": event.stream.id, "version": event.version });
        rows.put(&key, event.workspace, row);
        Ok(())
    }
}

pub fn registry() -> Registry {
    registry_of(1)
}

pub fn registry_of(version: u32) -> Registry {
    Registry::with_sql(vec![(Box::new(Projects { version }), Sql::plain()), (Box::new(Feed), Sql::plain())])
        .unwrap()
}

/// The same with the history of the projects.
pub fn registry_with_history() -> Registry {
    let history = History::new("toy_projects_history", Box::new(Projects { version: 1 }));
    let of_history = history::made_from("toy_projects", &Sql::plain()).unwrap();
    Registry::with_sql(vec![
        (Box::new(Projects { version: 1 }), Sql::plain()),
        (Box::new(Feed), Sql::plain()),
        (Box::new(history), of_history),
    ])
    .unwrap()
}

/// Creates a project; refused when it is there.
pub struct Create {
    pub project: Uuid,
    pub title: String,
}

impl Decision for Create {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let stream = StreamKey::new(Family::Project, self.project);
        if !view.stream(stream)?.is_empty() {
            return Err(Refusal::conflict("exists", "It is there.", "Take another id.").into());
        }
        let title = NewContent::new(ContentId(self.project), [7; 32], self.title.clone());
        let created = Created {
            title: title.reference.clone(),
            description: None,
            status: "planned".to_owned(),
            priority: "none".to_owned(),
        };
        Ok(Decided {
            events: vec![NewEvent::new(stream, ProjectEvent::Created(created))],
            contents: vec![title],
            result: json!({ "project": self.project }),
        })
    }
}

/// Sets a project's status; nothing happens where it has it; answers how many changes it has seen.
pub struct SetStatus {
    pub project: Uuid,
    pub status: String,
}

impl Decision for SetStatus {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let stream = StreamKey::new(Family::Project, self.project);
        let events = view.stream(stream)?;
        if events.is_empty() {
            return Err(Refusal::not_found("project").into());
        }
        let updated =
            Updated { title: None, description: None, status: Some(self.status.clone()), priority: None };
        let event = ProjectEvent::Updated(updated);
        if events.last().is_some_and(|last| last.event == Event::Project(event.clone())) {
            return Ok(Decided { result: json!("as it was"), ..Decided::default() });
        }
        let result = json!(events.len() + 1);
        Ok(Decided { events: vec![NewEvent::new(stream, event)], result, ..Decided::default() })
    }
}

/// Deletes a project.
pub struct Delete {
    pub project: Uuid,
}

impl Decision for Delete {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let stream = StreamKey::new(Family::Project, self.project);
        if view.stream(stream)?.is_empty() {
            return Err(Refusal::not_found("project").into());
        }
        let event = NewEvent::new(stream, ProjectEvent::Deleted(Deleted {}));
        Ok(Decided { events: vec![event], ..Decided::default() })
    }
}

pub const WORKSPACE: WorkspaceId = WorkspaceId(Uuid::from_u128(0xabc));

pub fn actor() -> Actor {
    Actor { kind: ActorKind::Member, id: "somebody".to_owned(), via: Via::Api }
}

/// Erases texts of the toys' workspace.
pub fn erase(contents: Vec<ContentId>) -> Submission {
    let of = ErasedOf::Person(UserId(Uuid::now_v7()));
    let erased = Erased { of, contents, kinds: BTreeMap::new(), transcripts: Vec::new() };
    command(OperationWrite { workspace: WORKSPACE, command: OperationCommand::Erase(erased) })
}

/// A command with an id of its own.
pub fn command(decision: impl Decision) -> Submission {
    command_as(CommandId(Uuid::now_v7()), [1; 16], decision)
}

pub fn command_as(id: CommandId, fingerprint: [u8; 16], decision: impl Decision) -> Submission {
    Submission {
        command_id: id,
        event_seed: EventId(Uuid::now_v7()),
        kind: "toy",
        workspace: WORKSPACE,
        fingerprint,
        actor: actor(),
        correlation: CorrelationId(Uuid::now_v7()),
        causation: None,
        occurred_at: jiff::Timestamp::now(),
        decision: Box::new(decision),
    }
}

pub fn create() -> Submission {
    command(Create { project: Uuid::now_v7(), title: "a title".to_owned() })
}
