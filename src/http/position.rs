//! Read your own writes: a reader that names a position waits until everything it reads shows it.

use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::error::ApiError;
use crate::fold::history::ENDING;
use crate::readmodel::{history, query};

/// The header form of `?at_least=`.
pub const AT_LEAST: HeaderName = HeaderName::from_static("x-multica-at-least");

/// Holds a request back until the log and its followers have reached the position it names.
pub async fn wait(State(app): State<App>, request: Request, next: Next) -> Response {
    match asked(request.headers(), request.uri()) {
        Ok(None) => next.run(request).await,
        Ok(Some(position)) => match reach(&app, position).await {
            Ok(()) => next.run(request).await,
            Err(error) => error.into_response(),
        },
        Err(error) => error.into_response(),
    }
}

fn asked(headers: &HeaderMap, uri: &Uri) -> Result<Option<i64>, ApiError> {
    let header = headers.get(&AT_LEAST).map(|value| value.to_str().unwrap_or("-").to_owned());
    let query = uri.query().unwrap_or_default();
    let asked =
        query.split('&').find_map(|pair| pair.strip_prefix("at_least=")).map(str::to_owned).or(header);
    let Some(text) = asked else { return Ok(None) };
    text.parse()
        .map(Some)
        .map_err(|_| ApiError::field("at_least", "`at_least` is a position: a whole number"))
}

/// Waits until every read model of now shows the position.
///
/// # Errors
/// `behind` after the limit's wait.
pub async fn reach(app: &App, position: i64) -> Result<(), ApiError> {
    wait_for(app, position, || async {
        let mut at = i64::MAX;
        for standing in query::standings(&app.store).await? {
            // Histories come later, and only who looks at the past needs them.
            if standing.state == "active" && !standing.name.ends_with(ENDING) {
                at = at.min(standing.checkpoint);
            }
        }
        Ok(at)
    })
    .await
}

/// Waits until every row history can answer as of the position.
///
/// # Errors
/// `behind` after the limit's wait.
pub async fn reach_past(app: &App, position: i64) -> Result<(), ApiError> {
    wait_for(app, position, || async { Ok(history::reached(&app.store).await?) }).await
}

async fn wait_for<F: Future<Output = Result<i64, ApiError>>>(
    app: &App,
    position: i64,
    reached: impl Fn() -> F,
) -> Result<(), ApiError> {
    let deadline = Instant::now() + app.limits.at_least_wait.duration();
    let mut head = app.store.head();
    loop {
        let at = reached().await?;
        if at >= position {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(ApiError::Behind { at, wanted: position });
        }
        let pause = app.limits.notify_pause.duration();
        // A follower's checkpoint wakes nobody: look again soon, whatever happens to the head.
        if tokio::time::timeout(pause, head.changed()).await.is_ok() {
            tokio::time::sleep(pause / 5).await;
        }
    }
}
