//! Asking the audit trail: filters out of a query, pages, entries.
//!
//! Invariants: a filter that can't be right, or names what isn't in this workspace, is an error by its name:
//! an empty trail would look like a quiet one; a text search looks at a bounded number of entries in one request
//! and says how far back that was.
//!
//! Not here: the routes (`routes::audit`), the order of entries (`readmodel::audit_trail`).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::error::ApiError;
use super::routes::{id, issues, one_of, tasks, webhooks};
use super::{App, as_of};
use crate::app::private;
use crate::app::writer::check::Schemas;
use crate::domain::{Envelope, Family, StreamKey};
use crate::kernel::ids::{StreamId, WorkspaceId};
use crate::kernel::text;
use crate::readmodel::activity::{self, Called};
use crate::readmodel::audit_trail::{self, Found, IGNORED, Outcome, Place, Stretch, Target, Types, Wanted};
use crate::readmodel::query;
use crate::store::raw::Reading;
use crate::store::read;
use crate::wire::audit::{AuditEntry, AuditPage, Reached, Reason};

/// `?actor=&target=&type=&since=&until=&correlation=&outcome=&q=&limit=&before=`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Asked {
    /// `KIND/ID`, a kind, an id, or a name.
    pub actor: Option<String>,
    /// `KIND/REFERENCE`, `GAME-12` or `GAME-12#3`.
    pub target: Option<String>,
    /// A type, a family, or how a type begins with `*` behind it.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// A time, a day, or how long ago.
    pub since: Option<String>,
    /// The same; not included.
    pub until: Option<String>,
    /// The intent.
    pub correlation: Option<String>,
    /// `done`, `ignored`, `refused`.
    pub outcome: Option<String>,
    /// Words, all of which an entry has to hold.
    pub q: Option<String>,
    /// At most so many entries.
    pub limit: Option<u32>,
    /// Only what is older than this place.
    pub before: Option<String>,
    /// Only what is newer than this place, the nearest ones.
    pub after: Option<String>,
}

/// What is asked for, checked.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// What the trail is asked for.
    pub wanted: Wanted,
    /// The words, in lower case.
    pub words: Vec<String>,
}

fn given(text: Option<&String>) -> Option<&str> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty())
}

/// A place out of a query.
///
/// # Errors
/// `invalid_field`.
pub fn place(text: Option<&String>, field: &str) -> Result<Option<Place>, ApiError> {
    let wrong = |problem| ApiError::field(field, format!("`{field}` is no place in the trail: {problem}"));
    given(text).map(|text| text.parse().map_err(wrong)).transpose()
}

impl Asked {
    /// The filter, names looked up.
    ///
    /// # Errors
    /// `invalid_field`, `not_found`, what went wrong with the database.
    pub async fn filter(&self, app: &App, workspace: WorkspaceId) -> Result<Filter, ApiError> {
        let mut wanted = Wanted::default();
        if let Some(actor) = given(self.actor.as_ref()) {
            (wanted.actor_kind, wanted.actor) = self::actor(app, workspace, actor).await?;
        }
        if let Some(target) = given(self.target.as_ref()) {
            wanted.target = Some(self::target(app, workspace, target).await?);
        }
        wanted.types = given(self.kind.as_ref()).map(types).transpose()?;
        let now = read::now(&app.store).await?;
        let at = |text: Option<&String>, field: &str| {
            given(text).map(|text| as_of::time(text, field, now)).transpose()
        };
        wanted.since = at(self.since.as_ref(), "since")?;
        wanted.until = at(self.until.as_ref(), "until")?;
        wanted.correlation =
            given(self.correlation.as_ref()).map(|text| id(text, "correlation")).transpose()?;
        wanted.outcome = match given(self.outcome.as_ref()) {
            None => None,
            Some(word) => {
                one_of(word, &Outcome::ALL.map(Outcome::name), "outcome")?;
                Outcome::ALL.into_iter().find(|outcome| outcome.name() == word)
            }
        };
        let words = given(self.q.as_ref()).unwrap_or_default();
        if words.len() > app.limits.audit_words_bytes {
            let most = app.limits.audit_words_bytes;
            return Err(ApiError::field("q", format!("`q` has more than {most} bytes")));
        }
        Ok(Filter { wanted, words: words.to_lowercase().split_whitespace().map(str::to_owned).collect() })
    }
}

const ACTORS: [&str; 4] = ["member", "agent", "daemon", "system"];

/// An actor's kind and id.
async fn actor(
    app: &App,
    workspace: WorkspaceId,
    asked: &str,
) -> Result<(Option<String>, Option<String>), ApiError> {
    if ACTORS.contains(&asked) {
        return Ok((Some(asked.to_owned()), None));
    }
    if let Some((kind, id)) = asked.split_once('/').filter(|(kind, _)| ACTORS.contains(kind)) {
        return Ok((Some(kind.to_owned()), Some(id.to_owned())));
    }
    let mut names = Called::default();
    names.load_workspace(&app.store, &app.registry, workspace).await?;
    if let Some((kind, id)) = names.actor_called(asked) {
        return Ok((Some(audit_word(kind)), Some(id)));
    }
    if uuid::Uuid::try_parse(asked).is_ok() {
        return Ok((None, Some(asked.to_lowercase())));
    }
    Err(ApiError::unknown("member, agent or daemon", text::head(asked, NAMED_BYTES)))
}

/// So much of a wrong value is told back.
const NAMED_BYTES: usize = 80;

fn audit_word(kind: crate::domain::ActorKind) -> String {
    use crate::domain::ActorKind::{Agent, Daemon, Member, System};
    match kind {
        Member => "member",
        Agent => "agent",
        Daemon => "daemon",
        System => "system",
    }
    .to_owned()
}

/// What an entry is to be about.
async fn target(app: &App, workspace: WorkspaceId, asked: &str) -> Result<Target, ApiError> {
    let (kind, reference) = match asked.split_once('/') {
        Some((kind, reference)) => (kind, reference.trim()),
        None if asked.contains('#') => ("task", asked),
        None => ("issue", asked),
    };
    let kinds: Vec<&str> = Family::ALL.iter().map(|family| family.name()).collect();
    let family = Family::from_name(one_of(kind, &kinds, "target")?).ok_or(ApiError::NotFound("target"))?;
    let key = match family {
        Family::Task => StreamKey::new(family, tasks::named(app, workspace, reference).await?.0),
        Family::Issue => StreamKey::new(family, issues::named(app, workspace, reference).await?.0),
        Family::Daemon => StreamKey::new(family, StreamId::of_daemon(workspace, reference).0),
        Family::Webhook => StreamKey::new(family, webhooks::named(app, workspace, reference).await?.0),
        Family::Operation
        | Family::Workspace
        | Family::Project
        | Family::Agent
        | Family::Directory
        | Family::Unknown => StreamKey::new(family, id::<uuid::Uuid>(reference, "target")?),
    };
    // Whatever has been deleted has a history too.
    let first = read::stream_readings(&app.store, key).await?.into_iter().next();
    let own = |event: &Reading| event.workspace() == workspace || family == Family::Operation;
    if !first.as_ref().is_some_and(own) {
        return Err(ApiError::unknown(family.name(), text::head(reference, NAMED_BYTES)));
    }
    Ok(match family {
        Family::Operation | Family::Workspace | Family::Webhook | Family::Unknown => Target::Stream(key),
        Family::Daemon => Target::Daemon(reference.to_owned(), key),
        Family::Task | Family::Issue | Family::Project | Family::Agent | Family::Directory => {
            Target::About(key)
        }
    })
}

/// The types that are meant by a type, a family (`task`) or a beginning (`task.*`). Refused commands are
/// named after what was asked for and count by their family's name too.
fn types(asked: &str) -> Result<Types, ApiError> {
    let mut known: Vec<String> = Schemas::catalogue().into_iter().map(|known| known.event_type).collect();
    known.dedup();
    let families: Vec<&str> = Family::ALL.iter().map(|family| family.name()).collect();
    let family = asked.split('.').next().unwrap_or_default().trim_end_matches('*');
    let head = match asked.strip_suffix('*') {
        Some(head) => Some(head.to_owned()),
        None if families.contains(&asked) => Some(format!("{asked}.")),
        None => None,
    };
    let events: Vec<String> = match &head {
        Some(head) => known.iter().filter(|known| known.starts_with(head.as_str())).cloned().collect(),
        None => known.iter().filter(|known| *known == asked).cloned().collect(),
    };
    if events.is_empty() {
        let of_family: Vec<&str> = known
            .iter()
            .filter(|known| known.split('.').next() == Some(family))
            .map(String::as_str)
            .collect();
        let there = if of_family.is_empty() { families } else { of_family };
        one_of(asked, &there, "type")?;
    }
    let command = head.is_none().then(|| asked.to_owned());
    Ok(Types { events, command, command_head: head })
}

/// A stretch of the trail as it is told.
pub struct Told {
    /// The entries, in the stretch's order.
    pub entries: Vec<AuditEntry>,
    /// Behind what was looked at, where there may be more.
    pub reached: Option<(Place, String)>,
}

/// The newest entries of a stretch, or its oldest: up to `limit` that hold all words.
///
/// # Errors
/// What went wrong with the database.
pub async fn told(
    app: &App,
    workspace: WorkspaceId,
    filter: &Filter,
    times: (i64, i64),
    mut stretch: Stretch,
    limit: usize,
    private: Private,
) -> Result<Told, ApiError> {
    let mut entries = Vec::new();
    let searching = !filter.words.is_empty();
    let windows = if searching { app.limits.audit_windows } else { 1 };
    let window = if searching { app.limits.audit_window } else { i64::try_from(limit).unwrap_or(i64::MAX) };
    let mut reached = None;
    for _ in 0..windows {
        // One more than is shown says whether there is a next page.
        let wanted = window.saturating_add(1);
        let (store, registry) = (&app.store, &app.registry);
        let mut found =
            audit_trail::entries(store, registry, workspace, &filter.wanted, times, stretch, wanted).await?;
        let more = found.len() > usize::try_from(window).unwrap_or(usize::MAX);
        found.truncate(usize::try_from(window).unwrap_or(usize::MAX));
        reached = None;
        for (entry, haystack) in worded(app, workspace, &found, private).await? {
            let place: Place = entry.cursor.parse().unwrap_or_default();
            let full = entries.len() >= limit;
            if full {
                break;
            }
            reached = Some((place, entry.entry.recorded_at.clone()));
            if !searching || filter.words.iter().all(|word| haystack.contains(word.as_str())) {
                entries.push(entry);
            }
        }
        let looked_at_all = reached.as_ref().map(|(place, _)| *place) == found.last().map(Found::place);
        if !more && looked_at_all {
            return Ok(Told { entries, reached: None });
        }
        let Some((place, _)) = &reached else { break };
        if entries.len() >= limit {
            break;
        }
        if stretch.newest_first {
            stretch.before = *place;
        } else {
            stretch.after = *place;
        }
    }
    Ok(Told { entries, reached })
}

/// A page, newest first.
///
/// # Errors
/// `invalid_field`, `not_found`, what went wrong with the database.
pub async fn page(
    app: &App,
    workspace: WorkspaceId,
    asked: &Asked,
    private: Private,
) -> Result<AuditPage, ApiError> {
    let filter = asked.filter(app, workspace).await?;
    let (before, after) = (place(asked.before.as_ref(), "before")?, place(asked.after.as_ref(), "after")?);
    // Who has just done something and looks for it finds it.
    query::settle(&app.store, app.registry.get("audit_trail")?).await?;
    let head = audit_trail::shown(&app.store, &app.registry).await?;
    let end = Place::event(head.saturating_add(1));
    let stretch = Stretch {
        after: after.unwrap_or_default(),
        before: before.unwrap_or(Place::END).min(end),
        newest_first: after.is_none(),
    };
    let limit = asked.limit.unwrap_or(app.limits.audit_usual).clamp(1, app.limits.list_most);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let times = audit_trail::positions(&app.store, &filter.wanted).await?;
    let told = told(app, workspace, &filter, times, stretch, limit, private).await?;
    let mut entries = told.entries;
    if !stretch.newest_first {
        entries.reverse();
        // What lies before the nearest newer ones is where the reader comes from.
        let next = entries.last().map(|entry| entry.cursor.clone());
        return Ok(AuditPage { entries, next, searched_to: None, head });
    }
    let next = told.reached.as_ref().map(|(place, _)| place.to_string());
    let searched_to = told.reached.filter(|_| !filter.words.is_empty()).map(|(place, recorded_at)| Reached {
        cursor: place.to_string(),
        position: place.position(),
        recorded_at,
    });
    Ok(AuditPage { entries, next, searched_to, head })
}

/// What becomes of private values, and of the events' data as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Private {
    /// No data is told.
    NoData,
    /// Data is told without them.
    Hidden,
    /// Data is told whole.
    Shown,
}

/// Entries, each with the text in which words are looked for, in lower case.
async fn worded(
    app: &App,
    workspace: WorkspaceId,
    found: &[Found],
    private: Private,
) -> Result<Vec<(AuditEntry, String)>, ApiError> {
    let mut events: Vec<Envelope> = Vec::new();
    let mut about = Vec::new();
    for one in found {
        match one {
            // One that can't be read is told by its row: it takes no page with it.
            Found::Event(event) => events.extend(event.read().ok()),
            Found::Refused(refused) => about.extend(refused.about.iter().copied()),
        }
    }
    let mut names = Called::load(&app.store, &app.registry, &events, &about).await?;
    if events.is_empty() {
        names.load_workspace(&app.store, &app.registry, workspace).await?;
    }
    let whole: BTreeMap<Option<i64>, &Envelope> =
        events.iter().map(|event| (event.position, event)).collect();
    let mut entries = Vec::with_capacity(found.len());
    for one in found {
        let (entry, data, event) = match one {
            Found::Event(raw) => {
                let event = whole.get(&Some(raw.seq)).copied();
                let data = event.and_then(|_| serde_json::from_str(&raw.data).ok());
                let shown = data.map(|data| match private {
                    Private::Shown => data,
                    Private::Hidden | Private::NoData => {
                        private::redacted(&raw.event_type, raw.schema_version, data)
                    }
                });
                let outcome = if raw.event_type == IGNORED { Outcome::Ignored } else { Outcome::Done };
                let entry = AuditEntry {
                    cursor: one.place().to_string(),
                    outcome: outcome.name().to_owned(),
                    entry: event
                        .map_or_else(|| activity::unreadable((**raw).clone()), |event| names.entry(event)),
                    correlation: raw.correlation.to_string(),
                    command: raw.command_id.to_string(),
                    causation: raw.causation,
                    reason: None,
                    data: None,
                };
                (entry, shown, event)
            }
            Found::Refused(refused) => {
                let entry = AuditEntry {
                    cursor: one.place().to_string(),
                    outcome: Outcome::Refused.name().to_owned(),
                    entry: names.refused(workspace, refused),
                    correlation: refused.correlation.to_string(),
                    command: refused.command.to_string(),
                    causation: None,
                    reason: Some(Reason {
                        code: refused.refusal.code.clone(),
                        sentence: refused.refusal.sentence.clone(),
                        next_step: refused.refusal.next_step.clone(),
                    }),
                    data: None,
                };
                (entry, None, None)
            }
        };
        let mut haystack = format!("{}\n{}\n", entry.entry.text, entry.entry.event_type);
        haystack.push_str(&entry.entry.actor.name);
        for text in event.into_iter().flat_map(|event| names.texts(event)) {
            haystack.push('\n');
            haystack.push_str(text);
        }
        for text in data.iter().map(ToString::to_string).chain(entry.reason.iter().map(|r| r.code.clone())) {
            haystack.push('\n');
            haystack.push_str(&text);
        }
        let data = data.filter(|_| private != Private::NoData);
        entries.push((AuditEntry { data, ..entry }, haystack.to_lowercase()));
    }
    Ok(entries)
}

/// One event's entry.
///
/// # Errors
/// What went wrong with the database.
pub async fn one(
    app: &App,
    workspace: WorkspaceId,
    found: Found,
    private: Private,
) -> Result<AuditEntry, ApiError> {
    let mut entries = worded(app, workspace, &[found], private).await?;
    entries.pop().map(|(entry, _)| entry).ok_or(ApiError::NotFound("event"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_meant_by_itself_by_its_family_or_by_its_beginning() {
        let events = |asked: &str| types(asked).expect("known").events;
        assert_eq!(events("task.queued"), ["task.queued"]);
        assert!(events("task").contains(&"task.parked".to_owned()));
        assert_eq!(events("task"), events("task.*"));
        let cancels = events("task.cancel*");
        assert!(
            cancels.len() > 1 && cancels.iter().all(|known| known.starts_with("task.cancel")),
            "{cancels:?}"
        );
        assert!(events("*").len() > events("task").len());
        assert_eq!(types("task").expect("known").command_head.as_deref(), Some("task."));
        assert_eq!(types("task.queued").expect("known").command.as_deref(), Some("task.queued"));
    }

    #[test]
    fn a_type_that_is_none_is_told_what_there_is() {
        for asked in ["task.danced", "ghost", "ghost.*", "TASK", "task.%", "' or 1=1"] {
            match types(asked) {
                Err(ApiError::Invalid { field, sentence, .. }) => {
                    assert_eq!(field.as_deref(), Some("type"));
                    assert!(sentence.contains("there are"), "{sentence}");
                }
                other => panic!("{asked}: {other:?}"),
            }
        }
    }
}
