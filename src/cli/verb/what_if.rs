//! `multica what-if`.

use clap::Args;

use crate::cli::error::CliError;
use crate::cli::output::{note, read};
use crate::cli::session::Session;
use crate::cli::story;
use crate::client::api::Call;
use crate::wire::api::WhatIf;

/// `multica what-if --set queued_ttl=30m --since 7d`.
#[derive(Debug, Clone, Args)]
pub struct WhatIfArgs {
    /// A timer and the value it would have had: queued_ttl, claim_receipt or reconnect_grace; may be given more than
    /// once.
    #[arg(long, value_name = "TIMER=SPAN", required = true)]
    set: Vec<String>,
    /// From when on it would have had that value: a time or a day (UTC, unless it names a zone), or how long
    /// ago (7d); otherwise from the beginning.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
}

pub async fn run(session: &Session, args: WhatIfArgs) -> Result<(), CliError> {
    let call = Call::get("/api/what-if")
        .query("set", args.set.join(","))
        .query_some("since", args.since.as_deref())
        .waits(session.limits.slow_request.duration());
    let api = session.api()?;
    let answer: serde_json::Value =
        session.patiently("going through the recorded history", api.call(call)).await?;
    let all: Vec<WhatIf> = read(&answer["tasks"])?;
    let shown = all.len();
    let rows = all
        .into_iter()
        .map(|one| {
            let recorded = one.recorded.as_ref().map_or_else(
                || "still waits".to_owned(),
                |recorded| {
                    let reason = recorded.reason.as_ref().map(|reason| format!(" ({reason})"));
                    let after = story::span(seconds(one.since, recorded.at));
                    format!("{}{} after {after}", recorded.event_type, reason.unwrap_or_default())
                },
            );
            vec![one.name, one.parameter, story::span(seconds(one.since, one.due)), one.instead, recorded]
        })
        .collect();
    let headers = ["task", "timer", "after", "would have been", "recorded"];
    session.out.list(&answer, &headers, rows, "No task would have gone differently.")?;
    let total = answer["total"].as_u64().unwrap_or_default();
    if !session.out.is_json() && total > shown as u64 {
        note(&format!("The first {shown} of {total}; a later --since shows the others."));
    }
    Ok(())
}

fn seconds(from: jiff::Timestamp, to: jiff::Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}
