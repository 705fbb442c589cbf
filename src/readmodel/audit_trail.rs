//! The audit trail: events and refused commands in one order.
//!
//! Invariants: a place is an event's position, or a refused command's behind it; nothing beyond what the
//! follower shows is told, refused commands neither, so that no page goes on behind a gap that fills later;
//! what is appended meanwhile comes after every place told.
//!
//! Not here: sentences (`activity`), what a reader may see (`http`).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use uuid::Uuid;

use super::found::select;
use super::{ReadModelError, Registry, query};
use crate::domain::StreamKey;
use crate::fold::audit_trail::AuditRow;
use crate::kernel::ids::WorkspaceId;
use crate::store::raw::RawEvent;
use crate::store::refused::{self, Refused};
use crate::store::{Store, read};

/// What an event says that a rule recorded and did not heed.
pub const IGNORED: &str = "task.late_report_recorded";

/// Where an entry stands in the trail.
///
/// Refused commands have no position of their own: they come behind the event that was the head when they
/// were refused, by the database's clock, then by command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    position: i64,
    refused: Option<(i64, Uuid)>,
}

impl Place {
    /// An event's place.
    #[must_use]
    pub const fn event(position: i64) -> Self {
        Self { position, refused: None }
    }

    /// Behind everything that there will ever be.
    pub const END: Self = Self::event(i64::MAX);

    /// The position of the event, or of the one that the refused command came behind.
    #[must_use]
    pub const fn position(self) -> i64 {
        self.position
    }

    fn of(refused: &Refused) -> Self {
        let at = refused.recorded_at.as_microsecond();
        Self { position: refused.position, refused: Some((at, refused.command.0)) }
    }

    fn command(self) -> refused::Place {
        let (at, command) = self.refused.unwrap_or_default();
        (self.position, Timestamp::from_microsecond(at).unwrap_or_default(), command)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refused {
            None => write!(f, "{}", self.position),
            Some((at, command)) => write!(f, "{}-{at}-{}", self.position, command.simple()),
        }
    }
}

/// A text that is no place of the trail.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is neither a position nor a `cursor` or `next` of an answer")]
pub struct NoPlace;

impl FromStr for Place {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<i64>().ok().filter(|_| digits).ok_or(NoPlace)
        };
        let mut parts = text.splitn(3, '-');
        let position = number(parts.next().unwrap_or_default())?;
        let refused = match (parts.next(), parts.next()) {
            (None, _) => None,
            (Some(at), Some(command)) => {
                let at = number(at)?;
                Timestamp::from_microsecond(at).map_err(|_| NoPlace)?;
                Some((at, Uuid::try_parse(command).map_err(|_| NoPlace)?))
            }
            (Some(_), None) => return Err(NoPlace),
        };
        Ok(Self { position, refused })
    }
}

/// What an entry is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// What lies in one stream.
    Stream(StreamKey),
    /// Everything about a task, an issue, a project, an agent or a directory, in whatever stream.
    About(StreamKey),
    /// The same for a daemon, by its own id; refused commands know its stream.
    Daemon(String, StreamKey),
}

impl Target {
    /// Its stream.
    #[must_use]
    pub const fn stream(&self) -> StreamKey {
        match self {
            Self::Stream(key) | Self::About(key) | Self::Daemon(_, key) => *key,
        }
    }
}

/// What became of what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Done,
    /// It was recorded and not heeded: a word that came too late.
    Ignored,
    /// A rule said no.
    Refused,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Done, Self::Ignored, Self::Refused];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
        }
    }
}

/// Which types are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Types {
    /// The events' types.
    pub events: Vec<String>,
    /// The refused commands' kind, where one is named.
    pub command: Option<String>,
    /// How the refused commands' kinds begin, where that is named.
    pub command_head: Option<String>,
}

/// Which entries are wanted; none is any.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The actor's kind.
    pub actor_kind: Option<String>,
    /// The actor's id.
    pub actor: Option<String>,
    /// What it is about.
    pub target: Option<Target>,
    /// The types.
    pub types: Option<Types>,
    /// The intent.
    pub correlation: Option<Uuid>,
    /// What became of it.
    pub outcome: Option<Outcome>,
    /// Recorded then or later.
    pub since: Option<Timestamp>,
    /// Recorded before.
    pub until: Option<Timestamp>,
}

/// An entry as it was recorded.
#[derive(Debug, Clone)]
pub enum Found {
    /// An event.
    Event(Box<RawEvent>),
    /// A refused command.
    Refused(Box<Refused>),
}

impl Found {
    /// Where it stands.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            Self::Event(event) => Place::event(event.seq),
            Self::Refused(refused) => Place::of(refused),
        }
    }

    /// The database's clock.
    #[must_use]
    pub fn recorded_at(&self) -> Timestamp {
        match self {
            Self::Event(event) => event.recorded_at,
            Self::Refused(refused) => refused.recorded_at,
        }
    }
}

/// A stretch of the trail, without its ends.
#[derive(Debug, Clone, Copy)]
pub struct Stretch {
    /// After this place.
    pub after: Place,
    /// Before that one.
    pub before: Place,
    /// Whether the newest are wanted first, or the oldest.
    pub newest_first: bool,
}

/// The last position that the trail shows.
///
/// # Errors
/// [`ReadModelError`].
pub async fn shown(store: &Store, registry: &Registry) -> Result<i64, ReadModelError> {
    query::shown(store, registry.get("audit_trail")?).await
}

/// The positions between which the wanted times lie: after the first and before the second. Looked up
/// once for all pages of a walk.
///
/// # Errors
/// [`ReadModelError`].
pub async fn positions(store: &Store, wanted: &Wanted) -> Result<(i64, i64), ReadModelError> {
    let just_before = |at: Timestamp| {
        Timestamp::from_microsecond(at.as_microsecond().saturating_sub(1)).unwrap_or(Timestamp::MIN)
    };
    let after = match wanted.since {
        Some(since) => read::position_at(store, just_before(since)).await?,
        None => 0,
    };
    let before = match wanted.until {
        Some(until) => read::position_at(store, just_before(until)).await?.saturating_add(1),
        None => i64::MAX,
    };
    Ok((after, before))
}

/// Up to `limit` entries of a stretch, in its order. `times` are those of [`positions`].
///
/// # Errors
/// [`ReadModelError`].
pub async fn entries(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    wanted: &Wanted,
    times: (i64, i64),
    stretch: Stretch,
    limit: i64,
) -> Result<Vec<Found>, ReadModelError> {
    let mut found: Vec<Found> = Vec::new();
    if wanted.outcome != Some(Outcome::Refused) {
        found.extend(events(store, registry, workspace, wanted, times, stretch, limit).await?);
    }
    if matches!(wanted.outcome, None | Some(Outcome::Refused)) {
        found.extend(commands(store, workspace, wanted, stretch, limit).await?);
    }
    found.sort_by_key(Found::place);
    if stretch.newest_first {
        found.reverse();
    }
    found.truncate(usize::try_from(limit).unwrap_or_default());
    Ok(found)
}

async fn events(
    store: &Store,
    registry: &Registry,
    workspace: WorkspaceId,
    wanted: &Wanted,
    times: (i64, i64),
    stretch: Stretch,
    limit: i64,
) -> Result<Vec<Found>, ReadModelError> {
    // A refused command's place lies behind the event of its position.
    let own = i64::from(stretch.before.refused.is_some());
    let after = stretch.after.position.max(times.0);
    let before = stretch.before.position.saturating_add(own).min(times.1);
    let mut types = wanted.types.as_ref().map(|types| types.events.clone()).unwrap_or_default();
    if wanted.types.is_some() && types.is_empty() {
        return Ok(Vec::new());
    }
    let mut other_than = None;
    match wanted.outcome {
        Some(Outcome::Ignored) if types.is_empty() || types.iter().any(|known| known == IGNORED) => {
            types = vec![IGNORED.to_owned()];
        }
        Some(Outcome::Ignored) => return Ok(Vec::new()),
        Some(Outcome::Done) => other_than = Some(IGNORED),
        Some(Outcome::Refused) | None => {}
    }
    let (about, stream, daemon) = match &wanted.target {
        Some(Target::Stream(key)) => (None, Some(key.id), None),
        Some(Target::About(key)) => (Some(*key), None, None),
        Some(Target::Daemon(id, _)) => (None, None, Some(id.as_str())),
        None => (None, None, None),
    };
    let of = |family| about.filter(|key| key.family.name() == family).map(|key| key.id);
    let order = if stretch.newest_first { "desc" } else { "asc" };
    let sql = include_str!("sql/audit_events.sql").replace("{order}", order);
    let rows = select::<AuditRow>(
        store,
        registry.get("audit_trail")?,
        &sql,
        &[
            &workspace.0,
            &after,
            &before,
            &limit,
            &wanted.actor_kind,
            &wanted.actor,
            &types,
            &other_than,
            &wanted.correlation,
            &stream,
            &of("task"),
            &of("issue"),
            &of("project"),
            &of("agent"),
            &of("directory"),
            &daemon,
        ],
    )
    .await?;
    let positions: Vec<i64> = rows.iter().map(|found| found.row.event_position).collect();
    let log = read::at_positions(store, &positions).await?;
    let log: BTreeMap<i64, RawEvent> = log.into_iter().map(|event| (event.seq, event)).collect();
    // An event that isn't in the log any more is damage that `verify` names; the others are shown.
    Ok(positions
        .iter()
        .filter_map(|position| log.get(position).cloned())
        .map(|event| Found::Event(Box::new(event)))
        .collect())
}

async fn commands(
    store: &Store,
    workspace: WorkspaceId,
    wanted: &Wanted,
    stretch: Stretch,
    limit: i64,
) -> Result<Vec<Found>, ReadModelError> {
    let refused = refused::Wanted {
        actor_kind: wanted.actor_kind.clone(),
        actor: wanted.actor.clone(),
        kind: wanted.types.as_ref().and_then(|types| types.command.clone()),
        kind_head: wanted.types.as_ref().and_then(|types| types.command_head.clone()),
        correlation: wanted.correlation,
        about: wanted.target.as_ref().map(Target::stream),
        since: wanted.since,
        until: wanted.until,
    };
    let (after, before) = (stretch.after.command(), stretch.before.command());
    let found =
        refused::between(store, workspace, &refused, after, before, stretch.newest_first, limit).await?;
    Ok(found.into_iter().map(|refused| Found::Refused(Box::new(refused))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written_and_refused_commands_come_behind_their_event() {
        let refused = |at, command| Place { position: 7, refused: Some((at, Uuid::from_u128(command))) };
        let in_order =
            [Place::event(6), Place::event(7), refused(1, 9), refused(1, 10), refused(2, 1), Place::event(8)];
        assert!(in_order.is_sorted());
        for place in in_order {
            assert_eq!(place.to_string().parse(), Ok(place));
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        let id = Uuid::nil().simple();
        for text in [
            "",
            "-1",
            "+1",
            "x",
            "1-",
            "1-2",
            "1-2-x",
            "9223372036854775808",
            "1-9223372036854775807-0",
            &format!("1--2-{id}"),
            &format!("1-9223372036854775807-{id}"),
            "1 or 1=1",
        ] {
            assert_eq!(text.parse::<Place>(), Err(NoPlace), "{text}");
        }
    }
}
