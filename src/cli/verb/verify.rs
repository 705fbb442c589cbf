//! `multica verify`.

use serde_json::{Value, json};

use crate::cli::error::CliError;
use crate::cli::output::{items, line, plain_line, text};
use crate::cli::session::Session;
use crate::client::api::Call;

pub async fn run(session: &Session) -> Result<(), CliError> {
    // Rebuilding every read model takes as long as it takes: the wait is on purpose.
    let call = Call::post("/api/verify", &json!({}))?.waits(session.limits.slow_request.duration());
    let what = "reading the whole log and rebuilding every read model from it";
    let answer = session.patiently(what, session.api()?.call(call)).await?;
    let findings = items(&answer, "findings");
    if session.out.is_json() {
        session.out.json(&answer)?;
    } else {
        for finding in findings {
            line(&format!("- {}", sentence(finding)))?;
        }
        if findings.is_empty() {
            line(&format!(
                "Verified up to position {}: {} blocks, every chain, content and read model as it should be.",
                text(&answer, "up_to"),
                text(&answer, "blocks")
            ))?;
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(CliError::NotVerified { findings: findings.len() }) }
}

fn sentence(finding: &Value) -> String {
    match finding {
        Value::String(text) => plain_line(text),
        other if !text(other, "sentence").is_empty() => text(other, "sentence"),
        other => other.to_string(),
    }
}
