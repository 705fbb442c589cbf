//! Who one is, workspaces, members, tokens.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{id, one_line};
use crate::app::workspace_write::WorkspaceWrite;
use crate::domain::Refusal;
use crate::domain::workspace::{TokenHolder, WorkspaceCommand};
use crate::fold::access::WorkspaceRow;
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::auth::{Caller, Identity};
use crate::http::body::{Body, Path};
use crate::http::error::ApiError;
use crate::http::idempotency::{Call, at};
use crate::http::objects::{Texts, ids, time};
use crate::http::token;
use crate::kernel::ids::{TokenId, WorkspaceId};
use crate::readmodel::access;
use crate::readmodel::found::Found;
use crate::wire::api;

/// `GET /api/me`.
pub async fn me(AsAsked(app): AsAsked, who: Identity) -> Result<Json<Value>, ApiError> {
    let agent = match &who.caller {
        Caller::Task { agent, task, .. } => Some((*agent, *task)),
        Caller::Member { .. } | Caller::Daemon { .. } => None,
    };
    if let Some((agent, task)) = agent {
        return Ok(Json(
            json!({"id": agent, "type": "agent", "task_id": task, "workspace_id": who.workspace}),
        ));
    }
    let user = who.user()?;
    let member = access::member(&app.store, &app.registry, who.workspace, user)
        .await?
        .ok_or(ApiError::NotFound("member"))?;
    let texts =
        Texts::load(&app, ids(std::iter::once(&member.row.name).chain(member.row.email.iter()))).await?;
    Ok(Json(json!({
        "id": user, "name": texts.of(&member.row.name), "email": texts.or_null(member.row.email.as_ref()),
        "type": "member", "role": who.role, "workspace_id": who.workspace, "avatar_url": null,
    })))
}

/// `GET /api/workspaces`.
pub async fn list(AsAsked(app): AsAsked, who: Identity) -> Result<Json<Vec<Value>>, ApiError> {
    let found = match &who.caller {
        Caller::Member { user, .. } => access::workspaces_of(&app.store, &app.registry, *user).await?,
        Caller::Daemon { .. } | Caller::Task { .. } => {
            access::workspace(&app.store, &app.registry, who.workspace).await?.into_iter().collect()
        }
    };
    Ok(Json(values(&app, &found).await?))
}

/// `GET /api/workspaces/{id}`.
pub async fn get(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let wanted: WorkspaceId = id(&path, "id")?;
    visible(&app, &who, wanted).await?;
    let found = access::workspace(&app.store, &app.registry, wanted).await?;
    let values = values(&app, &found.into_iter().collect::<Vec<_>>()).await?;
    values.into_iter().next().map(Json).ok_or(ApiError::NotFound("workspace"))
}

/// Lets pass whoever is a member of that workspace, or works in it.
///
/// # Errors
/// `not_found`.
pub async fn visible(app: &App, who: &Identity, wanted: WorkspaceId) -> Result<(), ApiError> {
    if wanted == who.workspace {
        return Ok(());
    }
    let role = match &who.caller {
        Caller::Member { user, .. } => access::role(&app.store, &app.registry, wanted, *user).await?,
        Caller::Daemon { .. } | Caller::Task { .. } => None,
    };
    role.map(|_| ()).ok_or(ApiError::NotFound("workspace"))
}

async fn values(app: &App, found: &[Found<WorkspaceRow>]) -> Result<Vec<Value>, ApiError> {
    let texts = Texts::load(app, ids(found.iter().map(|found| &found.row.name))).await?;
    Ok(found
        .iter()
        .map(|found| {
            let row = &found.row;
            json!({
                "id": row.id, "name": texts.of(&row.name), "slug": row.slug, "description": null,
                "context": null, "settings": {}, "repos": row.repos, "issue_prefix": row.issue_prefix,
                "avatar_url": null, "created_at": time(row.created_at.timestamp()),
                "updated_at": time(row.updated_at.timestamp()),
            })
        })
        .collect())
}

/// `GET /api/workspaces/{id}/members`.
pub async fn members(
    AsAsked(app): AsAsked,
    who: Identity,
    Path(path): Path<String>,
) -> Result<Json<Vec<api::Member>>, ApiError> {
    let wanted: WorkspaceId = id(&path, "id")?;
    visible(&app, &who, wanted).await?;
    let found = access::members(&app.store, &app.registry, wanted).await?;
    let references =
        found.iter().flat_map(|found| std::iter::once(&found.row.name).chain(found.row.email.iter()));
    let texts = Texts::load(&app, ids(references)).await?;
    let values = found.iter().map(|found| {
        let row = &found.row;
        api::Member {
            id: row.user,
            workspace_id: wanted,
            user_id: row.user,
            role: row.role,
            created_at: row.created_at.timestamp(),
            name: texts.of(&row.name).to_owned(),
            email: texts.of_some(row.email.as_ref()),
            avatar_url: None,
        }
    });
    Ok(Json(values.collect()))
}

/// `GET /api/tokens`.
pub async fn tokens(AsAsked(app): AsAsked, who: Identity) -> Result<Json<Vec<api::Token>>, ApiError> {
    let user = who.user()?;
    let found = access::tokens_of(&app.store, &app.registry, who.workspace, user).await?;
    let values = found.iter().map(|found| {
        let row = &found.row;
        let (kind, daemon) = match &row.holder {
            TokenHolder::Member { .. } => ("member", None),
            TokenHolder::Daemon { daemon, .. } => ("daemon", Some(daemon.clone())),
        };
        let expires = row.expires_at.and_then(|end| Timestamp::from_microsecond(end).ok());
        api::Token {
            id: row.id,
            name: row.name.clone(),
            kind: kind.to_owned(),
            daemon_id: daemon,
            expires_at: expires,
            last_used_at: None,
            created_at: row.created_at.timestamp(),
            token: None,
            token_prefix: None,
        }
    });
    Ok(Json(values.collect()))
}

/// `POST /api/tokens`.
#[derive(Debug, Deserialize)]
pub struct NewToken {
    name: String,
    #[serde(default)]
    daemon_id: Option<String>,
    #[serde(default)]
    expires_in_days: Option<u32>,
}

/// Issues a token; it is in this answer and nowhere else.
pub async fn issue_token(
    State(app): State<App>,
    call: Call,
    body: Body<NewToken>,
) -> Result<Response, ApiError> {
    let user = call.who.user()?;
    let name = one_line(&app, &body.value.name, "name", "")?;
    let prefix = if body.value.daemon_id.is_some() { token::DAEMON } else { token::MEMBER };
    let (secret, sha256) = token::fresh(prefix, app.world.random());
    let record = TokenId(app.world.uuid_v7());
    let now = app.world.now();
    let expires_at = match body.value.expires_in_days {
        None | Some(0) => None,
        Some(days) => {
            // Not "never" instead: that isn't what was asked for.
            let end = now.checked_add(SignedDuration::from_hours(24 * i64::from(days)));
            Some(end.map_err(|_| ApiError::field("expires_in_days", "`expires_in_days` is too far away"))?)
        }
    };
    if let Some(daemon) = &body.value.daemon_id {
        call.who.may_speak_for(&app, daemon).await?;
    }
    let holder = match body.value.daemon_id.clone() {
        Some(daemon) => TokenHolder::Daemon { daemon, user },
        None => TokenHolder::Member { user },
    };
    let command = WorkspaceCommand::IssueToken {
        by: Some(user),
        token: record,
        holder,
        name: name.clone(),
        sha256,
        expires_at,
    };
    let decision = WorkspaceWrite {
        workspace: call.who.workspace,
        commands: vec![command],
        contents: Vec::new(),
        result: json!({"token_id": record}),
    };
    let done = call.submit(&app, "token.issue", &body.raw, decision).await?;
    if done.repeated {
        return Err(Refusal::conflict(
            "token_already_shown",
            "this token was issued before, and is shown only once",
            "Issue another one with a fresh idempotency key; revoke this one if it is lost.",
        )
        .into());
    }
    let kind = if body.value.daemon_id.is_some() { "daemon" } else { "member" };
    let value = api::Token {
        id: record,
        name,
        kind: kind.to_owned(),
        daemon_id: body.value.daemon_id,
        expires_at,
        last_used_at: None,
        created_at: Some(now),
        token_prefix: secret.get(..12).map(str::to_owned),
        token: Some(secret),
    };
    Ok(at(done.position, (StatusCode::CREATED, Json(value))))
}

/// `DELETE /api/tokens/{id}`.
pub async fn revoke_token(
    State(app): State<App>,
    call: Call,
    Path(path): Path<String>,
) -> Result<Response, ApiError> {
    let user = call.who.user()?;
    let command = WorkspaceCommand::RevokeToken {
        by: Some(user),
        token: id(&path, "id")?,
        reason: "by_member".to_owned(),
    };
    let decision = WorkspaceWrite {
        workspace: call.who.workspace,
        commands: vec![command],
        contents: Vec::new(),
        result: Value::Null,
    };
    let done = call.submit(&app, "token.revoke", &Value::Null, decision).await?;
    Ok(at(done.position, StatusCode::NO_CONTENT))
}

/// `POST /api/tokens/current/renew`: tokens that don't end need no renewal.
pub async fn renew_token(State(app): State<App>, call: Call) -> Result<Response, ApiError> {
    call.who.user()?;
    let head = *app.store.head().borrow();
    Ok(at(head, Json(json!({"expires_at": null, "renewed": false})).into_response()))
}
