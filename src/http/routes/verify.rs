//! Is the log what was written? Verifications and seals.

use std::convert::Infallible;

use axum::Json;
use axum::body::{Body as Bytes, Bytes as Part};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::super::App;
use super::super::auth::Identity;
use super::super::body::Body;
use super::super::error::ApiError;
use super::super::idempotency::{Call, at};
use crate::app::operation_write::OperationWrite;
use crate::app::verify::{Verification, own_seals, run};
use crate::domain::Refusal;
use crate::domain::operation::{NOWHERE, OperationCommand, Sealed, Verified};
use crate::domain::workspace::Role;
use crate::kernel::error_chain::Chain;
use crate::store::verify as walk;
use crate::wire::api::{PutSeal, SealDone, SealRequest, VerifyLine, VerifyRequest};

/// Lines on their way to a reader; a slower one misses some of how far it is, never the result.
const ROOM: usize = 16;

/// `POST /api/verify`: walks the log, holds it against seals, compares the read models with it and records
/// what was found. With `progress` the answer is lines of JSON, the last of them the result.
pub async fn verify(
    State(app): State<App>,
    mut call: Call,
    body: Body<VerifyRequest>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    // It is the installation that is verified, not the workspace of who asks.
    call.who.workspace = NOWHERE;
    let asked = body.value;
    let most = app.limits.verified_seals;
    if asked.seals.len() > most {
        let sentence = format!("`seals` has more than {most}; send the newest");
        return Err(ApiError::field("seals", sentence));
    }
    if !asked.progress {
        let (answer, position) = verified(&app, &call, asked, &|_, _, _| {}).await?;
        return Ok(match position {
            Some(position) => at(position, Json(answer)),
            None => Json(answer).into_response(),
        });
    }
    let (lines, receiver) = mpsc::channel(ROOM);
    tokio::spawn(tell(app, call, asked, lines));
    let mut response = Bytes::from_stream(ReceiverStream::new(receiver)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/x-ndjson"));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    Ok(response)
}

type Lines = mpsc::Sender<Result<Part, Infallible>>;

/// Verifies for a reader of lines, until it has gone or the server stops.
async fn tell(app: App, call: Call, asked: VerifyRequest, lines: Lines) {
    let heard = |what: &str, done: i64, of: i64| {
        let line = VerifyLine::At { what: what.to_owned(), done, of };
        // A reader that is behind misses a step, and needs none of them.
        drop(lines.try_send(Ok(part(&line))));
    };
    let work = tokio::time::timeout(app.limits.slow_request.duration(), verified(&app, &call, asked, &heard));
    let last = tokio::select! {
        () = app.shutdown.cancelled() => return,
        () = lines.closed() => return,
        done = work => match done.unwrap_or(Err(ApiError::TimedOut)) {
            Ok((answer, _)) => VerifyLine::Done(answer),
            Err(error) => VerifyLine::Failed(json!(error.problem())),
        },
    };
    drop(lines.send(Ok(part(&last))).await);
}

fn part(line: &VerifyLine) -> Part {
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text.into()
}

/// The answer, and the position of the event that tells of it.
async fn verified(
    app: &App,
    call: &Call,
    asked: VerifyRequest,
    tell: crate::app::verify::Tell<'_>,
) -> Result<(Value, Option<i64>), ApiError> {
    let (mut seals, wrong) = own_seals(&app.seals).await;
    seals.extend(asked.seals.into_iter().map(|(position, block)| walk::Sealed { position, block }));
    let mut found = run(&app.store, &app.registry, seals, tell).await?;
    found.findings.extend(wrong);
    let mut answer = serde_json::to_value(&found)?;
    answer["recorded"] = Value::Null;
    let write = OperationWrite {
        workspace: NOWHERE,
        command: OperationCommand::RecordVerified(recorded(app, &found)),
    };
    match call.submit(app, "operation.verify", &Value::Null, write).await {
        Ok(done) => {
            answer["recorded"] = json!(done.position);
            Ok((answer, Some(done.position)))
        }
        // What is wrong may be what keeps it from being recorded: it is told all the same.
        Err(error) => {
            tracing::warn!(error = %Chain(&error), "a verification could not be recorded");
            Ok((answer, None))
        }
    }
}

fn recorded(app: &App, found: &Verification) -> Verified {
    let sentences = found.findings.iter().map(|finding| finding.sentence.clone());
    Verified {
        up_to: found.up_to,
        blocks: found.blocks,
        erased: found.erased,
        read_models: found.read_models,
        found: found.findings.len() as u64,
        findings: sentences.take(app.limits.verified_findings).collect(),
    }
}

/// `GET /api/seal`: the seal of the log as it is, for whoever keeps it.
pub async fn seal(State(app): State<App>, who: Identity) -> Result<Response, ApiError> {
    who.must_be(Role::Admin)?;
    let seal = app.seals.now().await?.ok_or(ApiError::Refused(empty()))?;
    Ok(Json(seal).into_response())
}

/// `POST /api/seals`: seals to the server's own places, or records a seal that the caller has put somewhere.
pub async fn record(
    State(app): State<App>,
    mut call: Call,
    body: Body<SealRequest>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    call.who.workspace = NOWHERE;
    let puts = match body.value.put {
        Some(put) => {
            if !app.seals.stands(put.position, &put.block).await? {
                return Err(ApiError::Refused(Refusal::conflict(
                    "seal_unknown",
                    "no block with that hash ends at that position",
                    "Ask for a fresh seal, and verify the log: `multica verify`.",
                )));
            }
            vec![put]
        }
        None => own(&app).await?,
    };
    let mut last = None;
    for (n, put) in puts.iter().enumerate() {
        let sealed = Sealed { up_to: put.position, block: put.block.clone(), place: put.place };
        let write = OperationWrite { workspace: NOWHERE, command: OperationCommand::RecordSealed(sealed) };
        last = Some(call.submit_part(&app, "operation.seal", &n.to_string(), write).await?);
    }
    let (Some(done), Some(first)) = (last, puts.first()) else { return Err(ApiError::Refused(no_place())) };
    let places = puts.iter().map(|put| put.place).collect();
    let (position, block) = (first.position, first.block.clone());
    Ok(at(done.position, Json(SealDone { position, block, places, recorded: done.position })))
}

/// Puts a seal at the server's own places.
async fn own(app: &App) -> Result<Vec<PutSeal>, ApiError> {
    if app.seals.places.is_empty() {
        return Err(ApiError::Refused(no_place()));
    }
    let seal = app.seals.now().await?.ok_or(ApiError::Refused(empty()))?;
    app.seals.put(&seal).await.map_err(|error| {
        tracing::error!(error = %Chain(&error), "the log could not be sealed");
        ApiError::Refused(Refusal::conflict(
            "seal_place_failed",
            "the server could not put the seal at its place; its log says why",
            "Check the place that the server was started with (--seal-to), or keep the seal here: `multica seal --to \
             file:PATH`.",
        ))
    })?;
    let put = |place: &crate::seal::Place| PutSeal {
        position: seal.position,
        block: seal.block.clone(),
        place: place.kind(),
    };
    Ok(app.seals.places.iter().map(put).collect())
}

fn no_place() -> Refusal {
    Refusal::conflict(
        "no_seal_place",
        "this server keeps no seals of its own",
        "Keep the seal on this machine: `multica seal --to file:PATH`; or start the server with --seal-to.",
    )
}

fn empty() -> Refusal {
    Refusal::conflict("log_empty", "there is nothing to seal yet", "Do something first.")
}
