//! Sign-in by a link that works once: the page posts its code, so that looking at a link uses nothing up.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::domain::Refusal;
use crate::http::App;
use crate::http::auth::{COOKIE, Identity, comes_from_our_page, session_cookie};
use crate::http::body::{Query, Raw};
use crate::http::error::ApiError;
use crate::http::token;
use crate::kernel::digest;
use crate::store::read;
use crate::store::sign_in::{self, SignedIn};

/// `POST /api/sign-in-links`: a code for the caller's own session.
pub async fn link(
    State(app): State<App>,
    who: Identity,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let user = who.user()?;
    let (code, _) = token::fresh("", app.world.random());
    let signed_in = SignedIn { user, workspace: who.workspace };
    let hash = digest::sha256_plain(code.as_bytes());
    let span = app.limits.sign_in_link.duration();
    sign_in::put_code(&app.store, &hash, signed_in, span).await?;
    let expires_at = store_time(&app, span).await?;
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or("127.0.0.1");
    Ok(Json(
        json!({"url": format!("http://{host}/sign-in?code={code}"), "expires_at": expires_at.to_string()}),
    ))
}

async fn store_time(app: &App, span: std::time::Duration) -> Result<jiff::Timestamp, ApiError> {
    let now = read::now(&app.store).await?;
    Ok(now.checked_add(span).unwrap_or(now))
}

/// The code of a link or a form.
#[derive(Debug, Deserialize)]
pub struct Code {
    code: String,
}

/// The code of a link that may have lost it.
#[derive(Debug, Deserialize)]
pub struct MaybeCode {
    code: Option<String>,
}

/// `GET /sign-in?code=`: a page with one button.
pub async fn page(Query(asked): Query<MaybeCode>) -> Result<Response, ApiError> {
    let code = asked.code.filter(|code| !code.is_empty()).ok_or_else(incomplete)?;
    let code: String = code.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
    let mut response = crate::web::sign_in::page(&code).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn incomplete() -> ApiError {
    Refusal::invalid(
        "sign_in_link_incomplete",
        "this sign-in link is incomplete: its code is missing",
        "Open the whole link, or make a new one: `multica login --link`.",
    )
    .into()
}

/// `POST /sign-in`: uses the code up and opens a session.
pub async fn sign_in(
    State(app): State<App>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Response, ApiError> {
    if headers.contains_key(header::ORIGIN) && !comes_from_our_page(&headers) {
        return Err(ApiError::Forbidden {
            code: "foreign_page",
            sentence: "this request doesn't come from a page of this server",
        });
    }
    let code = code_of(&body).ok_or_else(|| ApiError::field("code", "`code` is missing"))?;
    let found = sign_in::take_code(&app.store, &digest::sha256_plain(code.as_bytes())).await?;
    let signed_in = found.ok_or(ApiError::LinkSpent)?;
    let (secret, _) = token::fresh("", app.world.random());
    let span = app.limits.session.duration();
    sign_in::put_session(&app.store, &digest::sha256_plain(secret.as_bytes()), signed_in, span).await?;
    let cookie = format!("{COOKIE}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}", span.as_secs());
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
    set_cookie(&mut response, &cookie);
    Ok(response)
}

fn code_of(body: &[u8]) -> Option<String> {
    if let Ok(code) = serde_json::from_slice::<Code>(body) {
        return Some(code.code);
    }
    let text = std::str::from_utf8(body).ok()?;
    text.split('&').find_map(|pair| pair.strip_prefix("code=").map(str::to_owned))
}

/// `POST /sign-out`.
pub async fn sign_out(
    State(app): State<App>,
    who: Identity,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    who.user()?;
    if let Some(secret) = session_cookie(&headers) {
        sign_in::end_session(&app.store, &digest::sha256_plain(secret.as_bytes())).await?;
    }
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
    set_cookie(&mut response, &format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0"));
    Ok(response)
}

fn set_cookie(response: &mut Response, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
}
