//! `multica directory`.

use clap::Subcommand;
use serde_json::Value;

use crate::cli::error::CliError;
use crate::cli::output::{read, short};
use crate::cli::session::{Session, pick};
use crate::wire::api::{Directory, Holder, Stopping};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum DirectoryVerb {
    /// Lists the directories, who works in them, and who waits.
    List,
    /// Shows one directory's holder and queue.
    #[command(visible_alias = "get")]
    Show {
        /// Its label, its path, its id or four or more characters of that.
        directory: String,
    },
}

pub async fn run(session: &Session, verb: DirectoryVerb) -> Result<(), CliError> {
    let answer = session.get("/api/directories").await?;
    match verb {
        DirectoryVerb::List => list(session, &answer),
        DirectoryVerb::Show { directory } => {
            let found = pick(read::<Vec<Directory>>(&answer["directories"])?, &directory)?;
            let one = session.get(&format!("/api/directories/{}", found.id)).await?;
            show(session, &one)
        }
    }
}

fn list(session: &Session, answer: &Value) -> Result<(), CliError> {
    let directories: Vec<Directory> = read(&answer["directories"])?;
    let rows = directories
        .into_iter()
        .map(|directory| {
            let since = directory.holder.as_ref().and_then(|holder| holder.since);
            vec![
                short(&directory.id.to_string()),
                directory.label,
                directory.path.unwrap_or_default(),
                at_work(directory.holder.as_ref(), &directory.stopping),
                session.out.since(since),
                directory.queue.len().to_string(),
            ]
        })
        .collect();
    let headers = ["id", "label", "path", "holder", "since", "waiting"];
    session.out.list(
        answer,
        &headers,
        rows,
        "No task has asked for a directory yet; what is attached: `multica project resource list PROJECT`.",
    )
}

fn show(session: &Session, answer: &Value) -> Result<(), CliError> {
    let one: Directory = read(answer)?;
    let since = |at| session.out.since(at);
    let queue: Vec<String> = one
        .queue
        .iter()
        .map(|next| {
            let name = next.name.clone().unwrap_or_else(|| next.task_id.to_string());
            format!("{}. {name}  since {}", next.place, since(next.since))
        })
        .collect();
    let holder = one.holder.as_ref();
    let blocked =
        holder.and_then(|holder| holder.blocked.as_ref()).map(|lock| format!("locked by {}", lock.by));
    let stopping: Vec<String> = one
        .stopping
        .iter()
        .map(|run| format!("{}  given up, told to stop since {}", run.name, since(run.since)))
        .collect();
    session.out.fields(
        answer,
        &[
            ("ID", one.id.to_string()),
            ("LABEL", one.label.clone()),
            ("PATH", one.path.clone().unwrap_or_default()),
            ("MACHINE", one.machine_id.to_string()),
            ("HOLDER", held_by(holder)),
            ("SINCE", since(holder.and_then(|holder| holder.since))),
            ("LOCK", blocked.unwrap_or_default()),
            ("QUEUE", queue.join("\n")),
            ("SAME AS", one.same_as.map(|id| id.to_string()).unwrap_or_default()),
            ("STOPPING", stopping.join("\n")),
        ],
    )
}

/// Who has it, and who may be at work there all the same.
fn at_work(holder: Option<&Holder>, stopping: &[Stopping]) -> String {
    let names: Vec<&str> = stopping.iter().map(|run| run.name.as_str()).collect();
    let held = held_by(holder);
    match names.as_slice() {
        [] => held,
        [one] => format!("{held}, {one} is being stopped"),
        several => format!("{held}, {} are being stopped", several.join(" and ")),
    }
}

fn held_by(holder: Option<&Holder>) -> String {
    holder.map_or_else(
        || "free".to_owned(),
        |holder| holder.name.clone().unwrap_or_else(|| holder.task_id.to_string()),
    )
}
