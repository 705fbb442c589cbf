//! What bounds every request: its name, its time, its panic.

use std::any::Any;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::error::ApiError;
use crate::kernel::limits::Millis;

/// Names a request in answers and logs.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Names the request, logs it and gives up on it after the limit's time. Streams are only bounded until
/// they begin.
pub async fn bound(State((app, limit)): State<(App, Millis)>, request: Request, next: Next) -> Response {
    let id = app.world.uuid_v7().to_string();
    let span = tracing::info_span!("request", %id, method = %request.method(), path = request.uri().path());
    let answer = tokio::time::timeout(limit.duration(), next.run(request));
    let answer = tracing::Instrument::instrument(answer, span).await;
    let mut response = answer.unwrap_or_else(|_| ApiError::TimedOut.into_response());
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Headers that every answer carries.
pub async fn secure(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        // Not `no-referrer`: browsers would then send `Origin: null` with our own pages' forms.
        ("referrer-policy", "same-origin"),
        ("content-security-policy", "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"),
        ("x-frame-options", "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Makes a problem document of a panic.
pub fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let said = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    tracing::error!(panic = %said, "a route panicked");
    ApiError::Panic.into_response()
}
