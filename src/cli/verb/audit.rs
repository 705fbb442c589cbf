//! `multica audit`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::audit_file::{ExportFile, cursor};
use crate::cli::error::CliError;
use crate::cli::output::{escaped, line, note, plain, read};
use crate::cli::session::Session;
use crate::client::api::{Call, segment};
use crate::client::download::Download;
use crate::wire::audit::{AuditEntry, AuditEvent, AuditPage, EXPORT_AFTER, EXPORT_UP_TO};

/// `multica audit`: lists, unless a verb says otherwise.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AuditArgs {
    #[command(subcommand)]
    verb: Option<AuditVerb>,
    #[command(flatten)]
    filters: Filters,
    /// At most so many entries, the newest first.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Only what is older than that place: the cursor that the page before named.
    #[arg(long, value_name = "CURSOR")]
    before: Option<String>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum AuditVerb {
    /// Shows one event, whole: its sentence, its envelope, its data.
    Show {
        /// Its position in the log.
        position: i64,
    },
    /// Writes entries out, oldest first. That it was made is an event itself.
    Export(Box<Export>),
}

/// What the trail is narrowed to.
#[derive(Debug, Args)]
pub struct Filters {
    /// Only by that actor: a name, an id, `member`, `agent`, `daemon` or `system`, or one of those with `/ID`.
    #[arg(long)]
    actor: Option<String>,
    /// Only about a thing: GAME-12, GAME-12#3, or task/…, issue/…, project/…, agent/…, directory/… or daemon/…
    /// with its name or id.
    #[arg(long)]
    target: Option<String>,
    /// Only of a type (`task.started`), of a family (`task`), or that begin so (`task.cancel*`).
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Only what was recorded then or later: a time or a day (UTC, unless it names a zone), or how long ago (2h).
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only what was recorded before.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only what followed from one intent.
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,
    /// Only what happened (done), what was recorded but came too late (ignored), or what a rule refused.
    #[arg(long, value_parser = ["done", "ignored", "refused"])]
    outcome: Option<String>,
    /// Only entries that hold all these words.
    #[arg(short = 'q', long = "search", value_name = "WORDS")]
    words: Option<String>,
}

/// `multica audit export`.
#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    filters: Filters,
    /// A JSON object a line, or comma-separated values.
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    format: ExportFormat,
    /// Begins after that place: a position, or the cursor of an entry.
    #[arg(long, value_name = "POSITION")]
    after: Option<String>,
    /// Ends with that position, instead of the newest.
    #[arg(long, value_name = "POSITION")]
    up_to: Option<i64>,
    /// Writes to a file; one that is there already is gone on with after its last whole line.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// How entries are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// A JSON object a line.
    Jsonl,
    /// Comma-separated values.
    Csv,
}

pub async fn run(session: &Session, args: AuditArgs) -> Result<(), CliError> {
    match args.verb {
        None => list(session, &args).await,
        Some(AuditVerb::Show { position }) => show(session, position).await,
        Some(AuditVerb::Export(export)) => self::export(session, &export).await,
    }
}

/// The filters as the server takes them.
async fn query(session: &Session, filters: &Filters) -> Result<Vec<(&'static str, String)>, CliError> {
    let target = match filters.target.as_deref().map(|target| target.split_once('/').unwrap_or(("", target)))
    {
        None => None,
        Some(("project", name)) => Some(format!("project/{}", session.project(name).await?.id)),
        Some(("agent", name)) => Some(format!("agent/{}", session.agent_ever(name).await?.id)),
        Some(("directory", name)) => Some(format!("directory/{}", session.directory(name).await?.id)),
        Some(_) => filters.target.clone(),
    };
    let all = [
        ("actor", filters.actor.clone()),
        ("target", target),
        ("type", filters.kind.clone()),
        ("since", filters.since.clone()),
        ("until", filters.until.clone()),
        ("correlation", filters.correlation.clone()),
        ("outcome", filters.outcome.clone()),
        ("q", filters.words.clone()),
    ];
    Ok(all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

async fn list(session: &Session, args: &AuditArgs) -> Result<(), CliError> {
    let query = query(session, &args.filters).await?;
    let call =
        Call::get("/api/audit").query("limit", args.limit).query_some("before", args.before.as_deref());
    let call = query.iter().fold(call, |call, (name, value)| call.query(name, value));
    let answer = session.call(call).await?;
    let page: AuditPage = read(&answer)?;
    let rows = page.entries.iter().map(|entry| row(session, entry)).collect();
    let headers = ["position", "when", "type", "outcome", "what"];
    session.out.list(&answer, &headers, rows, "Nothing in the audit trail fits.")?;
    if session.out.is_json() {
        return Ok(());
    }
    if let Some(reached) = &page.searched_to {
        note(&format!("Searched back to position {} ({}).", reached.position, reached.recorded_at));
    }
    if let Some(next) = &page.next {
        note(&format!("Older ones: the same with `--before {next}`."));
    }
    Ok(())
}

fn row(session: &Session, entry: &AuditEntry) -> Vec<String> {
    let e = &entry.entry;
    let when = session.out.since(e.recorded_at.parse().ok());
    // A refused command has no position of its own.
    let position = if entry.outcome == "refused" { String::new() } else { e.position.to_string() };
    vec![position, when, e.event_type.clone(), entry.outcome.clone(), e.text.clone()]
}

async fn show(session: &Session, position: i64) -> Result<(), CliError> {
    let answer = session.get(&format!("/api/audit/{}", segment(&position.to_string()))).await?;
    if session.out.is_json() {
        return session.out.json(&answer);
    }
    let event: AuditEvent = read(&answer)?;
    let (entry, e) = (&event.entry, &event.entry.entry);
    line(&plain(&format!("{}.", e.text)))?;
    line("")?;
    let actor = format!("{} ({} {}, by {})", e.actor.name, e.actor.kind, e.actor.id, e.actor.via);
    session.out.fields(
        &Value::Null,
        &[
            ("POSITION", e.position.to_string()),
            ("TYPE", format!("{} (schema {})", e.event_type, event.schema)),
            ("STREAM", format!("{} {}, version {}", e.stream.kind, e.stream.id, event.version)),
            ("ACTOR", actor),
            ("OCCURRED", e.occurred_at.clone()),
            ("RECORDED", e.recorded_at.clone()),
            ("CORRELATION", entry.correlation.clone()),
            ("COMMAND", entry.command.clone()),
            ("CAUSATION", entry.causation.map(|position| position.to_string()).unwrap_or_default()),
            ("EVENT", event.event_id.clone()),
        ],
    )?;
    line("")?;
    session.out.json(&entry.data.clone().unwrap_or_default())
}

async fn export(session: &Session, args: &Export) -> Result<(), CliError> {
    let mut query = query(session, &args.filters).await?;
    let format = args.format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    query.push(("format", format));
    let mut file = args.file.as_deref().map(|path| ExportFile::open(path, args.format)).transpose()?;
    let reached = file.as_ref().and_then(|file| file.reached.clone());
    query.extend(reached.or_else(|| args.after.clone()).map(|after| ("after", after)));
    query.extend(args.up_to.map(|position| ("up_to", position.to_string())));
    if file.as_ref().is_some_and(|file| file.begun) {
        query.push(("headless", "true".to_owned()));
    }
    let api = session.api()?;
    let asked = Download::post(&api, "/api/audit/export", &query);
    let mut answer = session.patiently("waiting for the server", asked).await?;
    let bar = bar(&answer, file.is_some());
    let mut lines = Lines::default();
    loop {
        let chunk = match answer.next().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            Err(source) => {
                bar.abandon();
                return Err(CliError::ExportBroken { file: args.file.clone(), source });
            }
        };
        let Some(whole) = lines.push(&chunk) else { continue };
        if let Some(position) = position(&whole, args.format) {
            bar.set_position(position.saturating_sub(number(answer.header(EXPORT_AFTER))));
        }
        match &mut file {
            Some(file) => file.write(&whole)?,
            None => print(&whole)?,
        }
    }
    bar.finish_and_clear();
    if let (Some(file), Some(path)) = (file, &args.file) {
        file.finish()?;
        note(&format!(
            "Exported up to position {} to {}.",
            answer.header(EXPORT_UP_TO).unwrap_or_default(),
            path.display()
        ));
    }
    Ok(())
}

/// A bar on a terminal; nothing where nobody looks, or where the entries themselves are printed.
fn bar(answer: &Download, to_file: bool) -> ProgressBar {
    if !to_file || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let up_to = number(answer.header(EXPORT_UP_TO));
    let bar = ProgressBar::new(up_to.saturating_sub(number(answer.header(EXPORT_AFTER))));
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% {elapsed} (about {eta} more)") {
        bar.set_style(style);
    }
    bar
}

/// The position in a place of the trail.
fn number(place: Option<&str>) -> u64 {
    place.and_then(|place| place.split('-').next()?.parse().ok()).unwrap_or_default()
}

/// The position of the last of some whole lines.
fn position(whole: &[u8], format: ExportFormat) -> Option<u64> {
    let last = whole.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n').next()?;
    cursor(last, format)?.map(|cursor| number(Some(&cursor)))
}

/// Cuts pieces into whole lines, so that nothing half is ever written.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn push(&mut self, chunk: &[u8]) -> Option<Vec<u8>> {
        let Some(end) = chunk.iter().rposition(|byte| *byte == b'\n') else {
            self.rest.extend_from_slice(chunk);
            return None;
        };
        let mut whole = std::mem::take(&mut self.rest);
        whole.extend_from_slice(&chunk[..=end]);
        self.rest.extend_from_slice(&chunk[end + 1..]);
        Some(whole)
    }
}

/// To standard output: byte for byte, unless a terminal reads, which what agents say must not steer.
fn print(whole: &[u8]) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let written = if out.is_terminal() {
        out.write_all(escaped(&String::from_utf8_lossy(whole)).as_bytes())
    } else {
        out.write_all(whole)
    };
    written.and_then(|()| out.flush()).map_err(CliError::Output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_whole_lines() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"{\"cursor\":\"1"), None);
        assert_eq!(lines.push(b"\"}\n{\"cu").as_deref(), Some(&b"{\"cursor\":\"1\"}\n"[..]));
        assert_eq!(lines.push(b"rsor\":\"2\"}\n").as_deref(), Some(&b"{\"cursor\":\"2\"}\n"[..]));
        assert_eq!(
            position(b"{\"cursor\":\"1\"}\n{\"cursor\":\"12-5-0a\"}\n", ExportFormat::Jsonl),
            Some(12)
        );
        assert_eq!(position(b"cursor,position,x\n", ExportFormat::Csv), None);
    }
}
