//! `multica task replay`, `multica task export`, `multica replay`.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use clap::Args;
use serde_json::json;

use crate::cli::error::CliError;
use crate::cli::output::{line, note, plain_line};
use crate::cli::session::Session;
use crate::cli::story::{actor, another_day, story_line};
use crate::client::api::{Call, segment};
use crate::domain::Envelope;
use crate::domain::replay::{self, Verdict};
use crate::kernel::error_chain::Chain;
use crate::wire::bundle::{self, Head, Told};
use crate::wire::feed::{ActorName, Entry, StreamName};

const DIM: Style = Style::new().dimmed();
const OTHERWISE: Style = AnsiColor::Yellow.on_default().bold();

/// How to go through it.
#[derive(Debug, Clone, Args)]
pub struct Steps {
    /// Stops after this position.
    #[arg(long, value_name = "POSITION")]
    until: Option<i64>,
    /// Waits for Enter after each event.
    #[arg(long)]
    step: bool,
}

/// `multica replay FILE`.
#[derive(Debug, Clone, Args)]
pub struct ReplayFile {
    /// A file that `multica task export` wrote; `-` for standard input.
    file: PathBuf,
    #[command(flatten)]
    steps: Steps,
}

/// Goes through a task of the server.
pub async fn of_task(session: &Session, task: &str, steps: &Steps) -> Result<(), CliError> {
    let (head, told) = bundle::read(&fetched(session, task).await?)?;
    show(session, &head, &told, steps)
}

/// Goes through a file.
pub fn file(session: &Session, args: &ReplayFile) -> Result<(), CliError> {
    let failed = |source| CliError::File { path: args.file.clone(), source };
    let mut text = String::new();
    if args.file.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).map_err(failed)?;
    } else {
        text = std::fs::read_to_string(&args.file).map_err(failed)?;
    }
    let (head, told) = bundle::read(&text)?;
    show(session, &head, &told, &args.steps)
}

/// Writes a task's bundle.
pub async fn export(session: &Session, task: &str, file: Option<&Path>) -> Result<(), CliError> {
    let text = fetched(session, task).await?;
    let (head, told) = bundle::read(&text)?;
    let Some(path) = file else { return line(text.trim_end()) };
    let failed = |source| CliError::File { path: path.to_owned(), source };
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    let answer = json!({"task": head.task, "name": head.name, "file": path, "events": told.len()});
    let sentence = format!(
        "Wrote {} events of {}; open them with `multica replay {}`.",
        told.len(),
        head.name,
        path.display()
    );
    session.out.done(&answer, &sentence)
}

async fn fetched(session: &Session, task: &str) -> Result<String, CliError> {
    let api = session.api()?;
    let path = format!("/api/tasks/{}/bundle", segment(task));
    Ok(session.patiently("reading the task's history", api.text(Call::get(&path))).await?)
}

fn show(session: &Session, head: &Head, told: &[Told], steps: &Steps) -> Result<(), CliError> {
    let until = steps.until.unwrap_or(i64::MAX);
    let told: Vec<&Told> = told.iter().filter(|told| told.position <= until).collect();
    let mut unread: BTreeMap<i64, String> = BTreeMap::new();
    let mut history: Vec<Envelope> = Vec::with_capacity(told.len());
    for one in &told {
        match one.envelope() {
            Ok(envelope) => history.push(envelope),
            Err(error) => drop(unread.insert(one.position, Chain(&error).to_string())),
        }
    }
    let outcome: BTreeMap<i64, replay::Step> =
        history.iter().filter_map(|event| event.position).zip(replay::replay(&history)).collect();
    let story: Vec<&Told> = told.into_iter().filter(|one| one.of_story).collect();
    let verdict = |one: &Told| outcome.get(&one.position).map(|step| &step.verdict);
    let otherwise = story.iter().filter(|one| matches!(verdict(one), Some(Verdict::Otherwise(_)))).count();
    let same = story.iter().filter(|one| verdict(one) == Some(&Verdict::Same)).count();
    let unasked = story.len() - otherwise - same;
    if session.out.is_json() {
        let steps: Vec<_> = story
            .iter()
            .map(|one| {
                let step = outcome.get(&one.position);
                json!({
                    "position": one.position, "type": one.event_type, "recorded_at": one.recorded_at,
                    "text": one.text, "state": step.and_then(|step| step.state.as_ref()),
                    "verdict": step.map(|step| &step.verdict), "unreadable": unread.get(&one.position),
                })
            })
            .collect();
        let counts = json!({"same": same, "otherwise": otherwise, "unasked": unasked});
        return session.out.json(&json!({"task": head, "steps": steps, "counts": counts}));
    }
    let entries: Vec<Entry> = story.iter().map(|one| entry(one)).collect();
    let who = entries.iter().map(|entry| actor(entry).chars().count()).max().unwrap_or(0);
    let waits = steps.step && std::io::stdin().is_terminal();
    let mut day = String::new();
    for (one, entry) in story.iter().zip(&entries) {
        if let Some(heading) = another_day(&mut day, entry) {
            line(&heading)?;
        }
        line(&story_line(entry, Some(one.recorded_at), who))?;
        let indent = " ".repeat(16 + who);
        if let Some(step) = outcome.get(&one.position) {
            if let Some(state) = &step.state {
                line(&format!("{indent}{DIM}→ {}{DIM:#}", plain_line(state)))?;
            }
            if let Verdict::Otherwise(today) = &step.verdict {
                line(&format!("{indent}{OTHERWISE}today:{OTHERWISE:#} {}", plain_line(today)))?;
            }
        } else if let Some(why) = unread.get(&one.position) {
            line(&format!("{indent}{OTHERWISE}unreadable:{OTHERWISE:#} {}", plain_line(why)))?;
        }
        if waits && !goes_on() {
            break;
        }
    }
    let decided = match otherwise {
        0 => "this build decides the same".to_owned(),
        1 => "this build would decide 1 of them otherwise".to_owned(),
        n => format!("this build would decide {n} of them otherwise"),
    };
    note(&format!(
        "{} events; {} were decided again: {decided}. {unasked} only tell a fact.",
        story.len(),
        same + otherwise
    ));
    Ok(())
}

/// Waits for Enter; `q` ends it.
fn goes_on() -> bool {
    let mut typed = String::new();
    std::io::stdin().read_line(&mut typed).is_ok_and(|read| read > 0 && !typed.trim().starts_with('q'))
}

fn entry(told: &Told) -> Entry {
    let word = |value: serde_json::Result<serde_json::Value>| {
        value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    Entry {
        position: told.position,
        event_type: told.event_type.clone(),
        workspace: told.workspace.to_string(),
        stream: StreamName { kind: told.family.clone(), id: told.stream.to_string() },
        actor: ActorName {
            kind: word(serde_json::to_value(told.actor.kind)),
            id: told.actor.id.clone(),
            name: told.actor_name.clone(),
            via: word(serde_json::to_value(told.actor.via)),
        },
        occurred_at: told.occurred_at.to_string(),
        recorded_at: told.recorded_at.to_string(),
        text: told.text.clone(),
        links: Vec::new(),
    }
}
