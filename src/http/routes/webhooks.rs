//! Webhooks: made, changed, removed; for admins.
//!
//! Not here: their deliveries (`webhook_deliveries`).

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::one_of;
use crate::app::AppError;
use crate::app::decision::Committed;
use crate::app::webhook_write::WebhookWrite;
use crate::app::writer::check::Schemas;
use crate::domain::webhook::{self, Created, OffBecause, Updated, Webhook, WebhookCommand, WebhookEvent};
use crate::domain::workspace::Role;
use crate::domain::{Family, Refusal};
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::auth::Identity;
use crate::http::body::{Body, Path};
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at};
use crate::http::objects::{Loaded, load_one};
use crate::kernel::ids::{SecretId, WebhookId, WorkspaceId};
use crate::kernel::limits::Millis;
use crate::kernel::text;
use crate::readmodel::{query, webhooks};
use crate::store::webhooks::{self as deliveries, Cursor, LIVE};
use crate::webhook::address::Target;
use crate::wire::api;

/// So much of a wrong value is told back, bytes.
const NAMED_BYTES: usize = 80;

/// `GET /api/webhooks`: oldest first.
pub async fn list(AsAsked(app): AsAsked, who: Identity) -> Result<Json<Vec<api::Webhook>>, ApiError> {
    who.must_be(Role::Admin)?;
    query::settle(&app.store, app.registry.get("webhooks")?).await?;
    let found = webhooks::of_workspace(&app.store, &app.registry, who.workspace).await?;
    shown(&app, who.workspace, &found.iter().map(|found| found.row.id).collect::<Vec<_>>()).await.map(Json)
}

/// `GET /api/webhooks/{id}`, by id or name.
pub async fn get(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<api::Webhook>, ApiError> {
    who.must_be(Role::Admin)?;
    let id = named(&app, who.workspace, &path).await?;
    one(&app, who.workspace, id).await.map(Json)
}

/// The webhook that somebody calls by its id or its name.
///
/// # Errors
/// `not_found`.
pub async fn named(app: &App, workspace: WorkspaceId, reference: &str) -> Result<WebhookId, ApiError> {
    query::settle(&app.store, app.registry.get("webhooks")?).await?;
    let found = webhooks::of_workspace(&app.store, &app.registry, workspace).await?;
    let id = reference.parse().ok();
    let wanted = reference.to_lowercase();
    let fits = |name: &str, one: WebhookId| Some(one) == id || name.to_lowercase() == wanted;
    let row = found.into_iter().find(|found| fits(&found.row.name, found.row.id));
    if let Some(found) = row {
        return Ok(found.row.id);
    }
    // One that is gone has a history too.
    if let Some(id) = id
        && webhooks::of(&app.store, &app.registry, workspace, id).await?.is_some()
    {
        return Ok(id);
    }
    Err(ApiError::unknown("webhook", text::head(reference, NAMED_BYTES)))
}

pub(super) async fn loaded(
    app: &App,
    workspace: WorkspaceId,
    id: WebhookId,
) -> Result<Loaded<Webhook>, ApiError> {
    let found = load_one(app, workspace, webhook::evolve::stream(id), webhook::evolve::fold).await?;
    found.filter(|found| !found.state.removed).ok_or_else(|| ApiError::unknown("webhook", id))
}

pub(super) async fn one(app: &App, workspace: WorkspaceId, id: WebhookId) -> Result<api::Webhook, ApiError> {
    shown(app, workspace, &[id]).await?.pop().ok_or_else(|| ApiError::unknown("webhook", id))
}

async fn shown(app: &App, workspace: WorkspaceId, ids: &[WebhookId]) -> Result<Vec<api::Webhook>, ApiError> {
    let mut progress = progress(app, ids).await?;
    let mut values = Vec::with_capacity(ids.len());
    for id in ids {
        let Loaded { state, events } = loaded(app, workspace, *id).await?;
        let by_somebody = |event: &WebhookEvent| {
            !matches!(
                event,
                WebhookEvent::DeadLettered(_)
                    | WebhookEvent::RetryAsked(_)
                    | WebhookEvent::ReplayAsked(_)
                    | WebhookEvent::Tested(_)
            )
        };
        let changed =
            events.iter().rev().find(|event| webhook::evolve::pick(&event.event).is_some_and(by_somebody));
        values.push(api::Webhook {
            id: state.id,
            workspace_id: workspace,
            name: state.name,
            url: state.url,
            types: state.types,
            status: if state.off.is_some() { "off" } else { "on" }.to_owned(),
            off_because: state.off,
            old_secret_until: state.old.map(|(_, until)| until).filter(|until| *until > app.now()),
            created_at: events.first().and_then(|event| event.recorded_at),
            updated_at: changed.and_then(|event| event.recorded_at),
            dead: state.dead.len(),
            progress: progress.remove(id),
            secret: None,
        });
    }
    Ok(values)
}

/// How deliveries stand; nothing of an earlier moment, for which it isn't kept.
async fn progress(app: &App, ids: &[WebhookId]) -> Result<BTreeMap<WebhookId, api::Progress>, ApiError> {
    if app.store.as_of().is_some() {
        return Ok(BTreeMap::new());
    }
    let head = *app.store.head().borrow();
    let mut cursors: BTreeMap<WebhookId, Vec<Cursor>> = BTreeMap::new();
    for cursor in deliveries::cursors(&app.store, None).await? {
        cursors.entry(cursor.webhook).or_default().push(cursor);
    }
    // After the cursors: what they have passed is counted, or over.
    let mut counts = deliveries::counts(&app.store, ids.iter().copied()).await?;
    let one = |id: &WebhookId| {
        let counts = counts.remove(id).unwrap_or_default();
        let cursors = cursors.remove(id).unwrap_or_default();
        let replays = cursors.iter().filter(|cursor| cursor.replay != LIVE && cursor.behind);
        let progress = api::Progress {
            position: cursors.iter().find(|cursor| cursor.replay == LIVE).map_or(0, |cursor| cursor.position),
            head,
            waiting: counts.waiting,
            first_waiting: counts.first_waiting,
            delivered_at: counts.delivered_at,
            failed_at: counts.failed_at,
            replays: replays
                .map(|cursor| api::ReplayProgress {
                    asked: cursor.replay,
                    position: cursor.position,
                    up_to: cursor.up_to.unwrap_or(head),
                })
                .collect(),
        };
        (*id, progress)
    };
    Ok(ids.iter().map(one).collect())
}

/// `POST /api/webhooks`.
#[derive(Debug, Deserialize)]
pub struct NewWebhook {
    name: String,
    url: String,
    #[serde(default)]
    types: Vec<String>,
}

/// Creates a webhook; its secret is in this answer and nowhere else.
pub async fn create(
    State(app): State<App>,
    call: Call,
    body: Body<NewWebhook>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    let workspace = call.who.workspace;
    let url = address(&app, &body.value.url).await?;
    let types = types(&app, body.value.types)?;
    let id = WebhookId(app.world.uuid_v7());
    let (secret, shown) = app.webhooks.make_secret(workspace, id).await?;
    let facts = Created { name: body.value.name, url, types, secret };
    let command = WebhookCommand::Create(facts);
    let done = with_secret(&app, &call, "webhook.create", &body.raw, (id, secret), command).await?;
    let value = api::Webhook { secret: Some(shown), ..one(&app, workspace, id).await? };
    Ok(at(done.position, (StatusCode::CREATED, Json(value))))
}

/// Writes a command that gives a webhook a fresh secret. A secret is shown once, also to who asks under the same key
/// again; one that came to nothing is forgotten.
async fn with_secret(
    app: &App,
    call: &Call,
    kind: &'static str,
    body: &Value,
    (webhook, secret): (WebhookId, SecretId),
    command: WebhookCommand,
) -> Result<Committed, ApiError> {
    let done = write(app, call, kind, body, webhook, command).await;
    let repeated = done.as_ref().is_ok_and(|done| done.repeated);
    // Of any other failure it isn't known whether it was carried out.
    if repeated || matches!(&done, Err(ApiError::Refused(_) | ApiError::App(AppError::Refused(_)))) {
        app.webhooks.forget_secret(call.who.workspace, webhook, secret).await;
    }
    if repeated {
        return Err(Refusal::conflict(
            "secret_already_shown",
            "this was done before, and its secret is shown only once",
            "Give the webhook another secret if it is lost: `multica webhook rotate-secret`.",
        )
        .into());
    }
    done
}

pub(super) async fn write(
    app: &App,
    call: &Call,
    kind: &'static str,
    body: &Value,
    webhook: WebhookId,
    command: WebhookCommand,
) -> Result<Committed, ApiError> {
    let workspace = call.who.workspace;
    call.submit(app, kind, body, WebhookWrite { workspace, webhook, command, most: app.limits.webhooks })
        .await
}

/// An address that may be delivered to, as far as that can be said now.
async fn address(app: &App, text: &str) -> Result<String, ApiError> {
    let text = text.trim();
    let most = app.limits.webhook_url_bytes;
    if text.len() > most {
        return Err(ApiError::field("url", format!("`url` has more than {most} bytes")));
    }
    let wrong =
        |why: &dyn std::fmt::Display| ApiError::field("url", format!("`url` can't be delivered to: {why}"));
    let target: Target = text.parse().map_err(|error| wrong(&error))?;
    app.webhooks.sender.may(&target).await.map_err(|refused| {
        ApiError::from(Refusal::invalid(
            "address_refused",
            format!("webhooks aren't delivered to {}: {refused}", target.host),
            "Use another address, or ask the operator to allow this one (--webhook-to).",
        ))
    })?;
    Ok(target.url.to_string())
}

/// Types that there are: whole ones, families, or beginnings with `*` behind them.
fn types(app: &App, asked: Vec<String>) -> Result<Vec<String>, ApiError> {
    let most = app.limits.webhook_types;
    if asked.len() > most {
        return Err(ApiError::field("types", format!("`types` has more than {most} entries")));
    }
    let own = Family::Webhook.name();
    let mut known: Vec<String> = Schemas::catalogue().into_iter().map(|known| known.event_type).collect();
    known.retain(|known| !known.starts_with(own));
    known.dedup();
    let mut kept: Vec<String> = Vec::new();
    for one in asked {
        let one = one.trim().to_owned();
        let of_family = |family: &str| known.iter().any(|known| known.split('.').next() == Some(family));
        let there = match one.strip_suffix('*') {
            Some(head) => known.iter().any(|known| known.starts_with(head)),
            None => known.contains(&one) || of_family(&one),
        };
        if !there {
            let family = one.split('.').next().unwrap_or_default();
            let near: Vec<&str> = known
                .iter()
                .filter(|known| known.split('.').next() == Some(family))
                .map(String::as_str)
                .collect();
            let families: Vec<&str> =
                Family::ALL.iter().map(|family| family.name()).filter(|family| *family != own).collect();
            one_of(&one, if near.is_empty() { &families } else { &near }, "types")?;
            return Err(ApiError::field("types", "`types` names what there is not"));
        }
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    Ok(kept)
}

/// `PUT /api/webhooks/{id}`: absent fields keep their value.
#[derive(Debug, Deserialize)]
pub struct Change {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    types: Option<Vec<String>>,
    #[serde(default)]
    enabled: Option<bool>,
}

/// Changes a webhook, switches it on or off.
pub async fn update(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
    body: Body<Change>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    let id = named(&app, call.who.workspace, &path).await?;
    let asked = body.value;
    let url = match asked.url {
        Some(url) => Some(address(&app, &url).await?),
        None => None,
    };
    let types = asked.types.map(|asked| types(&app, asked)).transpose()?;
    let change = WebhookCommand::Update(Updated { name: asked.name, url, types });
    let mut done = write(&app, &call, "webhook.update", &body.raw, id, change).await?;
    let switch = match asked.enabled {
        Some(true) => Some(("webhook.enable", WebhookCommand::Enable)),
        Some(false) => Some(("webhook.disable", WebhookCommand::Disable(OffBecause::Asked))),
        None => None,
    };
    if let Some((kind, command)) = switch {
        let (workspace, most) = (call.who.workspace, app.limits.webhooks);
        let write = WebhookWrite { workspace, webhook: id, command, most };
        done = call.submit_part(&app, kind, "switch", write).await?;
    }
    Ok(at(done.position, Json(one(&app, call.who.workspace, id).await?)))
}

/// `DELETE /api/webhooks/{id}`.
pub async fn remove(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    let id = named(&app, call.who.workspace, &path).await?;
    let done = write(&app, &call, "webhook.remove", &Value::Null, id, WebhookCommand::Remove).await?;
    Ok(at(done.position, StatusCode::NO_CONTENT))
}

/// `POST /api/webhooks/{id}/rotate-secret`.
#[derive(Debug, Deserialize)]
pub struct Rotation {
    #[serde(default)]
    overlap_seconds: Option<u64>,
}

/// Gives a webhook another secret; it is in this answer and nowhere else.
pub async fn rotate_secret(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
    body: Body<Rotation>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    let workspace = call.who.workspace;
    let id = named(&app, workspace, &path).await?;
    loaded(&app, workspace, id).await?;
    let overlap = match body.value.overlap_seconds {
        None => app.limits.webhook_overlap,
        Some(seconds) => Millis(seconds.saturating_mul(1_000)),
    };
    if overlap > app.limits.webhook_overlap_most {
        let days = app.limits.webhook_overlap_most.duration().as_secs() / (24 * 60 * 60);
        let sentence = format!("the old secret signs for {days} days at most: `overlap_seconds`");
        return Err(ApiError::field("overlap_seconds", sentence));
    }
    let old_until = app.world.now().checked_add(overlap.duration()).unwrap_or(Timestamp::MAX);
    let (secret, shown) = app.webhooks.make_secret(workspace, id).await?;
    let command = WebhookCommand::Rotate { secret, old_until };
    let done = with_secret(&app, &call, "webhook.rotate_secret", &body.raw, (id, secret), command).await?;
    let value = api::Webhook { secret: Some(shown), ..one(&app, workspace, id).await? };
    Ok(at(done.position, Json(value)))
}
