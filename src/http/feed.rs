//! The live feed: server-sent events, one for each event of the log that the reader may see.
//!
//! Invariants: a reader subscribes to the head first and catches up from the log then, so that nothing
//! falls between; positions rise and never repeat; `Last-Event-ID` beats `?after=`; what a filter hides
//! shows as one position frame a second at most; the stream ends when the server stops.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event as Frame, Sse};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use super::App;
use super::auth::Identity;
use super::body::Query;
use super::error::ApiError;
use super::routes::{id, one_of, tasks};
use crate::app::writer::check::Schemas;
use crate::domain::{Family, StreamKey, agent, directory, project, task};
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::WorkspaceId;
use crate::readmodel::activity;
use crate::store::raw::Reading;
use crate::store::read;
use crate::wire::feed::{Entry, PositionFrame};

/// Events read at once.
pub(super) const PAGE: i64 = 500;
/// Frames that a slow reader may be behind.
const ROOM: usize = 256;
/// Between two position frames for what a filter hides.
const HIDDEN: Duration = Duration::from_secs(1);

/// `GET /api/feed?after=&limit=&last=&project=&agent=&type=&directory=&task=`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Asked {
    after: Option<i64>,
    limit: Option<usize>,
    /// The newest ones instead of those after a position.
    last: Option<usize>,
    project: Option<String>,
    agent: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    directory: Option<String>,
    task: Option<String>,
}

impl Asked {
    // Not flattened: a query's numbers would be read as texts.
    //
    // What isn't there is refused: an empty feed would look like a quiet one.
    async fn filter(&self, app: &App, workspace: WorkspaceId) -> Result<Filter, ApiError> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let kind = given(&self.kind);
        kind.as_deref().map(known_type).transpose()?;
        let task = match given(&self.task) {
            Some(name) => {
                let id = tasks::named(app, workspace, &name).await?;
                // Its history goes on, also where this build can't fold it.
                there(app, workspace, "task", &name, task::evolve::stream(id)).await?;
                Some(id.to_string())
            }
            None => None,
        };
        let project = given(&self.project);
        if let Some(project) = &project {
            // Deleted ones have a history too.
            let stream = project::evolve::stream(id(project, "project")?);
            there(app, workspace, "project", project, stream).await?;
        }
        let agent = given(&self.agent);
        if let Some(agent) = &agent {
            there(app, workspace, "agent", agent, agent::evolve::stream(id(agent, "agent")?)).await?;
        }
        let directory = given(&self.directory);
        if let Some(directory) = &directory {
            let stream = directory::state::stream(id(directory, "directory")?);
            there(app, workspace, "directory", directory, stream).await?;
        }
        Ok(Filter { project, agent, kind, directory, task })
    }
}

/// Whether a thing has ever been in this workspace.
async fn there(
    app: &App,
    workspace: WorkspaceId,
    kind: &'static str,
    given: &str,
    stream: StreamKey,
) -> Result<(), ApiError> {
    let first = read::stream_readings(&app.store, stream).await?.into_iter().next();
    match first.filter(|event| event.workspace() == workspace) {
        Some(_) => Ok(()),
        None => Err(ApiError::unknown(kind, given)),
    }
}

/// A whole type (`task.started`) or a family (`task`) that events have.
fn known_type(kind: &str) -> Result<(), ApiError> {
    let mut types: Vec<String> = Schemas::catalogue().into_iter().map(|known| known.event_type).collect();
    types.dedup();
    let family = kind.split('.').next().unwrap_or_default();
    let families: Vec<&str> = Family::ALL.iter().map(|family| family.name()).collect();
    if families.contains(&kind) {
        return Ok(());
    }
    let of_family: Vec<&str> =
        types.iter().filter(|known| known.split('.').next() == Some(family)).map(String::as_str).collect();
    let there = if of_family.is_empty() { families } else { of_family };
    one_of(kind, &there, "type").map(drop)
}

/// Which entries a reader wants; all that it may see when nothing is said.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    project: Option<String>,
    agent: Option<String>,
    kind: Option<String>,
    directory: Option<String>,
    task: Option<String>,
}

impl Filter {
    /// Whether an entry is wanted. `type` is a whole type (`task.started`) or a family (`task`).
    #[must_use]
    pub fn wants(&self, entry: &Entry) -> bool {
        let of_type = self.kind.as_ref().is_none_or(|kind| {
            entry.event_type == *kind
                || entry.event_type.split_once('.').is_some_and(|(family, _)| family == kind)
        });
        let speaks_of = |rel: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|id| {
                (entry.stream.kind == rel && entry.stream.id == *id)
                    || entry.links.iter().any(|link| link.rel == rel && link.id == *id)
            })
        };
        of_type
            && speaks_of("project", &self.project)
            && speaks_of("agent", &self.agent)
            && speaks_of("directory", &self.directory)
            && speaks_of("task", &self.task)
    }
}

/// Answers with a stream or with a page, as the reader accepts.
///
/// # Errors
/// A position that is none; what went wrong with the database.
pub async fn feed(
    State(app): State<App>,
    who: Identity,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, ApiError> {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/event-stream") {
        return stream(app, who.workspace, &headers, asked).await;
    }
    page(app, who.workspace, asked).await
}

/// The entries after one position and before another, oldest first.
///
/// # Errors
/// What went wrong with the database.
pub async fn between(
    app: &App,
    workspace: WorkspaceId,
    after: i64,
    before: i64,
) -> Result<Vec<Entry>, ApiError> {
    let mut after = after.max(0);
    let wanted = (before - 1 - after).max(0);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let events = read::readings(&app.store, after, wanted).await?;
    mine(app, workspace, events, &mut after).await
}

async fn page(app: App, workspace: WorkspaceId, asked: Asked) -> Result<Response, ApiError> {
    if let (Some(last), None) = (asked.last, asked.after) {
        return newest(&app, workspace, &asked.filter(&app, workspace).await?, last.min(1_000)).await;
    }
    let limit = asked.limit.unwrap_or(100).clamp(1, 1_000);
    let mut after = asked.after.unwrap_or(0).max(0);
    let filter = asked.filter(&app, workspace).await?;
    let mut entries = Vec::new();
    loop {
        let events = read::readings(&app.store, after, PAGE).await?;
        let more = events.len() >= usize::try_from(PAGE).unwrap_or(usize::MAX);
        for entry in mine(&app, workspace, events, &mut after).await? {
            if entries.len() >= limit {
                break;
            }
            if filter.wants(&entry) {
                entries.push(entry);
            }
        }
        if entries.len() >= limit {
            after = entries.last().map_or(after, |entry| entry.position);
        }
        if entries.len() >= limit || !more {
            break;
        }
    }
    let head = *app.store.head().borrow();
    Ok(Json(json!({"entries": entries, "position": after, "head": head.max(after)})).into_response())
}

/// The newest entries that the filter wants, oldest first; `position` is where to read on.
async fn newest(
    app: &App,
    workspace: WorkspaceId,
    filter: &Filter,
    most: usize,
) -> Result<Response, ApiError> {
    let head = read::head(&app.store).await?;
    let mut before = head + 1;
    let mut entries = Vec::new();
    while entries.len() < most && before > 1 {
        let page = between(app, workspace, before - 1 - PAGE, before).await?;
        let room = most - entries.len();
        entries.extend(page.into_iter().rev().filter(|entry| filter.wants(entry)).take(room));
        before = (before - PAGE).max(1);
    }
    entries.reverse();
    Ok(Json(json!({"entries": entries, "position": head, "head": head})).into_response())
}

/// The entries of this workspace among the events; moves `after` past them.
pub(super) async fn mine(
    app: &App,
    workspace: WorkspaceId,
    events: Vec<Reading>,
    after: &mut i64,
) -> Result<Vec<Entry>, ApiError> {
    if let Some(last) = events.last() {
        *after = last.position();
    }
    let events = events.into_iter().filter(|event| event.workspace() == workspace).collect();
    Ok(activity::entries(&app.store, &app.registry, events).await?)
}

async fn stream(
    app: App,
    workspace: WorkspaceId,
    headers: &HeaderMap,
    asked: Asked,
) -> Result<Response, ApiError> {
    // Subscribed before the first read: what is appended in between wakes the reader.
    let head = app.store.head();
    let last_seen = match headers.get("last-event-id").map(|value| value.to_str().unwrap_or("-")) {
        None | Some("") => None,
        Some(text) => Some(text.parse::<i64>().map_err(|_| {
            ApiError::field("Last-Event-ID", "`Last-Event-ID` is a position: a whole number")
        })?),
    };
    let after = match last_seen.or(asked.after) {
        Some(after) => after.max(0),
        None => read::head(&app.store).await?,
    };
    let (frames, receiver) = mpsc::channel(ROOM);
    let filter = asked.filter(&app, workspace).await?;
    let reader = Reader { app, workspace, filter, head, at: after, said: after, frames };
    tokio::spawn(reader.run());
    let mut response = Sse::new(ReceiverStream::new(receiver)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", header::HeaderValue::from_static("no"));
    Ok(response)
}

struct Reader {
    app: App,
    workspace: WorkspaceId,
    filter: Filter,
    head: watch::Receiver<i64>,
    /// The last position looked at.
    at: i64,
    /// The last position that the reader was told.
    said: i64,
    frames: mpsc::Sender<Result<Frame, Infallible>>,
}

/// The reader is gone.
struct Gone;

impl Reader {
    async fn run(mut self) {
        let shutdown = self.app.shutdown.clone();
        tokio::select! {
            () = shutdown.cancelled() => {}
            _ = self.follow() => {}
        }
    }

    async fn follow(&mut self) -> Result<(), Gone> {
        let mut last_frame = Instant::now();
        let mut away = false;
        loop {
            self.head.borrow_and_update();
            let before = self.said;
            match self.catch_up().await {
                Ok(sent) => sent?,
                // The database is away: the stream stays, the reader waits, for as long as it is there itself.
                Err(error) => {
                    if !std::mem::replace(&mut away, true) {
                        tracing::warn!(error = %Chain(&error), "the feed can't read the log, trying again");
                    }
                    tokio::select! {
                        () = tokio::time::sleep(HIDDEN) => continue,
                        () = self.frames.closed() => return Err(Gone),
                    }
                }
            }
            away = false;
            if self.said != before {
                last_frame = Instant::now();
            }
            let hidden = self.at > self.said;
            let due = last_frame + if hidden { HIDDEN } else { self.app.limits.feed_keep_alive.duration() };
            tokio::select! {
                changed = self.head.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    if Instant::now() < due {
                        continue;
                    }
                }
                () = tokio::time::sleep_until(due) => {}
                () = self.frames.closed() => return Err(Gone),
            }
            // Only now: what was appended since is read first.
            if let Ok(sent) = self.catch_up().await {
                sent?;
            }
            self.tell_position().await?;
            last_frame = Instant::now();
        }
    }

    async fn catch_up(&mut self) -> Result<Result<(), Gone>, ApiError> {
        loop {
            let part = self.app.tail.after(&self.app, self.workspace, self.at).await?;
            if part.at == self.at {
                return Ok(Ok(()));
            }
            for entry in part.entries {
                if !self.filter.wants(&entry) {
                    continue;
                }
                let frame = frame("entry", entry.position, entry.as_ref())?;
                if self.frames.send(Ok(frame)).await.is_err() {
                    return Ok(Err(Gone));
                }
                self.said = entry.position;
            }
            self.at = part.at;
        }
    }

    async fn tell_position(&mut self) -> Result<(), Gone> {
        let head = (*self.head.borrow()).max(self.at);
        let data = PositionFrame { position: self.at, head };
        let frame = frame("position", self.at, &data).map_err(|_| Gone)?;
        self.said = self.at;
        self.frames.send(Ok(frame)).await.map_err(|_| Gone)
    }
}

fn frame(name: &str, position: i64, data: &impl serde::Serialize) -> Result<Frame, ApiError> {
    Ok(Frame::default().id(position.to_string()).event(name).data(serde_json::to_string(data)?))
}
