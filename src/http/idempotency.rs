//! Commands out of requests: what makes a repeated request the same command, and who is behind it.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::Value;

use super::App;
use super::auth::{Identity, full_path};
use super::error::ApiError;
use crate::app::decision::{Committed, Decision, Submission};
use crate::domain::NewContent;
use crate::kernel::digest;
use crate::kernel::ids::{CommandId, ContentId, CorrelationId, EventId, digest_uuid};

/// Names the key of a request.
pub const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Tells the position of a write.
pub const POSITION: HeaderName = HeaderName::from_static("x-multica-position");

const MAX_KEY: usize = 255;

/// A mutation on its way: the identity and the request's key.
pub struct Call {
    /// Who asks.
    pub who: Identity,
    route: String,
    key: Option<String>,
    /// When it happened by the caller's clock; the server's when it doesn't say.
    pub occurred_at: Option<Timestamp>,
    /// The intent that it follows from; its own when none.
    pub correlation: Option<CorrelationId>,
}

impl FromRequestParts<App> for Call {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let who = Identity::from_request_parts(parts, app).await?;
        let key = match parts.headers.get(&KEY) {
            None => None,
            Some(value) => {
                let text = value.to_str().ok().filter(|text| !text.is_empty() && text.len() <= MAX_KEY);
                Some(text.map(str::to_owned).ok_or_else(|| ApiError::Invalid {
                    code: "invalid_idempotency_key",
                    field: None,
                    sentence: format!("an idempotency key is a text of 1 to {MAX_KEY} visible characters"),
                })?)
            }
        };
        let route = route(&parts.method, full_path(parts));
        Ok(Self { who, route, key, occurred_at: None, correlation: None })
    }
}

fn route(method: &Method, path: &str) -> String {
    format!("{method} {path}")
}

impl Call {
    /// The command's id: the same for the same workspace, principal, route and key; fresh without a key.
    #[must_use]
    pub fn command_id(&self, app: &App) -> CommandId {
        CommandId(match &self.key {
            None => app.world.uuid_v7(),
            Some(key) => digest_uuid(&[
                self.who.workspace.0.as_bytes(),
                self.who.principal().as_bytes(),
                self.route.as_bytes(),
                key.as_bytes(),
            ]),
        })
    }

    /// An id that a repeat of the request derives again; fresh without a key.
    #[must_use]
    pub fn derived(&self, app: &App, part: &str) -> uuid::Uuid {
        match &self.key {
            None => app.world.uuid_v7(),
            Some(_) => digest_uuid(&[self.command_id(app).0.as_bytes(), part.as_bytes()]),
        }
    }

    /// Decides and writes a command that goes before the request's own one.
    ///
    /// # Errors
    /// Those of [`Self::submit`].
    pub async fn submit_part(
        &self,
        app: &App,
        kind: &'static str,
        part: &str,
        decision: impl Decision,
    ) -> Result<Committed, ApiError> {
        self.part(part).submit(app, kind, &Value::Null, decision).await
    }

    /// One of several commands of the same request.
    #[must_use]
    pub fn part(&self, part: &str) -> Self {
        Self {
            who: self.who.clone(),
            route: format!("{} {part}", self.route),
            key: self.key.clone(),
            occurred_at: self.occurred_at,
            correlation: self.correlation,
        }
    }

    /// Whether the caller gave a key.
    #[must_use]
    pub const fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Decides and writes.
    ///
    /// # Errors
    /// A refusal, a reused key, or what went wrong.
    pub async fn submit(
        &self,
        app: &App,
        kind: &'static str,
        body: &Value,
        decision: impl Decision,
    ) -> Result<Committed, ApiError> {
        let command_id = self.command_id(app);
        let print = digest::sha256(&[kind.as_bytes(), self.route.as_bytes(), body.to_string().as_bytes()]);
        let mut fingerprint = [0; 16];
        fingerprint.copy_from_slice(&print[..16]);
        let submission = Submission {
            command_id,
            event_seed: EventId(app.world.uuid_v7()),
            kind,
            workspace: self.who.workspace,
            fingerprint,
            actor: self.who.actor(),
            correlation: self.correlation.unwrap_or(CorrelationId(command_id.0)),
            causation: None,
            occurred_at: self.occurred_at.unwrap_or_else(|| app.world.now()),
            decision: Box::new(decision),
        };
        Ok(app.writer.submit(submission).await?)
    }
}

/// A new content with a fresh id and salt.
#[must_use]
pub fn content(app: &App, text: String) -> NewContent {
    NewContent::new(ContentId(app.world.uuid_v7()), app.world.random(), text)
}

/// Puts the position of a write into its answer.
pub fn at(position: i64, response: impl IntoResponse) -> Response {
    let mut response = response.into_response();
    response.headers_mut().insert(POSITION, HeaderValue::from(position));
    response
}
