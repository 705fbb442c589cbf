//! Who asks: tokens and session cookies, the workspace they mean, and what they may do there.
//!
//! Invariants: a token is looked up by its digest; a task's token is accepted only while its claim is the
//! live one; another workspace is as if it weren't there; a mutation by cookie comes from a page of ours.

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use jiff::Timestamp;

use super::App;
use super::error::ApiError;
use super::token::{self, DAEMON, MEMBER, TASK};
use crate::domain::workspace::{Role, TokenHolder};
use crate::domain::{Actor, ActorKind, Via};
use crate::kernel::digest;
use crate::kernel::ids::{AgentId, IssueId, TaskId, TokenId, UserId, WorkspaceId};
use crate::readmodel::{access, task_status};
use crate::store::sign_in;

/// The cookie of a session.
pub const COOKIE: &str = "multica_session";

/// Somebody known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A person.
    Member {
        /// Who.
        user: UserId,
        /// By which token; none by a session.
        token: Option<TokenId>,
    },
    /// A daemon with a token of its own.
    Daemon {
        /// The daemon.
        daemon: String,
        /// The member who made the token.
        user: UserId,
    },
    /// An agent inside its task.
    Task {
        /// The task.
        task: TaskId,
        /// Its live claim.
        generation: u32,
        /// Its agent.
        agent: AgentId,
        /// Its issue.
        issue: IssueId,
    },
}

/// Who asks, where, and by which way.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The workspace that the request is about.
    pub workspace: WorkspaceId,
    /// Who.
    pub caller: Caller,
    /// What they may do there.
    pub role: Role,
    /// The way.
    pub via: Via,
    /// On the daemon's routes: the daemon that it speaks for, see [`super::speaker`].
    pub daemon: Option<String>,
}

impl Identity {
    /// The caller as one text, for command ids.
    #[must_use]
    pub fn principal(&self) -> String {
        match &self.caller {
            Caller::Member { user, .. } => format!("member/{user}"),
            Caller::Daemon { daemon, .. } => format!("daemon/{daemon}"),
            Caller::Task { task, generation, .. } => format!("task/{task}/{generation}"),
        }
    }

    /// The caller as events name it.
    #[must_use]
    pub fn actor(&self) -> Actor {
        let (kind, id) = match (&self.daemon, &self.caller) {
            (Some(daemon), _) | (None, Caller::Daemon { daemon, .. }) => (ActorKind::Daemon, daemon.clone()),
            (None, Caller::Member { user, .. }) => (ActorKind::Member, user.to_string()),
            (None, Caller::Task { agent, .. }) => (ActorKind::Agent, agent.to_string()),
        };
        Actor { kind, id, via: self.via }
    }

    /// The person behind it.
    ///
    /// # Errors
    /// An agent is nobody.
    pub fn user(&self) -> Result<UserId, ApiError> {
        match &self.caller {
            Caller::Member { user, .. } | Caller::Daemon { user, .. } => Ok(*user),
            Caller::Task { .. } => Err(ApiError::Forbidden {
                code: "task_token_limited",
                sentence: "an agent's token may not do this",
            }),
        }
    }

    /// Lets members of that role or a higher one pass.
    ///
    /// # Errors
    /// `role_too_low`.
    pub fn must_be(&self, role: Role) -> Result<UserId, ApiError> {
        let user = self.user()?;
        if self.role >= role {
            return Ok(user);
        }
        Err(ApiError::Forbidden { code: "role_too_low", sentence: "your role in this workspace is too low" })
    }

    /// Goes to the workspace that a body names.
    ///
    /// # Errors
    /// `not_found` for one that isn't the caller's.
    pub async fn move_to(&mut self, app: &App, workspace: WorkspaceId) -> Result<(), ApiError> {
        if workspace == self.workspace {
            return Ok(());
        }
        let Caller::Member { user, .. } = &self.caller else { return Err(ApiError::NotFound("workspace")) };
        self.role = access::role(&app.store, &app.registry, workspace, *user)
            .await?
            .ok_or(ApiError::NotFound("workspace"))?;
        self.workspace = workspace;
        Ok(())
    }
}

impl FromRequestParts<App> for Identity {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let found = match bearer(&parts.headers) {
            Some(token) => by_token(app, token).await?,
            None => by_cookie(app, parts).await?,
        };
        let identity = in_workspace(app, parts, found).await?;
        may_go(&identity, &parts.method, full_path(parts))?;
        Ok(identity)
    }
}

/// The path as it was asked for: a nested router sees only its part of it.
#[must_use]
pub fn full_path(parts: &Parts) -> &str {
    parts.extensions.get::<OriginalUri>().map_or_else(|| parts.uri.path(), |uri| uri.0.path())
}

struct Found {
    caller: Caller,
    home: WorkspaceId,
    via: Option<Via>,
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

async fn by_token(app: &App, text: &str) -> Result<Found, ApiError> {
    if text.starts_with(TASK) {
        return by_task_token(app, text).await;
    }
    if !text.starts_with(MEMBER) && !text.starts_with(DAEMON) {
        return Err(ApiError::Unauthenticated);
    }
    let row = access::token(&app.store, &app.registry, &token::sha256(text)).await?;
    let row = row.ok_or(ApiError::Unauthenticated)?;
    if row.revoked || row.expires_at.is_some_and(|end: Timestamp| end <= app.world.now()) {
        return Err(ApiError::Unauthenticated);
    }
    let caller = match row.holder {
        TokenHolder::Member { user } => Caller::Member { user, token: Some(row.token) },
        TokenHolder::Daemon { daemon, user } => Caller::Daemon { daemon, user },
    };
    Ok(Found { caller, home: row.workspace, via: None })
}

async fn by_task_token(app: &App, text: &str) -> Result<Found, ApiError> {
    let (task, generation) = app.key.read_task_token(text).ok_or(ApiError::Unauthenticated)?;
    let row = task_status::of(&app.store, &app.registry, task).await?.ok_or(ApiError::Unauthenticated)?;
    if !row.is_live(generation) {
        return Err(ApiError::Unauthenticated);
    }
    let caller = Caller::Task { task, generation, agent: row.row.agent, issue: row.row.issue };
    Ok(Found { caller, home: row.workspace, via: Some(Via::Api) })
}

/// The session's token in a request's cookies.
#[must_use]
pub fn session_cookie(headers: &HeaderMap) -> Option<String> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('=').map(str::to_owned))
}

async fn by_cookie(app: &App, parts: &Parts) -> Result<Found, ApiError> {
    let cookie = session_cookie(&parts.headers).ok_or(ApiError::Unauthenticated)?;
    if !parts.method.is_safe() && !comes_from_our_page(&parts.headers) {
        return Err(ApiError::Forbidden {
            code: "foreign_page",
            sentence: "this request doesn't come from a page of this server",
        });
    }
    let hash = digest::sha256_plain(cookie.as_bytes());
    let session = sign_in::session(&app.store, &hash).await?.ok_or(ApiError::Unauthenticated)?;
    let caller = Caller::Member { user: session.user, token: None };
    Ok(Found { caller, home: session.workspace, via: Some(Via::Web) })
}

/// Whether Origin is this very host and the browser says that page and request are of one site.
#[must_use]
pub fn comes_from_our_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let (Some(origin), Some(host)) = (text(header::ORIGIN), text(header::HOST)) else { return false };
    let same_host = origin.split_once("://").is_some_and(|(_, named)| named.eq_ignore_ascii_case(host));
    same_host && text(header::HeaderName::from_static("sec-fetch-site")) == Some("same-origin")
}

enum Named {
    Id(WorkspaceId),
    Slug(String),
}

fn named(parts: &Parts) -> Result<Option<Named>, ApiError> {
    let query = parts.uri.query().unwrap_or_default();
    let of_query = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let of_header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(slug) = of_query("workspace_slug").or_else(|| of_header("x-workspace-slug")) {
        return Ok(Some(Named::Slug(slug.to_owned())));
    }
    let Some(id) = of_query("workspace_id").or_else(|| of_header("x-workspace-id")) else { return Ok(None) };
    let id = id.parse().map_err(|_| ApiError::field("workspace_id", "`workspace_id` is no UUID"))?;
    Ok(Some(Named::Id(id)))
}

async fn in_workspace(app: &App, parts: &Parts, found: Found) -> Result<Identity, ApiError> {
    let workspace = match named(parts)? {
        None => found.home,
        Some(Named::Id(id)) => id,
        Some(Named::Slug(slug)) => access::workspace_by_slug(&app.store, &app.registry, &slug)
            .await?
            .ok_or(ApiError::NotFound("workspace"))?,
    };
    let role = match &found.caller {
        Caller::Task { .. } if workspace != found.home => {
            return Err(ApiError::Forbidden {
                code: "other_workspace",
                sentence: "an agent's token is for its own workspace",
            });
        }
        Caller::Daemon { .. } if workspace != found.home => return Err(ApiError::NotFound("workspace")),
        Caller::Task { .. } => Role::Member,
        Caller::Member { user, .. } | Caller::Daemon { user, .. } => {
            access::role(&app.store, &app.registry, workspace, *user)
                .await?
                .ok_or(ApiError::NotFound("workspace"))?
        }
    };
    let via = found.via.unwrap_or_else(|| via(&parts.headers, full_path(parts)));
    Ok(Identity { workspace, caller: found.caller, role, via, daemon: None })
}

fn via(headers: &HeaderMap, path: &str) -> Via {
    let platform = headers.get("x-client-platform").and_then(|value| value.to_str().ok());
    match platform {
        _ if path.starts_with("/api/daemon/") => Via::Daemon,
        Some("daemon") => Via::Daemon,
        Some("cli") => Via::Cli,
        Some(_) | None => Via::Api,
    }
}

/// Which routes the narrower tokens may use at all.
fn may_go(identity: &Identity, method: &Method, path: &str) -> Result<(), ApiError> {
    let daemon_route = path.starts_with("/api/daemon/");
    match &identity.caller {
        Caller::Member { .. } => Ok(()),
        Caller::Daemon { .. } => {
            let open = matches!(path, "/api/me" | "/api/workspaces" | "/api/tokens/current/renew");
            if daemon_route || open {
                return Ok(());
            }
            Err(ApiError::Forbidden {
                code: "daemon_token_limited",
                sentence: "a daemon's token is for the daemon's routes",
            })
        }
        Caller::Task { .. } => {
            let closed = daemon_route || path.starts_with("/api/tokens") || path.starts_with("/api/sign-in");
            let writes = path.starts_with("/api/issues");
            if !closed && (method.is_safe() || writes) {
                return Ok(());
            }
            Err(ApiError::Forbidden {
                code: "task_token_limited",
                sentence: "an agent's token may not do this",
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (header::HeaderName::from_static(name), axum::http::HeaderValue::from_static(value))
            })
            .collect()
    }

    #[test]
    fn a_cookie_mutates_only_from_a_page_of_this_very_host() {
        let ours = [
            ("origin", "http://127.0.0.1:4000"),
            ("host", "127.0.0.1:4000"),
            ("sec-fetch-site", "same-origin"),
        ];
        assert!(comes_from_our_page(&headers(&ours)));
        for without in 0..ours.len() {
            let mut some = ours.to_vec();
            some.remove(without);
            assert!(!comes_from_our_page(&headers(&some)), "without {}", ours[without].0);
        }
        let foreign =
            [("origin", "http://evil"), ("host", "127.0.0.1:4000"), ("sec-fetch-site", "same-origin")];
        assert!(!comes_from_our_page(&headers(&foreign)));
    }
}
