//! The audit trail: who did what, what was refused, and all of it to take away.
//!
//! Invariants: persons only: an agent's token can't read who did what in the whole workspace; private fields
//! are shown to admins, and never leave in an export.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use crate::domain::workspace::Role;
use crate::http::App;
use crate::http::audit::{self, Asked, Private};
use crate::http::auth::Identity;
use crate::http::body::{Path, Query};
use crate::http::error::ApiError;
use crate::http::export::{self, Export};
use crate::http::idempotency::Call;
use crate::readmodel::audit_trail::Found;
use crate::store::read;
use crate::wire::audit::{AuditEvent, AuditPage};

/// What that person is shown of private fields.
#[must_use]
pub fn private(who: &Identity) -> Private {
    if who.role >= Role::Admin { Private::Shown } else { Private::Hidden }
}

/// `GET /api/audit`.
pub async fn list(
    State(app): State<App>,
    who: Identity,
    Query(asked): Query<Asked>,
) -> Result<Json<AuditPage>, ApiError> {
    who.user()?;
    Ok(Json(audit::page(&app, who.workspace, &asked, Private::NoData).await?))
}

/// `GET /api/audit/{position}`: one event, whole.
pub async fn show(
    State(app): State<App>,
    who: Identity,
    Path(position): Path<String>,
) -> Result<Json<AuditEvent>, ApiError> {
    who.user()?;
    let at: i64 = position
        .parse()
        .ok()
        .filter(|at| *at > 0)
        .ok_or_else(|| ApiError::field("position", "`position` is a whole number from 1 on"))?;
    let event = read::at_positions(&app.store, &[at]).await?.pop();
    let event = event
        .filter(|event| event.workspace == who.workspace.0)
        .ok_or_else(|| ApiError::unknown("event", at))?;
    let found = Found::Event(Box::new(event.clone()));
    let entry = audit::one(&app, who.workspace, found, private(&who)).await?;
    Ok(Json(AuditEvent {
        entry,
        event_id: event.event_id.to_string(),
        version: event.version,
        schema_version: event.schema_version,
        schema: format!("urn:multica:event:{}:v{}", event.event_type, event.schema_version),
        meta: serde_json::from_str(&event.meta)?,
    }))
}

/// `POST /api/audit/export`: the filters of the list, and how it is written.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct AskedExport {
    format: Option<String>,
    after: Option<String>,
    up_to: Option<i64>,
    headless: Option<bool>,
}

/// Oldest first, as a stream. That it was made is an event, recorded before the first entry leaves.
pub async fn export(
    State(app): State<App>,
    call: Call,
    Query(asked): Query<Asked>,
    Query(more): Query<AskedExport>,
) -> Result<Response, ApiError> {
    call.who.user()?;
    let filter = asked.filter(&app, call.who.workspace).await?;
    let head = read::head(&app.store).await?;
    let export = Export {
        format: more.format.as_deref().unwrap_or("jsonl").parse()?,
        after: audit::place(more.after.as_ref(), "after")?.unwrap_or_default(),
        up_to: more.up_to.unwrap_or(head).clamp(0, head),
        headless: more.headless.unwrap_or(false),
        filter,
    };
    export::answer(app, call, export).await
}
