//! Read models: how they stand, rebuilt, verified, made to pass over an event.
//!
//! They are the installation's: whoever is an admin somewhere may look after them.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use crate::app::operation_write::OperationWrite;
use crate::app::verify::{compared, standing_faults};
use crate::domain::operation::{EventSkipped, NOWHERE, OperationCommand, ReadModelRebuilt};
use crate::domain::workspace::Role;
use crate::http::App;
use crate::http::auth::Identity;
use crate::http::body::Path;
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at};
use crate::kernel::error_chain::Chain;
use crate::readmodel::query::{self, Standing};
use crate::readmodel::{Registered, follower, rebuild};
use crate::store::raw;

/// `GET /api/projections`: how every read model stands.
pub async fn list(State(app): State<App>, who: Identity) -> Result<Json<Value>, ApiError> {
    who.must_be(Role::Admin)?;
    let all = query::standings(&app.store).await?;
    let shown: Vec<Value> = all.iter().map(shown).collect();
    Ok(Json(json!({"projections": shown, "unknown_events": raw::unknown_events()})))
}

fn shown(standing: &Standing) -> Value {
    let rebuild = standing.rebuild.as_ref().map(
        |rebuild| json!({"state": rebuild.state, "position": rebuild.checkpoint, "target": rebuild.target}),
    );
    json!({"name": standing.name, "version": standing.version, "mode": standing.mode, "state": standing.state,
        "table": standing.table, "position": standing.checkpoint, "head": standing.head,
        "stopped_at": standing.stopped_at, "reason": standing.stop_reason, "degraded": standing.degraded,
        "fault": standing.fault(), "rebuild": rebuild})
}

/// What is wrong with read models, for people of any role: without the reason, which may hold details.
pub async fn faults(app: &App) -> Vec<String> {
    let standings = match query::standings(&app.store).await {
        Ok(standings) => standings,
        Err(error) => {
            // The page itself says so where it matters.
            tracing::warn!(error = %Chain(&error), "read models can't be looked at");
            return Vec::new();
        }
    };
    let bare = |standing: Standing| Standing { stop_reason: None, ..standing }.fault();
    standings.into_iter().filter_map(bare).collect()
}

/// A read model by its name.
fn named<'a>(app: &'a App, name: &str) -> Result<&'a Registered, ApiError> {
    app.registry.get(name).map_err(|_| ApiError::unknown("read model", name))
}

/// `POST /api/projections/{id}/rebuild`: beside the live one, then in its place. A caller that leaves stops it;
/// the next one goes on from there.
pub async fn rebuild(
    State(app): State<App>,
    mut call: Call,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    let registered = named(&app, &name)?;
    let version = registered.model().version();
    let rebuilt = rebuild::run(&app.store, &app.registry, &name).await?;
    call.who.workspace = NOWHERE;
    let (read_model, up_to, rows) = (name.clone(), rebuilt.up_to, rebuilt.rows);
    let command = OperationCommand::RecordRebuild(ReadModelRebuilt { read_model, version, up_to, rows });
    let mut position = call
        .submit(&app, "operation.rebuild", &Value::Null, OperationWrite { workspace: NOWHERE, command })
        .await?
        .position;
    if let Some((passed, reason)) = &rebuilt.first_passed {
        position = record_skip(&app, &call, &name, *passed, reason).await?;
    }
    rebuild::retire(&app.store, &name).await?;
    let first = rebuilt.first_passed.as_ref();
    let answer = json!({"name": name, "version": version, "up_to": up_to, "rows": rows,
        "passed_over": rebuilt.passed_over, "first_passed": first.map(|(at, _)| at),
        "reason": first.map(|(_, why)| why), "recorded": position});
    Ok(at(position, Json(answer)))
}

async fn record_skip(app: &App, call: &Call, name: &str, at: i64, reason: &str) -> Result<i64, ApiError> {
    let event = EventSkipped { read_model: name.to_owned(), position: at, reason: reason.to_owned() };
    let write = OperationWrite { workspace: NOWHERE, command: OperationCommand::RecordSkip(event) };
    Ok(call.submit_part(app, "operation.skip", "skip", write).await?.position)
}

/// `POST /api/projections/{id}/verify`: compares the table with the log; changes and records nothing.
pub async fn verify(
    State(app): State<App>,
    who: Identity,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    who.must_be(Role::Admin)?;
    let registered = named(&app, &name)?;
    let mut findings = compared(&app.store, registered).await?;
    findings.extend(standing_faults(&app.store, Some(&name)).await?);
    Ok(Json(json!({"name": name, "version": registered.model().version(), "findings": findings})))
}

/// `POST /api/projections/{id}/skip`: passes over the event at which a follower stands still.
pub async fn skip(
    State(app): State<App>,
    mut call: Call,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    let registered = named(&app, &name)?;
    let all = query::standings(&app.store).await?;
    let stopped = all.into_iter().find(|standing| standing.name == name && standing.state == "stopped");
    let Some((stopped_at, reason)) = stopped.and_then(|s| Some((s.stopped_at?, s.stop_reason?))) else {
        return Err(ApiError::NotStopped { name });
    };
    call.who.workspace = NOWHERE;
    // Written down first: a skip that nobody knows of would be worse than one said twice.
    let position = record_skip(&app, &call, &name, stopped_at, &reason).await?;
    let skipped = follower::skip(&app.store, registered, stopped_at).await?;
    let answer = json!({"name": name, "skipped": stopped_at, "reason": reason, "moved_on": skipped,
        "recorded": position});
    Ok(at(position, Json(answer)))
}
