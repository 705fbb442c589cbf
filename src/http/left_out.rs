//! What an answer leaves out because the log is damaged there: one bad thing takes nothing else with it.
//!
//! Invariants: whoever asks for the damaged thing itself gets `log_damaged`; an answer about several says in
//! the header `X-Multica-Left-Out` which of them are missing, at most twenty by name.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;

use crate::domain::{Envelope, StreamKey};
use crate::kernel::error_chain::Chain;
use crate::store::StoreError;

/// Names streams, as `task/<id>, issue/<id>`; ends with `+<n>` when there are more.
pub const LEFT_OUT: HeaderName = HeaderName::from_static("x-multica-left-out");

/// Streams that the header names; of more it tells the number.
const NAMED: usize = 20;

tokio::task_local! {
    static SEEN: RefCell<BTreeSet<StreamKey>>;
}

/// Runs a request and says in its answer what was left out.
pub async fn tell(request: Request, next: Next) -> Response {
    SEEN.scope(RefCell::default(), async {
        let mut response = next.run(request).await;
        if let Some(value) = named() {
            response.headers_mut().insert(LEFT_OUT, value);
        }
        response
    })
    .await
}

/// Notes that this stream is left out of the answer.
pub fn note(key: StreamKey) {
    // Outside of a request there is no answer that could say it.
    let _ = SEEN.try_with(|seen| seen.borrow_mut().insert(key));
}

/// How many things this answer leaves out so far.
#[must_use]
pub fn count() -> usize {
    SEEN.try_with(|seen| seen.borrow().len()).unwrap_or_default()
}

/// The streams that can be read; the others are noted.
pub fn readable(
    streams: BTreeMap<StreamKey, Result<Vec<Envelope>, StoreError>>,
) -> BTreeMap<StreamKey, Vec<Envelope>> {
    let one = |(key, events): (StreamKey, Result<Vec<Envelope>, StoreError>)| match events {
        Ok(events) => Some((key, events)),
        Err(error) => {
            tracing::debug!(error = %Chain(&error), stream = %key.id, "left out of an answer");
            note(key);
            None
        }
    };
    streams.into_iter().filter_map(one).collect()
}

fn named() -> Option<HeaderValue> {
    SEEN.try_with(|seen| {
        let seen = seen.borrow();
        let mut names: Vec<String> =
            seen.iter().take(NAMED).map(|key| format!("{}/{}", key.family.name(), key.id)).collect();
        if names.is_empty() {
            return None;
        }
        if seen.len() > NAMED {
            names.push(format!("+{}", seen.len() - NAMED));
        }
        HeaderValue::from_str(&names.join(", ")).ok()
    })
    .ok()
    .flatten()
}
