//! Exports of the audit trail, written as they are read.
//!
//! Invariants: what is in an export is settled by its filters and its two ends, whoever makes it and in how
//! many pieces; an entry is one line; private values never leave; memory holds one window; an export that can't
//! go on breaks the answer off, so that nobody takes it for a whole one.

use std::collections::BTreeMap;
use std::io;
use std::str::FromStr;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::App;
use super::audit::{Filter, Private, told};
use super::error::ApiError;
use super::idempotency::Call;
use super::position;
use super::routes::one_of;
use crate::app::operation_write::OperationWrite;
use crate::domain::operation::{ExportMade, OperationCommand};
use crate::kernel::error_chain::Chain;
use crate::kernel::ids::WorkspaceId;
use crate::readmodel::audit_trail::{self, Place, Stretch, Target};
use crate::wire::audit::{AuditEntry, EXPORT_AFTER, EXPORT_UP_TO};

/// Windows that a slow reader may be behind.
const ROOM: usize = 2;

/// How entries are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A JSON object a line.
    JsonLines,
    /// Comma-separated values with a line of names.
    Csv,
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Self::JsonLines => "jsonl",
            Self::Csv => "csv",
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::JsonLines => "application/jsonl",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }
}

impl FromStr for Format {
    type Err = ApiError;

    fn from_str(word: &str) -> Result<Self, ApiError> {
        let known = [Self::JsonLines, Self::Csv];
        one_of(word, &known.map(Self::name), "format")?;
        known.into_iter().find(|format| format.name() == word).ok_or(ApiError::NotFound("format"))
    }
}

/// What is to be given out.
pub struct Export {
    /// How it is written.
    pub format: Format,
    /// After this place.
    pub after: Place,
    /// Up to this position, with what was refused behind it.
    pub up_to: i64,
    /// Whether the line of names is left out: it goes on where another one ended.
    pub headless: bool,
    /// What is wanted.
    pub filter: Filter,
}

impl Export {
    fn event(&self) -> ExportMade {
        let wanted = &self.filter.wanted;
        let target = wanted.target.as_ref().map(|target| match target {
            Target::Daemon(id, _) => format!("daemon/{id}"),
            Target::Stream(key) | Target::About(key) => format!("{}/{}", key.family.name(), key.id),
        });
        let actor = match (&wanted.actor_kind, &wanted.actor) {
            (Some(kind), Some(id)) => Some(format!("{kind}/{id}")),
            (kind, id) => kind.clone().or_else(|| id.clone()),
        };
        let types = wanted.types.as_ref().map(|types| {
            let head = types.command_head.as_ref().map(|head| format!("{head}*"));
            head.or_else(|| types.command.clone()).unwrap_or_default()
        });
        let filters: [(&str, Option<String>); 7] = [
            ("actor", actor),
            ("target", target),
            ("type", types),
            ("correlation", wanted.correlation.map(|id| id.to_string())),
            ("outcome", wanted.outcome.map(|outcome| outcome.name().to_owned())),
            ("since", wanted.since.map(|at| at.to_string())),
            ("until", wanted.until.map(|at| at.to_string())),
        ];
        let filters: BTreeMap<String, String> =
            filters.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        ExportMade {
            format: self.format.name().to_owned(),
            after: self.after.to_string(),
            up_to: self.up_to,
            filters,
            searched: !self.filter.words.is_empty(),
        }
    }
}

/// Records that the export is made, then answers with it.
///
/// # Errors
/// `behind` when the trail doesn't show its end in time; what went wrong with the database.
pub async fn answer(app: App, call: Call, export: Export) -> Result<Response, ApiError> {
    position::reach(&app, export.up_to).await?;
    let event = export.event();
    let body = json!({"format": event.format, "after": event.after, "up_to": event.up_to,
        "filters": event.filters, "searched": event.searched});
    let workspace = call.who.workspace;
    let write = OperationWrite { workspace, command: OperationCommand::RecordExport(event) };
    call.submit(&app, "operation.export", &body, write).await?;
    let name = format!("multica-audit-{}.{}", export.up_to, export.format.name());
    let (after, up_to, media_type) = (export.after, export.up_to, export.format.media_type());
    let (sender, receiver) = mpsc::channel::<io::Result<Vec<u8>>>(ROOM);
    tokio::spawn(run(app, workspace, export, sender));
    let mut response = Body::from_stream(ReceiverStream::new(receiver)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in [
        (header::CONTENT_DISPOSITION.as_str(), format!("attachment; filename=\"{name}\"")),
        (EXPORT_AFTER, after.to_string()),
        (EXPORT_UP_TO, up_to.to_string()),
    ] {
        if let (Ok(name), Ok(value)) = (header::HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    Ok(response)
}

async fn run(app: App, workspace: WorkspaceId, export: Export, sender: mpsc::Sender<io::Result<Vec<u8>>>) {
    let shutdown = app.shutdown.clone();
    let why = tokio::select! {
        () = shutdown.cancelled() => "the server stops".to_owned(),
        ended = write(&app, workspace, &export, &sender) => match ended {
            Ok(()) => return,
            Err(error) => Chain(&error).to_string(),
        },
    };
    tracing::warn!(error = why, "an export breaks off");
    // The reader sees an answer without its end.
    drop(sender.send(Err(io::Error::other(why))).await);
}

async fn write(
    app: &App,
    workspace: WorkspaceId,
    export: &Export,
    sender: &mpsc::Sender<io::Result<Vec<u8>>>,
) -> Result<(), ApiError> {
    let times = audit_trail::positions(&app.store, &export.filter.wanted).await?;
    let before = Place::event(export.up_to.saturating_add(1));
    let mut stretch = Stretch { after: export.after, before, newest_first: false };
    let mut lines = Vec::new();
    if export.format == Format::Csv && !export.headless {
        lines.extend_from_slice(COLUMNS.join(",").as_bytes());
        lines.push(b'\n');
    }
    let window = usize::try_from(app.limits.audit_window).unwrap_or(usize::MAX);
    loop {
        let told = told(app, workspace, &export.filter, times, stretch, window, Private::Hidden).await?;
        for entry in &told.entries {
            line(export.format, entry, &mut lines)?;
        }
        // An error means that the reader is gone.
        if !lines.is_empty() && sender.send(Ok(std::mem::take(&mut lines))).await.is_err() {
            return Ok(());
        }
        match told.reached {
            Some((place, _)) if place > stretch.after => stretch.after = place,
            _ => return Ok(()),
        }
    }
}

fn line(format: Format, entry: &AuditEntry, into: &mut Vec<u8>) -> Result<(), ApiError> {
    match format {
        Format::JsonLines => serde_json::to_writer(&mut *into, entry)?,
        Format::Csv => into.extend_from_slice(csv(entry).join(",").as_bytes()),
    }
    into.push(b'\n');
    Ok(())
}

const COLUMNS: [&str; 18] = [
    "cursor",
    "position",
    "recorded_at",
    "occurred_at",
    "outcome",
    "type",
    "actor_type",
    "actor_id",
    "actor_name",
    "via",
    "stream_kind",
    "stream_id",
    "correlation",
    "command",
    "causation",
    "text",
    "reason_code",
    "data",
];

fn csv(entry: &AuditEntry) -> [String; 18] {
    let e = &entry.entry;
    let data = entry.data.as_ref().map(Value::to_string).unwrap_or_default();
    [
        entry.cursor.clone(),
        e.position.to_string(),
        e.recorded_at.clone(),
        e.occurred_at.clone(),
        entry.outcome.clone(),
        e.event_type.clone(),
        e.actor.kind.clone(),
        cell(&e.actor.id),
        cell(&e.actor.name),
        e.actor.via.clone(),
        e.stream.kind.clone(),
        e.stream.id.clone(),
        entry.correlation.clone(),
        entry.command.clone(),
        entry.causation.map(|position| position.to_string()).unwrap_or_default(),
        cell(&e.text),
        entry.reason.as_ref().map(|reason| reason.code.clone()).unwrap_or_default(),
        cell(&data),
    ]
}

/// A text as a cell: on one line, and no formula for the program that opens it.
fn cell(text: &str) -> String {
    let one_line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let guard = if one_line.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    if one_line.contains([',', '"']) || !guard.is_empty() {
        return format!("\"{guard}{}\"", one_line.replace('"', "\"\""));
    }
    one_line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_stays_on_its_line_in_its_place_and_is_no_formula() {
        for (text, written) in [
            ("plain words", "plain words"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines\r\tand\u{7}", "two lines  and "),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("@sum", "\"'@sum\""),
        ] {
            assert_eq!(cell(text), written);
        }
    }

    #[test]
    fn a_format_that_is_none_is_told_what_there_is() {
        assert_eq!("csv".parse::<Format>().ok(), Some(Format::Csv));
        let Err(ApiError::Invalid { field, sentence, .. }) = "xlsx".parse::<Format>() else {
            panic!("xlsx is no format")
        };
        assert_eq!(field.as_deref(), Some("format"));
        assert!(sentence.contains("jsonl, csv"), "{sentence}");
    }
}
