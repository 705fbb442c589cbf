//! `multica retention`.

use clap::Args;
use serde_json::Value;

use crate::cli::error::CliError;
use crate::cli::output::read;
use crate::cli::session::Session;
use crate::client::api::Call;
use crate::wire::api::Retention;

/// `multica retention`. It removes nothing: the server does, when it was started with --keep-transcripts.
#[derive(Debug, Clone, Args)]
pub struct RetentionArgs {
    /// Counts what is older than so many days, instead of what the server's own setting says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    days: Option<u32>,
}

pub async fn run(session: &Session, args: RetentionArgs) -> Result<(), CliError> {
    let days = args.days.map(|days| days.to_string());
    let call = Call::get("/api/retention")
        .query_some("days", days.as_deref())
        .waits(session.limits.slow_request.duration());
    let api = session.api()?;
    let answer: Value = session.patiently("looking for old transcripts", api.call(call)).await?;
    let found: Retention = read(&answer)?;
    let kept = match found.days {
        None => "Transcripts are kept: the server was started without --keep-transcripts.".to_owned(),
        Some(days) => format!("Transcripts of tasks that are over are removed after {}.", in_days(days)),
    };
    let older = found.counted_for.map(|days| {
        let (transcripts, messages) = (found.transcripts, found.messages);
        format!(" Older than {}: {transcripts} transcripts with {messages} messages.", in_days(days))
    });
    session.out.done(&answer, &format!("{kept}{}", older.unwrap_or_default()))
}

fn in_days(days: u32) -> String {
    if days == 1 { "1 day".to_owned() } else { format!("{days} days") }
}
