//! Which texts an event refers to, what they are and whose: what an erasure takes away is decided here.
//!
//! Invariants: every text of every event that this build knows is named; one that nobody is named for belongs to
//! the workspace and is taken by no erasure.
//!
//! Not here: where texts lie (`store`), who may have them erased (`http`).

use super::agent::AgentEvent;
use super::issue::{Author, IssueEvent};
use super::project::ProjectEvent;
use super::task::TaskEvent;
use super::workspace::WorkspaceEvent;
use super::{ActorKind, ContentRef, Envelope, Event};
use crate::kernel::ids::{TaskId, UserId};

/// Whose a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Whose {
    /// A person's: what they are called, or what they wrote.
    Person(UserId),
    /// A run's: what its agent said.
    Task(TaskId),
    /// Nobody's in particular.
    Workspace,
}

/// One text of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text<'a> {
    /// What it is, as people count it: `issue title`.
    pub kind: &'static str,
    /// Whose it is.
    pub whose: Whose,
    /// Where it lies.
    pub reference: &'a ContentRef,
}

/// Every text that an event refers to.
#[must_use]
pub fn of<'e>(envelope: &'e Envelope) -> Vec<Text<'e>> {
    let mut texts = Vec::new();
    let mut add = |kind, whose, reference: Option<&'e ContentRef>| {
        if let Some(reference) = reference {
            texts.push(Text { kind, whose, reference });
        }
    };
    match &envelope.event {
        Event::Workspace(WorkspaceEvent::Created(e)) => add("name", Whose::Workspace, Some(&e.name)),
        Event::Workspace(WorkspaceEvent::MemberAdded(e)) => {
            add("name", Whose::Person(e.user), Some(&e.name));
            add("address", Whose::Person(e.user), e.email.as_ref());
        }
        Event::Project(ProjectEvent::Created(e)) => {
            add("project title", Whose::Workspace, Some(&e.title));
            add("project description", Whose::Workspace, e.description.as_ref());
        }
        Event::Project(ProjectEvent::Updated(e)) => {
            add("project title", Whose::Workspace, e.title.as_ref());
            add("project description", Whose::Workspace, e.description.as_ref());
        }
        Event::Agent(AgentEvent::Created(e)) => {
            add("instructions", Whose::Workspace, e.instructions.as_ref());
        }
        Event::Agent(AgentEvent::Updated(e)) => {
            add("instructions", Whose::Workspace, e.instructions.as_ref());
        }
        Event::Issue(IssueEvent::Created(e)) => {
            add("issue title", writer(envelope), Some(&e.title));
            add("issue description", writer(envelope), e.description.as_ref());
        }
        Event::Issue(IssueEvent::Updated(e)) => {
            add("issue title", writer(envelope), e.title.as_ref());
            add("issue description", writer(envelope), e.description.as_ref());
        }
        Event::Issue(IssueEvent::Commented(e)) => {
            let whose = match (e.author, e.task) {
                (Author::Member(user), _) => Whose::Person(user),
                (Author::Agent(_), Some(task)) => Whose::Task(task),
                (Author::Agent(_), None) => Whose::Workspace,
            };
            add("comment", whose, Some(&e.body));
        }
        Event::Task(event) => {
            let task = Whose::Task(TaskId(envelope.stream.id));
            match event {
                TaskEvent::Completed(e) => add("output", task, e.output.as_ref()),
                TaskEvent::Failed(e) => add("failure detail", task, e.detail.as_ref()),
                TaskEvent::LateReportRecorded(e) => add("late report", task, e.detail.as_ref()),
                _ => {}
            }
        }
        Event::Operation(_)
        | Event::Workspace(_)
        | Event::Project(_)
        | Event::Agent(_)
        | Event::Issue(_)
        | Event::Daemon(_)
        | Event::Directory(_)
        | Event::Webhook(_)
        | Event::Unknown(_) => {}
    }
    texts
}

/// Who wrote what the event itself says.
fn writer(envelope: &Envelope) -> Whose {
    match envelope.actor.kind {
        ActorKind::Member => envelope.actor.id.parse().map_or(Whose::Workspace, Whose::Person),
        ActorKind::Agent | ActorKind::Daemon | ActorKind::System => Whose::Workspace,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::domain::codec;
    use crate::domain::schemas::samples;
    use crate::domain::spec::{self, id};
    use crate::domain::{Actor, StreamKey, Via};

    fn references(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                if serde_json::from_value::<ContentRef>(value.clone()).is_ok() {
                    into.extend(members["id"].as_str().map(str::to_owned));
                }
                members.values().for_each(|inner| references(inner, into));
            }
            Value::Array(items) => items.iter().for_each(|inner| references(inner, into)),
            _ => {}
        }
    }

    #[test]
    fn every_text_of_every_event_is_named() {
        let mut all = 0;
        for sample in samples() {
            let encoded = codec::encode(&sample).unwrap();
            let mut there = Vec::new();
            references(&serde_json::from_str(&encoded.data).unwrap(), &mut there);
            let stream = StreamKey::new(sample.family(), id(1));
            let envelope = spec::envelope(1, stream, 1, sample);
            let mut named: Vec<String> =
                of(&envelope).iter().map(|text| text.reference.id.to_string()).collect();
            there.sort();
            named.sort();
            assert_eq!(named, there, "{}", encoded.event_type);
            all += there.len();
        }
        assert!(all >= 12, "only {all} texts are in the samples");
    }

    #[test]
    fn what_is_written_on_an_issue_is_its_writers_and_what_a_run_says_is_the_runs() {
        let whose = |event_type: &str, by: ActorKind| {
            let event = samples().into_iter().find(|event| codec::event_type(event).unwrap() == event_type);
            let mut event = event.unwrap();
            match &mut event {
                Event::Task(TaskEvent::Failed(failed)) => failed.detail = Some(spec::content(3)),
                Event::Task(TaskEvent::LateReportRecorded(late)) => late.detail = Some(spec::content(3)),
                _ => {}
            }
            let mut envelope = spec::envelope(1, StreamKey::new(event.family(), id(7)), 1, event);
            envelope.actor = Actor { kind: by, id: id(9).to_string(), via: Via::Api };
            of(&envelope).iter().map(|text| text.whose).collect::<Vec<_>>()
        };
        let (nine, seven) = (Whose::Person(UserId(id(9))), Whose::Task(TaskId(id(7))));
        assert!(whose("issue.created", ActorKind::Member).iter().all(|whose| *whose == nine));
        assert!(whose("issue.updated", ActorKind::Agent).iter().all(|whose| *whose == Whose::Workspace));
        assert!(whose("project.created", ActorKind::Member).iter().all(|whose| *whose == Whose::Workspace));
        for said in ["task.completed", "task.failed", "task.late_report_recorded"] {
            assert_eq!(whose(said, ActorKind::Daemon), [seven], "{said}");
        }
    }
}
