//! Numbers for whoever watches the installation, in Prometheus' text format.
//!
//! They are the installation's: whoever is an admin somewhere may read them.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::domain::workspace::Role;
use crate::http::App;
use crate::http::auth::Identity;
use crate::http::error::ApiError;
use crate::readmodel::query::{self, Standing};
use crate::store::{raw, read};

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

/// `GET /api/metrics`.
pub async fn metrics(State(app): State<App>, who: Identity) -> Result<Response, ApiError> {
    who.must_be(Role::Admin)?;
    let head = read::head(&app.store).await?;
    let all = query::standings(&app.store).await?;
    let text = told(head, raw::unknown_events(), &all);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

fn told(head: i64, unknown: u64, all: &[Standing]) -> String {
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
    lines.join("\n") + "\n"
}
