//! What became of a webhook's deliveries, and what can be asked for: once more, from anywhere on, a test.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;

use super::webhooks::{loaded, named, one, write};
use super::{listed, one_of};
use crate::domain::webhook::{self, ReplayAsked, Tested, WebhookCommand, delivery};
use crate::domain::workspace::Role;
use crate::http::App;
use crate::http::auth::Identity;
use crate::http::body::{Body, Path, Query};
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at};
use crate::kernel::ids::WebhookId;
use crate::store::webhooks::{self as deliveries, State as Standing};
use crate::wire::api;

/// `GET /api/webhooks/{id}/deliveries?state=&before=&limit=`.
#[derive(Debug, Default, Deserialize)]
pub struct Asked {
    state: Option<String>,
    before: Option<i64>,
    limit: Option<u32>,
}

/// Those of the newest events first.
pub async fn list(
    State(app): State<App>,
    who: Identity,
    Path(path): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Json<api::Deliveries>, ApiError> {
    who.must_be(Role::Admin)?;
    let id = named(&app, who.workspace, &path).await?;
    page(&app, id, &asked).await.map(Json)
}

/// The newest deliveries in a state.
///
/// # Errors
/// What went wrong with the database.
pub async fn newest(
    app: &App,
    id: WebhookId,
    state: Option<&str>,
    limit: u32,
) -> Result<Vec<api::Delivery>, ApiError> {
    let asked = Asked { state: state.map(str::to_owned), before: None, limit: Some(limit) };
    Ok(page(app, id, &asked).await?.deliveries)
}

async fn page(app: &App, id: WebhookId, asked: &Asked) -> Result<api::Deliveries, ApiError> {
    let state = match asked.state.as_deref().filter(|word| !word.is_empty()) {
        None => None,
        Some(word) => {
            one_of(word, &Standing::ALL.map(Standing::name), "state")?;
            Standing::ALL.into_iter().find(|state| state.name() == word)
        }
    };
    let limit = listed(app, asked.limit);
    let before = asked.before.unwrap_or(i64::MAX);
    let mut found = deliveries::list(&app.store, id, state, before, limit.saturating_add(1)).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|last| last.position);
    Ok(api::Deliveries { deliveries: found.into_iter().map(|one| value(id, one)).collect(), next })
}

fn value(webhook: WebhookId, one: deliveries::Delivery) -> api::Delivery {
    let problem = one.problem.as_deref().and_then(webhook::Problem::from_name);
    api::Delivery {
        id: delivery::id(webhook, one.position),
        position: one.position,
        event_type: one.event_type,
        stream_id: one.stream,
        due_at: (one.state == Standing::Waiting.name()).then_some(one.due_at),
        state: one.state,
        attempts: one.attempts,
        rounds: one.round,
        tried_at: one.tried_at,
        problem: one.problem,
        problem_text: problem.map(|problem| problem.words().to_owned()),
        status: one.status,
        millis: one.millis,
    }
}

/// `POST /api/webhooks/{id}/retry`.
#[derive(Debug, Deserialize)]
pub struct Retried {
    #[serde(default)]
    positions: Option<Vec<i64>>,
}

/// Tries deliveries again that were given up: some, or all.
pub async fn retry(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
    body: Body<Retried>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    let id = named(&app, call.who.workspace, &path).await?;
    let most = app.limits.webhook_dead;
    if body.value.positions.as_ref().is_some_and(|positions| positions.len() > most) {
        return Err(ApiError::field("positions", format!("`positions` has more than {most} entries")));
    }
    let command = WebhookCommand::Retry { positions: body.value.positions };
    let done = write(&app, &call, "webhook.retry", &body.raw, id, command).await?;
    Ok(at(done.position, Json(one(&app, call.who.workspace, id).await?)))
}

/// `POST /api/webhooks/{id}/replay`.
#[derive(Debug, Deserialize)]
pub struct Replayed {
    #[serde(default)]
    from: i64,
    #[serde(default)]
    up_to: Option<i64>,
}

/// Delivers again what happened, under the ids that it was delivered under before.
pub async fn replay(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
    body: Body<Replayed>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    let id = named(&app, call.who.workspace, &path).await?;
    let head = *app.store.head().borrow();
    let asked = ReplayAsked { from: body.value.from, up_to: body.value.up_to.unwrap_or(head).min(head) };
    let value = api::Replay { from: asked.from, up_to: asked.up_to };
    let done = write(&app, &call, "webhook.replay", &body.raw, id, WebhookCommand::Replay(asked)).await?;
    Ok(at(done.position, Json(value)))
}

/// `POST /api/webhooks/{id}/test`: sends a test now, and says what the receiver said.
pub async fn test(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    call.who.must_be(Role::Admin)?;
    let workspace = call.who.workspace;
    let id = named(&app, workspace, &path).await?;
    let state = loaded(&app, workspace, id).await?.state;
    let test = app.webhooks.test(workspace, &state).await?;
    let (problem, status) = (test.outcome.problem, test.outcome.status);
    let command = WebhookCommand::RecordTest(Tested { problem, status });
    let done = write(&app, &call, "webhook.test", &Value::Null, id, command).await?;
    let value = api::Test {
        delivered: problem.is_none(),
        problem,
        problem_text: problem.map(|problem| problem.words().to_owned()),
        status,
        millis: u64::try_from(test.took.as_millis()).unwrap_or(u64::MAX),
    };
    Ok(at(done.position, Json(value)))
}
