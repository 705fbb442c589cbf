//! `multica directory`.

use clap::Subcommand;
use serde_json::Value;

use crate::cli::error::CliError;
use crate::cli::output::{items, short, text};
use crate::cli::session::{Session, pick};
use crate::client::api::segment;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum DirectoryVerb {
    /// Lists the directories, who works in them, and who waits.
    List,
    /// Shows one directory's holder and queue.
    Show {
        /// Id, four or more characters of it, or its label.
        directory: String,
    },
}

pub async fn run(session: &Session, verb: DirectoryVerb) -> Result<(), CliError> {
    let answer = session.get("/api/directories").await?;
    match verb {
        DirectoryVerb::List => list(session, &answer),
        DirectoryVerb::Show { directory } => {
            let found = pick("directory", items(&answer, "directories"), &directory, "label")?;
            let one = session.get(&format!("/api/directories/{}", segment(&text(&found, "id")))).await?;
            show(session, &one)
        }
    }
}

fn list(session: &Session, answer: &Value) -> Result<(), CliError> {
    let rows = items(answer, "directories")
        .iter()
        .map(|d| {
            vec![
                short(&text(d, "id")),
                text(d, "label"),
                text(d, "path"),
                or(text(d, "holder.name"), "free"),
                session.out.ago(&text(d, "holder.since")),
                items(&d["queue"], "").len().to_string(),
            ]
        })
        .collect();
    let headers = ["id", "label", "path", "holder", "since", "waiting"];
    session.out.list(answer, &headers, rows, "No directory has been used yet.")
}

fn show(session: &Session, one: &Value) -> Result<(), CliError> {
    let queue: Vec<String> = items(&one["queue"], "")
        .iter()
        .map(|q| {
            format!("{}. {}  since {}", text(q, "place"), text(q, "name"), session.out.ago(&text(q, "since")))
        })
        .collect();
    let blocked = match &one["holder"]["blocked"] {
        Value::Object(_) | Value::String(_) | Value::Bool(true) => {
            "locked by a program outside multica".to_owned()
        }
        _ => String::new(),
    };
    session.out.fields(
        one,
        &[
            ("ID", text(one, "id")),
            ("LABEL", text(one, "label")),
            ("PATH", text(one, "path")),
            ("MACHINE", text(one, "machine_id")),
            ("HOLDER", or(text(one, "holder.name"), "free")),
            ("SINCE", session.out.ago(&text(one, "holder.since"))),
            ("LOCK", blocked),
            ("QUEUE", queue.join("\n")),
        ],
    )
}

fn or(text: String, other: &str) -> String {
    if text.is_empty() { other.to_owned() } else { text }
}
