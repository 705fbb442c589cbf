//! `?as_of=`: what was there at a moment, by position or by time.
//!
//! Invariants: a reader that asks for a moment is answered as of it, or refused by name, never answered with what
//! is now; nothing is written as of a moment; who may read is settled by what holds now.
//!
//! Not here: how rows are kept (`readmodel::history`), how moments are written (`kernel::moment`).

use std::sync::{Arc, OnceLock};

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Deserialize;

use super::auth::Identity;
use super::body::Query;
use super::error::ApiError;
use super::{App, position};
use crate::kernel::moment::{Moment, NoMoment};
use crate::store::{AsOf, read};

/// The position as of which an answer is.
pub const AS_OF: HeaderName = HeaderName::from_static("x-multica-as-of");
/// When that was recorded.
pub const TIME: HeaderName = HeaderName::from_static("x-multica-as-of-time");

/// Where no moment can be asked for: what machines ask, what follows positions itself, what signs in.
const NOT_ASKED: [&str; 3] = ["/api/daemon/", "/api/feed", "/sign-in"];

#[derive(Debug, Deserialize)]
struct Asked {
    as_of: Option<String>,
}

/// For handlers that read: everything that a route may use, as of the moment asked for, or of now.
pub struct AsAsked(pub App);

impl FromRequestParts<App> for AsAsked {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        if !asks(&parts.uri) {
            return Ok(Self(app.clone()));
        }
        let Query(asked) = Query::<Asked>::from_request_parts(parts, app).await?;
        let Some(text) = asked.as_of.filter(|text| !text.trim().is_empty()) else {
            return Ok(Self(app.clone()));
        };
        // Whoever isn't known learns nothing of the log, not even how long it is.
        Identity::from_request_parts(parts, app).await?;
        let moment = resolve(app, &text).await?;
        position::reach_past(app, moment.position).await?;
        if let Some(heeded) = parts.extensions.get::<Heeded>() {
            // It is asked for once in a request.
            heeded.0.get_or_init(|| moment);
        }
        Ok(Self(app.at(moment)))
    }
}

/// The moment that a request was answered as of.
#[derive(Clone, Default)]
struct Heeded(Arc<OnceLock<AsOf>>);

/// Sees to it that a request for a moment is answered as of it, or not at all.
pub async fn guard(mut request: Request, next: Next) -> Response {
    if !asks(request.uri()) {
        return next.run(request).await;
    }
    if !request.method().is_safe() {
        let sentence = "nothing can be written as of an earlier moment";
        return refused("as_of_of_a_write", sentence, "Leave `as_of` out.").into_response();
    }
    if NOT_ASKED.iter().any(|path| request.uri().path().starts_with(path)) {
        return unanswered().into_response();
    }
    let heeded = Heeded::default();
    request.extensions_mut().insert(heeded.clone());
    let mut response = next.run(request).await;
    match heeded.0.get() {
        Some(moment) => {
            let headers = response.headers_mut();
            headers.insert(AS_OF, HeaderValue::from(moment.position));
            if let Ok(time) = HeaderValue::try_from(moment.time.to_string()) {
                headers.insert(TIME, time);
            }
            response
        }
        None if response.status().is_client_error() || response.status().is_server_error() => response,
        None => unanswered().into_response(),
    }
}

/// Whether a moment is asked for; one that is left empty, as by a form, is now.
fn asks(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').filter_map(|pair| pair.strip_prefix("as_of=")).any(|moment| !moment.is_empty())
}

fn refused(code: &'static str, sentence: &str, next_step: &str) -> ApiError {
    ApiError::Wrong {
        code,
        field: Some("as_of".to_owned()),
        sentence: sentence.to_owned(),
        next_step: next_step.to_owned(),
    }
}

fn unanswered() -> ApiError {
    refused(
        "as_of_not_kept",
        "what this shows isn't kept: it can't be answered as of an earlier moment",
        "Leave `as_of` out; what happened then is in the audit trail: `multica audit --until WHEN`.",
    )
}

/// A time in a query, seen from `now`: RFC 3339, a day, or how long ago.
///
/// # Errors
/// `invalid_field` for anything else, a position too.
pub fn time(text: &str, field: &str, now: Timestamp) -> Result<Timestamp, ApiError> {
    let time = text.parse::<Moment>().ok().and_then(|moment| moment.time(now));
    // Nothing was recorded before there were such clocks, and the database knows fewer years.
    time.map(|time| time.max(Timestamp::UNIX_EPOCH)).ok_or_else(|| {
        let ways = "a time (2026-12-01T14:00:00Z), a day (2026-12-01) or how long ago (2h)";
        ApiError::field(field, format!("`{field}` is {ways}; a position goes into `before` or `after`"))
    })
}

/// The position that a moment means: the last one recorded at or before it.
async fn resolve(app: &App, text: &str) -> Result<AsOf, ApiError> {
    let wrong = || {
        let step = "Write one of these; `multica feed` shows positions and times.";
        refused("invalid_as_of", &format!("`as_of`: {NoMoment}"), step)
    };
    if text.len() > app.limits.moment_bytes {
        return Err(wrong());
    }
    let moment: Moment = text.parse().map_err(|NoMoment| wrong())?;
    let Moment::Position(position) = moment else {
        let now = read::now(&app.store).await?;
        let time = moment.time(now).ok_or_else(wrong)?;
        if time > now {
            let sentence = format!("that time hasn't come yet: it is {}", now.strftime("%F %H:%M:%S UTC"));
            let step = "Name a time that has been (UTC, unless it names a zone), or how long ago: `2h`.";
            return Err(refused("as_of_in_the_future", &sentence, step));
        }
        let position = read::position_at(&app.store, time).await?;
        return Ok(AsOf { position, time });
    };
    if position == 0 {
        return Ok(AsOf { position, time: Timestamp::UNIX_EPOCH });
    }
    let time = read::moment(&app.store, position).await?.ok_or_else(|| {
        let head = *app.store.head().borrow();
        let sentence = format!("the log doesn't reach position {position} yet: it is at {head}");
        refused("as_of_in_the_future", &sentence, &format!("Name a position up to {head}, or a time."))
    })?;
    Ok(AsOf { position, time })
}
