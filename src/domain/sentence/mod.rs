//! One event as one readable sentence, with links to what it speaks of.
//!
//! Used by feed, history and audit. Names come from the reader's lookup, so that what may not be seen is simply
//! not there, and what was erased is said to be.
//!
//! Invariants: every event has a sentence; a sentence shows no path and no secret; what has no name is
//! called by its kind and the last digits of its id.
//!
//! Not here: who may see an entry (`http`).

use uuid::Uuid;

use crate::domain::{Actor, ActorKind, ContentRef, Envelope, Event, Family, Refusal, StreamKey};
use crate::kernel::ids::{
    AgentId, ContentId, DirectoryId, IssueId, ProjectId, RuntimeId, TaskId, UserId, WebhookId,
};
use crate::kernel::text::ERASED;

mod machine;
mod task;
mod webhook;
mod work;

#[cfg(test)]
mod tests;

/// Texts of at most so many bytes are quoted in sentences: their names are looked up.
pub const QUOTED_BYTES: u64 = 4_096;

/// What people call things. Each answers none for what isn't known or not to be seen, [`ERASED`] for a text
/// that was erased.
pub trait Names {
    /// `GAME-12#3`.
    fn task(&self, id: TaskId) -> Option<String>;
    /// `GAME-12`.
    fn issue(&self, id: IssueId) -> Option<String>;
    /// An agent's name.
    fn agent(&self, id: AgentId) -> Option<String>;
    /// A project's title.
    fn project(&self, id: ProjectId) -> Option<String>;
    /// A directory's label.
    fn directory(&self, id: DirectoryId) -> Option<String>;
    /// A daemon's device name, by its own id.
    fn daemon(&self, id: &str) -> Option<String>;
    /// A person's name.
    fn member(&self, id: UserId) -> Option<String>;
    /// A text.
    fn content(&self, id: ContentId) -> Option<String>;
    /// A daemon's device name, by the id of its stream.
    fn machine(&self, _stream: Uuid) -> Option<String> {
        None
    }
    /// A webhook's name.
    fn webhook(&self, _id: WebhookId) -> Option<String> {
        None
    }
    /// A runtime's provider.
    fn provider(&self, _runtime: RuntimeId) -> Option<String> {
        None
    }
}

/// A lookup that knows nothing: for places without a reader.
pub struct NoNames;

impl Names for NoNames {
    fn task(&self, _: TaskId) -> Option<String> {
        None
    }
    fn issue(&self, _: IssueId) -> Option<String> {
        None
    }
    fn agent(&self, _: AgentId) -> Option<String> {
        None
    }
    fn project(&self, _: ProjectId) -> Option<String> {
        None
    }
    fn directory(&self, _: DirectoryId) -> Option<String> {
        None
    }
    fn daemon(&self, _: &str) -> Option<String> {
        None
    }
    fn member(&self, _: UserId) -> Option<String> {
        None
    }
    fn content(&self, _: ContentId) -> Option<String> {
        None
    }
}

/// Something a sentence speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Link {
    /// task, issue, agent, project, directory, daemon, member, webhook.
    pub rel: &'static str,
    /// Its id.
    pub id: String,
    /// What people call it; the text of the sentence holds it as it stands here.
    pub label: String,
}

/// A sentence with its links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The sentence, without a full stop.
    pub text: String,
    /// What it speaks of, each once, in the order in which it is named.
    pub links: Vec<Link>,
}

/// Makes the sentence of an event.
#[must_use]
pub fn render(envelope: &Envelope, names: &dyn Names) -> Sentence {
    let mut writer = Writer { names, links: Vec::new() };
    let actor = writer.actor(&envelope.actor);
    let text = match &envelope.event {
        Event::Operation(event) => machine::operation(&mut writer, &actor, event),
        Event::Workspace(event) => work::workspace(&mut writer, &actor, event),
        Event::Project(event) => work::project(&mut writer, &actor, ProjectId(envelope.stream.id), event),
        Event::Issue(event) => work::issue(&mut writer, &actor, IssueId(envelope.stream.id), event),
        Event::Agent(event) => work::agent(&mut writer, &actor, AgentId(envelope.stream.id), event),
        Event::Daemon(event) => machine::daemon(&mut writer, &actor, envelope.stream.id, event),
        Event::Task(event) => task::task(&mut writer, &actor, TaskId(envelope.stream.id), event),
        Event::Directory(event) => {
            machine::directory(&mut writer, &actor, DirectoryId(envelope.stream.id), event)
        }
        Event::Webhook(event) => webhook::webhook(&mut writer, &actor, WebhookId(envelope.stream.id), event),
        Event::Unknown(event) => {
            let thing =
                writer.thing(envelope.stream).map(|thing| format!(" with {thing}")).unwrap_or_default();
            format!(
                "{actor} did something{thing} that only a newer version of the program can tell ({}, version {})",
                event.event_type, event.schema_version
            )
        }
    };
    Sentence { text, links: writer.links }
}

/// The name of an event's actor, as the sentences use it.
#[must_use]
pub fn actor_name(actor: &Actor, names: &dyn Names) -> String {
    Writer { names, links: Vec::new() }.actor(actor)
}

/// Makes the sentence of a command that a rule refused: `kind` is what was asked for, `about` the streams that
/// the rule looked at.
#[must_use]
pub fn refused(
    actor: &Actor,
    kind: &str,
    about: &[StreamKey],
    refusal: &Refusal,
    names: &dyn Names,
) -> Sentence {
    let mut writer = Writer { names, links: Vec::new() };
    let actor = writer.actor(actor);
    let on = subject(kind, about).and_then(|key| writer.thing(key));
    for other in about {
        writer.thing(*other);
    }
    let on = on.map(|on| format!(" on {on}")).unwrap_or_default();
    let text = format!("{actor} asked for {kind}{on} and was refused: {}", refusal.sentence);
    Sentence { text, links: writer.links }
}

/// The stream that a command of that kind was for, among those that its rule looked at: the others only had
/// a say.
#[must_use]
pub fn subject(kind: &str, about: &[StreamKey]) -> Option<StreamKey> {
    let head = kind.split('.').next().unwrap_or_default();
    let family = match head {
        "resource" => Family::Project,
        "token" | "member" => Family::Workspace,
        _ => Family::from_name(head)?,
    };
    about.iter().copied().find(|key| key.family == family)
}

/// `1st`, `2nd`, `3rd`, `11th`.
#[must_use]
pub fn ordinal(n: u32) -> String {
    let suffix = match (n % 10, n % 100) {
        (1, 11) | (2, 12) | (3, 13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

/// Names things and remembers links to them.
struct Writer<'a> {
    names: &'a dyn Names,
    links: Vec<Link>,
}

impl Writer<'_> {
    fn link(&mut self, rel: &'static str, id: String, name: Option<String>) -> String {
        let label = name.unwrap_or_else(|| {
            let tail = id.len().saturating_sub(8);
            format!("{rel} {}", id.get(tail..).unwrap_or(&id))
        });
        let link = Link { rel, id, label: label.clone() };
        if !self.links.contains(&link) {
            self.links.push(link);
        }
        label
    }

    /// What a stream is about, where that has a name.
    fn thing(&mut self, key: StreamKey) -> Option<String> {
        match key.family {
            Family::Task => Some(self.task(TaskId(key.id))),
            Family::Issue => {
                let id = IssueId(key.id);
                Some(self.link("issue", id.to_string(), self.names.issue(id)))
            }
            Family::Project => Some(self.project(ProjectId(key.id))),
            Family::Agent => Some(self.agent(AgentId(key.id))),
            Family::Directory => Some(self.directory(DirectoryId(key.id), None)),
            Family::Daemon => self.names.machine(key.id),
            Family::Webhook => Some(self.webhook(WebhookId(key.id))),
            Family::Operation | Family::Workspace | Family::Unknown => None,
        }
    }

    fn actor(&mut self, actor: &Actor) -> String {
        let id = &actor.id;
        match actor.kind {
            ActorKind::Member => match id.parse() {
                Ok(user) => self.member(user),
                Err(_) => "a member".to_owned(),
            },
            ActorKind::Agent => match id.parse() {
                Ok(agent) => self.agent(agent),
                Err(_) => "an agent".to_owned(),
            },
            ActorKind::Daemon => self.daemon(id),
            ActorKind::System => "the server".to_owned(),
        }
    }

    fn task(&mut self, id: TaskId) -> String {
        self.link("task", id.to_string(), self.names.task(id))
    }

    fn agent(&mut self, id: AgentId) -> String {
        self.link("agent", id.to_string(), self.names.agent(id))
    }

    fn project(&mut self, id: ProjectId) -> String {
        self.link("project", id.to_string(), self.names.project(id))
    }

    fn directory(&mut self, id: DirectoryId, label: Option<&str>) -> String {
        let name = self.names.directory(id).or_else(|| label.map(ToOwned::to_owned));
        self.link("directory", id.to_string(), name)
    }

    fn daemon(&mut self, id: &str) -> String {
        let name = self.names.daemon(id).unwrap_or_else(|| id.to_owned());
        self.link("daemon", id.to_owned(), Some(name))
    }

    fn webhook(&mut self, id: WebhookId) -> String {
        self.link("webhook", id.to_string(), self.names.webhook(id))
    }

    fn member(&mut self, id: UserId) -> String {
        self.link("member", id.to_string(), self.names.member(id))
    }

    /// A short text in quotes; what was erased is said to be.
    fn quoted(&self, reference: &ContentRef) -> String {
        match self.names.content(reference.id) {
            Some(text) if text == ERASED => "an erased text".to_owned(),
            Some(text) => format!("\u{201c}{}\u{201d}", first_line(&text)),
            None if reference.bytes > QUOTED_BYTES => "a text too long to stand here".to_owned(),
            None => "a text that isn't shown".to_owned(),
        }
    }
}

fn first_line(text: &str) -> String {
    const BYTES: usize = 120;
    let line = text.trim().lines().next().unwrap_or_default();
    let head = crate::kernel::text::head(line, BYTES);
    let cut = head.len() < line.len() || line.len() < text.trim().len();
    format!("{head}{}", if cut { "\u{2026}" } else { "" })
}

fn list(items: &[&str]) -> String {
    match items {
        [] => "nothing".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}
