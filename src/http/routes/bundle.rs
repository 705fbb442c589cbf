//! `GET /api/tasks/{ref}/bundle`: a task's history as a file that is opened anywhere.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::tasks::{named, story};
use crate::app::private::redacted;
use crate::domain::{Actor, Family, StreamKey};
use crate::http::as_of::AsAsked;
use crate::http::auth::Identity;
use crate::http::body::Path;
use crate::http::error::ApiError;
use crate::http::objects::task::task;
use crate::kernel::ids::{CommandId, CorrelationId, EventId, WorkspaceId};
use crate::readmodel::activity;
use crate::store::raw::{RawEvent, Reading};
use crate::store::read;
use crate::wire::bundle::{FORMAT, Head, Told, VERSION};
use crate::wire::feed::Entry;

/// The bundle, JSON lines.
pub async fn bundle(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    let id = named(&app, who.workspace, &path).await?;
    let loaded = task(&app, who.workspace, id).await?;
    let head = Head {
        format: FORMAT.to_owned(),
        version: VERSION,
        task: id,
        name: loaded.state.name(),
        position: read::head(&app.store).await?,
        exported_at: app.world.now(),
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let story = story(&app, who.workspace, loaded).await?;
    let positions: BTreeSet<i64> = story.iter().filter_map(|event| event.position).collect();
    let streams: BTreeSet<StreamKey> = story.iter().map(|event| event.stream).collect();
    let last = positions.last().copied().unwrap_or_default();
    // Streams that are folded again have to be whole from their beginning; of the others, what concerns it.
    let mut rows: BTreeMap<i64, RawEvent> = BTreeMap::new();
    for stream in streams {
        let whole = matches!(stream.family, Family::Task | Family::Directory);
        let found = read::stream_rows(&app.store, stream).await?;
        let wanted = |row: &RawEvent| row.seq <= last && (whole || positions.contains(&row.seq));
        rows.extend(found.into_iter().filter(wanted).map(|row| (row.seq, row)));
    }
    let readings = rows.values().cloned().map(Reading::from).collect();
    let entries = activity::entries_unquoted(&app.store, &app.registry, readings).await?;
    let mut entries: BTreeMap<i64, Entry> =
        entries.into_iter().map(|entry| (entry.position, entry)).collect();
    let mut lines = vec![serde_json::to_string(&head)?];
    for (position, row) in rows {
        let (text, actor) =
            entries.remove(&position).map(|entry| (entry.text, entry.actor.name)).unwrap_or_default();
        lines.push(serde_json::to_string(&told(row, text, actor, positions.contains(&position))?)?);
    }
    let name = format!("attachment; filename=\"{}.jsonl\"", head.name.replace('#', "-"));
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson".to_owned()),
        (header::CONTENT_DISPOSITION, name),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, lines.join("\n") + "\n").into_response())
}

fn told(row: RawEvent, text: String, actor_name: String, of_story: bool) -> Result<Told, ApiError> {
    // Data that is no JSON is damaged: it is told as nothing, and `text` says so.
    let data = serde_json::from_str(&row.data).unwrap_or_default();
    Ok(Told {
        position: row.seq,
        workspace: WorkspaceId(row.workspace),
        family: row.family,
        stream: row.stream,
        version: row.version,
        event_id: EventId(row.event_id),
        command_id: CommandId(row.command_id),
        correlation: CorrelationId(row.correlation),
        causation: row.causation,
        data: redacted(&row.event_type, row.schema_version, data),
        event_type: row.event_type,
        schema_version: row.schema_version,
        actor: Actor {
            kind: serde_json::from_value(row.actor_type.into())?,
            id: row.actor_id,
            via: serde_json::from_value(row.actor_via.into())?,
        },
        occurred_at: row.occurred_at,
        recorded_at: row.recorded_at,
        actor_name,
        text,
        of_story,
    })
}
