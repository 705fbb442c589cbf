//! The webhooks as a page.

use axum::Json;
use maud::Markup;

use super::{PageError, Reader, finished, frame};
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::routes::{webhook_deliveries, webhooks};
use crate::web;
use crate::web::view::WebhookCard;

/// `GET /webhooks`: each with its newest deliveries and with those that were given up.
pub(super) async fn page(
    AsAsked(app): AsAsked,
    reader: Result<Reader, PageError>,
) -> Result<Markup, PageError> {
    let Reader(who) = reader?;
    let Json(all) = webhooks::list(AsAsked(app.clone()), who.clone()).await?;
    let frame = frame(&app, &who, String::new()).await?;
    let mut cards = Vec::with_capacity(all.len());
    for webhook in all {
        let newest = newest(&app, &webhook, None).await?;
        let dead =
            if webhook.dead > 0 { self::newest(&app, &webhook, Some("dead")).await? } else { Vec::new() };
        cards.push(WebhookCard { webhook, newest, dead });
    }
    Ok(web::webhooks::page(&finished(frame), &cards))
}

/// Nothing of an earlier moment, for which deliveries aren't kept.
async fn newest(
    app: &App,
    webhook: &crate::wire::api::Webhook,
    state: Option<&str>,
) -> Result<Vec<crate::wire::api::Delivery>, PageError> {
    if app.store.as_of().is_some() {
        return Ok(Vec::new());
    }
    Ok(webhook_deliveries::newest(app, webhook.id, state, app.limits.page_deliveries).await?)
}
