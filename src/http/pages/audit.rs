//! The audit trail as a page.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use maud::Markup;

use super::{PageError, Reader, frame};
use crate::http::App;
use crate::http::audit::{self, Asked};
use crate::http::body::Query;
use crate::http::error::{ApiError, Told};
use crate::http::idempotency::Call;
use crate::http::routes;
use crate::http::routes::audit::{AskedExport, private};
use crate::web;
use crate::web::view::AuditView;
use crate::wire::audit::AuditPage;

/// `GET /audit`: the filters in the address. One that can't be right is said beside the form that it came from.
pub(super) async fn page(
    State(app): State<App>,
    reader: Result<Reader, PageError>,
    Query(asked): Query<Asked>,
) -> Result<Response, PageError> {
    let Reader(who) = reader?;
    let frame = frame(&app, &who, String::new()).await?;
    let mut view = AuditView {
        filters: filters(&asked),
        page: AuditPage { entries: Vec::new(), next: None, searched_to: None, head: frame.position },
        newer: asked.before.is_some() || asked.after.is_some(),
        problem: None,
    };
    let status = match audit::page(&app, who.workspace, &asked, private(&who)).await {
        Ok(page) => {
            view.page = page;
            None
        }
        Err(error @ (ApiError::Invalid { .. } | ApiError::Unknown { .. } | ApiError::Ambiguous { .. })) => {
            let response = error.into_response();
            let told = response.extensions().get::<Told>().cloned();
            view.problem = told.map(|Told(told)| (told.detail, told.next_step));
            Some(response.status())
        }
        Err(error) => return Err(error.into()),
    };
    let markup: Markup = web::audit::page(&frame, &view);
    Ok((status.unwrap_or_default(), markup).into_response())
}

/// What was typed, those that say something.
fn filters(asked: &Asked) -> Vec<(String, String)> {
    [
        ("actor", &asked.actor),
        ("target", &asked.target),
        ("type", &asked.kind),
        ("since", &asked.since),
        ("until", &asked.until),
        ("correlation", &asked.correlation),
        ("outcome", &asked.outcome),
        ("q", &asked.q),
    ]
    .into_iter()
    .filter_map(|(name, value)| {
        Some((name.to_owned(), value.clone().filter(|text| !text.trim().is_empty())?))
    })
    .collect()
}

/// `POST /audit/export`: the page's own form, answered with a file.
pub(super) async fn export(
    state: State<App>,
    headers: HeaderMap,
    call: Call,
    asked: Query<Asked>,
    more: Query<AskedExport>,
) -> Result<Response, PageError> {
    if !crate::http::auth::comes_from_our_page(&headers) {
        return Err(ApiError::Forbidden {
            code: "foreign_page",
            sentence: "this request doesn't come from a page of this server",
        }
        .into());
    }
    Ok(routes::audit::export(state, call, asked, more).await?)
}
