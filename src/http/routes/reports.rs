//! Reports: what a machine says about a task, ours and those of public daemons.
//!
//! Invariants: a task of another workspace isn't there; only who may speak for its daemon reports; texts are
//! redacted and bounded before they are stored; a public daemon's replay of an ending is never an error.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{id, tasks};
use crate::app::decision::Committed;
use crate::app::task_enter_directory::TaskEnterDirectory;
use crate::app::task_outcome::LastWord;
use crate::app::task_receipt::TaskReceipt;
use crate::app::task_report::TaskReport;
use crate::domain::NewContent;
use crate::domain::task::{Phase, Status, Task};
use crate::fold::directory_queue::DirectoryRow;
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::auth::Identity;
use crate::http::body::{Path, Query, Reported, typed};
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at, content};
use crate::http::objects::Loaded;
use crate::http::objects::task::task;
use crate::kernel::ids::{CommentId, RuntimeId, TaskId};
use crate::kernel::{digest, redact, text};
use crate::readmodel::{directory_queue, task_status};
use crate::store::transcript;
use crate::wire::api;
use crate::wire::daemon::{DIRECTORY_QUEUE, EndingReport, Message, Messages, Report, ReportBody};

/// A comment that is longer says so instead.
const COMMENT_CHARACTERS: usize = 8_000;

/// `GET /api/daemon/tasks/{id}/status`.
pub async fn status(
    State(app): State<App>,
    mut who: Identity,
    Path(path): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let loaded = who.speaks_for_task(&app, id(&path, "id")?).await?;
    Ok(Json(json!({"status": loaded.state.status().name(), "generation": loaded.state.generation})))
}

/// `POST /api/daemon/tasks/{id}/{report}`.
pub async fn report(
    State(app): State<App>,
    mut call: Call,
    Path((path, kind)): Path<(String, String)>,
    body: Reported<Value>,
) -> Result<Response, ApiError> {
    let loaded = call.who.speaks_for_task(&app, id(&path, "id")?).await?;
    let ours = body.raw.get("generation").is_some();
    let report = parse(&app, &kind, &body.raw)?;
    // No clock of a machine says so, and the database can't keep all that can be written.
    if report.occurred_at < Timestamp::UNIX_EPOCH {
        return Err(ApiError::field("occurred_at", "`occurred_at` is a time after the year 1969"));
    }
    call.correlation = loaded.events.first().map(|event| event.correlation);
    if ours {
        call.occurred_at = Some(report.occurred_at);
    }
    let generation = ours.then_some(report.generation);
    let done = submit(&app, &call, &loaded, &body.raw, report, generation).await?;
    if ours {
        let mut answer = json!({"status": done.result["status"], "generation": done.result["generation"]});
        if !done.result["grant"].is_null() {
            answer["grant"] = done.result["grant"].clone();
        }
        return Ok(at(done.position, Json(answer)));
    }
    Ok(at(
        done.position,
        match kind.as_str() {
            "session" => StatusCode::NO_CONTENT.into_response(),
            "cancel-ack" | "usage" => Json(json!({"status": "ok"})).into_response(),
            _ => Json(tasks::shown(&app, call.who.workspace, loaded.state.id).await?).into_response(),
        },
    ))
}

/// Reads a report; a public daemon's gets what it doesn't send.
fn parse(app: &App, kind: &str, raw: &Value) -> Result<Report, ApiError> {
    let mut members = raw.as_object().cloned().unwrap_or_default();
    members.insert("report".to_owned(), json!(kind.replace('-', "_")));
    if !members.contains_key("generation") {
        let open = ["start", "complete", "fail", "cancel-ack", "session", "usage"];
        if !open.contains(&kind) {
            return Err(ApiError::field("generation", "`generation` is missing"));
        }
        members.insert("generation".to_owned(), json!(0));
        members.insert("ordinal".to_owned(), json!(0));
        members.insert("occurred_at".to_owned(), json!(app.world.now()));
        public(kind, &mut members);
    }
    typed(&Value::Object(members))
}

fn public(kind: &str, members: &mut serde_json::Map<String, Value>) {
    let mut default = |name: &str, value: Value| {
        if members.get(name).is_none_or(Value::is_null) {
            members.insert(name.to_owned(), value);
        }
    };
    match kind {
        "complete" => default("output", json!("")),
        "fail" => {
            default("error", json!(""));
            let text = members.get("error").and_then(Value::as_str).unwrap_or_default();
            let reason = if text.starts_with("start task failed:") {
                "agent_error.provider_network"
            } else {
                "agent_error.unknown"
            };
            if members.get("failure_reason").and_then(Value::as_str).is_none_or(str::is_empty) {
                members.insert("failure_reason".to_owned(), json!(reason));
            }
        }
        "session" => default("session_id", json!("")),
        "usage" => default("usage", json!([])),
        _ => {}
    }
}

async fn submit(
    app: &App,
    call: &Call,
    loaded: &Loaded<Task>,
    raw: &Value,
    report: Report,
    generation: Option<u32>,
) -> Result<Committed, ApiError> {
    let workspace = call.who.workspace;
    let id = loaded.state.id;
    let daemon_slots = app.limits.daemon_slots;
    match report.body {
        ReportBody::Receipt {} => {
            let decision = TaskReceipt { workspace, task: id, generation: report.generation };
            call.submit(app, "task.receipt", raw, decision).await
        }
        ReportBody::EnterDirectory { directory, place, .. } => {
            let taken = directory_queue::taken(&app.store, &app.registry, workspace).await?;
            let is_same = |row: &DirectoryRow| row.id != directory && row.place().is_same_directory(&place);
            let same = taken.into_iter().filter(is_same).map(|row| row.id).collect();
            let decision = TaskEnterDirectory {
                workspace,
                task: id,
                generation: report.generation,
                directory,
                place,
                same,
                daemon_slots,
            };
            call.submit(app, "task.enter_directory", raw, decision).await
        }
        body => {
            let (text, last_word) = texts(app, &body);
            let decision = TaskReport {
                workspace,
                task: id,
                generation,
                text,
                last_word,
                transcript: transcript_of(app, loaded, generation, &body).await?,
                body,
                retry: TaskId(app.world.uuid_v7()),
                daemon_slots,
            };
            call.submit(app, "task.report", raw, decision).await
        }
    }
}

/// The long text of an ending, and the comment that it may become.
fn texts(app: &App, body: &ReportBody) -> (Option<NewContent>, Option<LastWord>) {
    let said = match body {
        ReportBody::Complete { output, .. } => output,
        ReportBody::Fail { error, .. } => error,
        _ => return (None, None),
    };
    if said.trim().is_empty() {
        return (None, None);
    }
    let clean = redact::secrets(&text::without_nul(said));
    let kept = text::tail(&clean, app.limits.content_bytes).to_owned();
    let comment = if kept.chars().count() > COMMENT_CHARACTERS {
        "The agent's last word is too long for a comment; it stands in the run's details.".to_owned()
    } else {
        kept.clone()
    };
    let last_word = LastWord { comment: CommentId(app.world.uuid_v7()), body: content(app, comment) };
    (Some(content(app, kept)), Some(last_word))
}

async fn transcript_of(
    app: &App,
    loaded: &Loaded<Task>,
    generation: Option<u32>,
    body: &ReportBody,
) -> Result<(u64, Option<String>), ApiError> {
    if !matches!(body, ReportBody::Complete { .. } | ReportBody::Fail { .. }) {
        return Ok((0, None));
    }
    let id = loaded.state.id;
    let generation = generation.unwrap_or(loaded.state.generation);
    let (count, sha256) = transcript::digest(&app.store, id, generation, id.0.as_bytes()).await?;
    Ok((count, (count > 0).then(|| digest::hex(&sha256))))
}

/// `POST /api/daemon/tasks/{id}/messages`.
pub async fn messages(
    State(app): State<App>,
    mut call: Call,
    Path(path): Path<String>,
    body: Reported<Messages>,
) -> Result<Response, ApiError> {
    let loaded = call.who.speaks_for_task(&app, id(&path, "id")?).await?;
    let state = &loaded.state;
    let generation = body.value.generation.unwrap_or(state.generation);
    if generation != state.generation {
        return Err(crate::domain::Refusal::conflict(
            "stale_generation",
            format!("claim {generation} of {} isn't the live one", state.name()),
            "Stop this run; the task went on without it.",
        )
        .into());
    }
    let size = transcript::size(&app.store, state.id, generation).await?;
    let mut room = app.limits.transcript_bytes.saturating_sub(size.bytes);
    let mut rows = Vec::with_capacity(body.value.messages.len());
    for message in body.value.messages {
        let Some(seq) = i32::try_from(message.seq).ok().filter(|seq| *seq > 0) else {
            return Err(ApiError::field("seq", "`seq` is a number from 1 to 2147483647"));
        };
        let body = serde_json::to_string(&clean(&app, message))?;
        // Past the bound nothing is kept; the run goes on.
        let Some(left) = room.checked_sub(body.len() as u64) else { break };
        room = left;
        rows.push(transcript::Message { seq, body, recorded_at: None });
    }
    let stored = transcript::append(&app.store, call.who.workspace, state.id, generation, &rows).await?;
    let head = *app.store.head().borrow();
    Ok(at(head, Json(json!({"status": "ok", "stored": stored}))))
}

fn clean(app: &App, message: Message) -> Message {
    let redacted = |text: Option<String>| text.map(|text| redact::secrets(&text));
    let bounded =
        |text: Option<String>| text.map(|text| text::head(&text, app.limits.tool_output_bytes).to_owned());
    Message {
        content: redacted(message.content),
        output: bounded(redacted(message.output)),
        input: message.input.map(redacted_json),
        ..message
    }
}

fn redacted_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact::secrets(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(redacted_json).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, value)| (key, redacted_json(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// `GET /api/daemon/tasks/{id}/messages`: what the server has of a transcript.
pub async fn messages_so_far(
    State(app): State<App>,
    mut who: Identity,
    Path(path): Path<String>,
    asked: Query<tasks::Since>,
) -> Result<Json<Vec<api::Message>>, ApiError> {
    who.speaks_for_task(&app, id(&path, "id")?).await?;
    tasks::messages(AsAsked(app), who, Path(path), asked).await
}

/// `POST /api/daemon/tasks/{id}/progress`: not kept.
pub async fn progress(
    State(app): State<App>,
    mut who: Identity,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    who.speaks_for_task(&app, id(&path, "id")?).await?;
    let head = *app.store.head().borrow();
    Ok(at(head, Json(json!({"status": "ok"}))))
}

/// `POST /api/daemon/tasks/{id}/wait-local-directory` of public daemons, which keep their own queue.
pub async fn wait_local_directory(
    State(app): State<App>,
    mut who: Identity,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    let loaded = who.speaks_for_task(&app, id(&path, "id")?).await?;
    let head = *app.store.head().borrow();
    Ok(at(head, Json(tasks::shown(&app, who.workspace, loaded.state.id).await?)))
}

/// `POST /api/daemon/runtimes/{r}/tasks/{t}/prepare-lease`: the claim is kept by heartbeats.
pub async fn prepare_lease(
    State(app): State<App>,
    mut who: Identity,
    Path((_runtime, path)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let loaded = who.speaks_for_task(&app, id(&path, "id")?).await?;
    let head = *app.store.head().borrow();
    Ok(at(head, Json(tasks::shown(&app, who.workspace, loaded.state.id).await?)))
}

/// `POST /api/daemon/runtimes/{id}/recover-orphans`: what a public daemon ran before it was started again
/// is lost.
pub async fn recover_orphans(
    State(app): State<App>,
    mut call: Call,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    let runtime: RuntimeId = id(&path, "id")?;
    let workspace = call.who.workspace;
    let row = call.who.speaks_for_runtime(&app, runtime).await?;
    let mut position = *app.store.head().borrow();
    let (mut orphaned, mut retried) = (0_u32, 0_u32);
    // Our own daemons recover their runs from their files.
    let keeps_runs = row.capabilities.iter().any(|capability| capability == DIRECTORY_QUEUE);
    let claimed = task_status::of_daemon(&app.store, &app.registry, workspace, &row.daemon).await?;
    for found in claimed.into_iter().filter(|found| !keeps_runs && found.row.runtime == runtime) {
        let decision = TaskReport {
            workspace,
            task: found.row.id,
            generation: Some(found.row.generation),
            body: ReportBody::Fail {
                error: String::new(),
                failure_reason: "runtime_recovery".to_owned(),
                ending: EndingReport::default(),
            },
            text: None,
            last_word: None,
            transcript: (0, None),
            retry: TaskId(app.world.uuid_v7()),
            daemon_slots: app.limits.daemon_slots,
        };
        let part = format!("orphan/{}", found.row.id);
        let done = call.submit_part(&app, "task.recover_orphan", &part, decision).await?;
        position = position.max(done.position);
        let after = task(&app, workspace, found.row.id).await?.state;
        if matches!(after.phase, Phase::Ended { .. }) && after.status() == Status::Failed {
            orphaned += 1;
            retried += u32::from(after.retried_by.is_some());
        }
    }
    Ok(at(position, Json(json!({"orphaned": orphaned, "retried": retried}))))
}
