//! Numbers for whoever watches the installation, in Prometheus' text format.
//!
//! They are the installation's: whoever is an admin somewhere may read them.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::domain::workspace::Role;
use crate::fold::webhooks::WebhookRow;
use crate::http::App;
use crate::http::auth::Identity;
use crate::http::error::ApiError;
use crate::kernel::ids::WebhookId;
use crate::readmodel::query::{self, Standing};
use crate::readmodel::webhooks;
use crate::store::{raw, read, webhooks as deliveries};

/// One number for each read model.
type Number = fn(&Standing) -> i64;

/// What is said of each read model: the number's name, what it is, and the number.
const OF_READ_MODELS: [(&str, &str, Number); 4] = [
    ("multica_read_model_position", "The last position that a read model shows.", |one| one.checkpoint),
    ("multica_read_model_behind", "Events that a read model doesn't show yet.", |one| {
        one.head.saturating_sub(one.checkpoint).max(0)
    }),
    (
        "multica_read_model_stalled_at_position",
        "The event at which a read model stands still; 0 when it doesn't.",
        |one| if one.state == "stopped" { one.stopped_at.unwrap_or_default() } else { 0 },
    ),
    ("multica_read_model_degraded", "1 while a read model lacks an event that it passed over.", |one| {
        i64::from(one.degraded)
    }),
];

/// One number for each webhook.
type WebhookNumber = fn(&OfWebhook) -> i64;

/// What is said of each webhook: the number's name, what it is, and the number.
const OF_WEBHOOKS: [(&str, &str, WebhookNumber); 3] = [
    ("multica_webhook_on", "1 while a webhook delivers, 0 while it is off.", |one| i64::from(one.on)),
    ("multica_webhook_waiting", "Deliveries of a webhook that are to be tried, or tried again.", |one| {
        one.waiting
    }),
    ("multica_webhook_dead", "Deliveries of a webhook that were given up.", |one| one.dead),
];

/// What is counted of one webhook.
struct OfWebhook {
    id: WebhookId,
    on: bool,
    waiting: i64,
    dead: i64,
}

/// `GET /api/metrics`.
pub async fn metrics(State(app): State<App>, who: Identity) -> Result<Response, ApiError> {
    who.must_be(Role::Admin)?;
    let head = read::head(&app.store).await?;
    let all = query::standings(&app.store).await?;
    let text = told(head, raw::unknown_events(), &all, &of_webhooks(&app).await?);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// The webhooks there are, in every workspace.
async fn of_webhooks(app: &App) -> Result<Vec<OfWebhook>, ApiError> {
    let found = webhooks::all(&app.store, &app.registry).await?;
    let there: Vec<_> = found.into_iter().map(|found| found.row).filter(|row| !row.removed).collect();
    let counts = deliveries::counts(&app.store, there.iter().map(|row| row.id)).await?;
    let of = |row: WebhookRow| OfWebhook {
        id: row.id,
        on: row.off.is_none(),
        waiting: counts.get(&row.id).map_or(0, |counts| counts.waiting),
        dead: i64::try_from(row.dead.len()).unwrap_or(i64::MAX),
    };
    Ok(there.into_iter().map(of).collect())
}

fn told(head: i64, unknown: u64, all: &[Standing], webhooks: &[OfWebhook]) -> String {
    let mut lines = vec![
        "# HELP multica_log_position The log's last position.".to_owned(),
        "# TYPE multica_log_position gauge".to_owned(),
        format!("multica_log_position {head}"),
        "# HELP multica_unknown_events_total Times that this server has met an event of a newer build."
            .to_owned(),
        "# TYPE multica_unknown_events_total counter".to_owned(),
        format!("multica_unknown_events_total {unknown}"),
    ];
    for (name, help, number) in OF_READ_MODELS {
        lines.push(format!("# HELP {name} {help}"));
        lines.push(format!("# TYPE {name} gauge"));
        let answering = all.iter().filter(|one| matches!(one.state.as_str(), "active" | "stopped"));
        lines.extend(answering.map(|one| format!("{name}{{read_model=\"{}\"}} {}", one.name, number(one))));
    }
    for (name, help, number) in OF_WEBHOOKS {
        lines.push(format!("# HELP {name} {help}"));
        lines.push(format!("# TYPE {name} gauge"));
        lines.extend(webhooks.iter().map(|one| format!("{name}{{webhook=\"{}\"}} {}", one.id, number(one))));
    }
    lines.join("\n") + "\n"
}
