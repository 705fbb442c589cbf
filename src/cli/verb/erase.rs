//! `multica erase`.

use std::io::{BufRead, IsTerminal, Write};

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cli::error::CliError;
use crate::cli::output::{line, note, read};
use crate::cli::session::Session;
use crate::client::api::Call;
use crate::wire::api::{Erasure, ErasureRequest};

/// `multica erase`.
#[derive(Debug, Clone, Subcommand)]
pub enum EraseVerb {
    /// Erases what a member is called, and the issues' titles, descriptions and comments that they wrote.
    ///
    /// What belongs to the workspace stays: projects, agents' instructions, what agents answered. The events stay
    /// too, with length and digest of each text. A token's name and a machine's name aren't erased, nor what left the
    /// server before: backups, exports, folders of runs on their machines.
    Person {
        /// The member: name, address or id.
        member: String,
        /// Whether to do it.
        #[command(flatten)]
        sure: Sure,
    },
    /// Erases what a run said: its output, its failure's detail, its comments and its transcripts.
    ///
    /// What it was asked to do stands in its issue and stays. The events stay too, with length and digest of each
    /// text. What its machine keeps (branches, env roots) isn't touched, nor what left the server before:
    /// backups, exports. What the machine sends late isn't kept.
    Task {
        /// The task: KEY-n#run, the id or a part of it.
        task: String,
        /// Whether to do it.
        #[command(flatten)]
        sure: Sure,
    },
}

/// Whether to do it.
#[derive(Debug, Clone, Copy, Args)]
pub struct Sure {
    /// Erases without asking.
    #[arg(long)]
    yes: bool,
    /// Only says what would go.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

pub async fn run(session: &Session, verb: EraseVerb) -> Result<(), CliError> {
    session.people_only("erase")?;
    let (asked, sure) = match verb {
        EraseVerb::Person { member, sure } => {
            (ErasureRequest { person: Some(member), ..ErasureRequest::default() }, sure)
        }
        EraseVerb::Task { task, sure } => {
            (ErasureRequest { task: Some(task), ..ErasureRequest::default() }, sure)
        }
    };
    let wait = session.limits.slow_request.duration();
    let call = Call::get("/api/erasures")
        .query_some("person", asked.person.as_deref())
        .query_some("task", asked.task.as_deref())
        .waits(wait);
    let api = session.api()?;
    let answer: Value = session.patiently("looking for texts", api.call(call)).await?;
    let plan: Erasure = read(&answer)?;
    let nothing = plan.texts == 0 && plan.transcripts == 0;
    if sure.dry_run || (nothing && !sure.yes) {
        return session.out.done(&answer, &told(&plan, "Nothing is left to erase of", "Would erase"));
    }
    if !sure.yes {
        if session.out.is_json() {
            return Err(CliError::NotConfirmed);
        }
        if !std::io::stdin().is_terminal() {
            note(&told(&plan, "Nothing is left to erase of", "Would erase"));
            return Err(CliError::NotConfirmed);
        }
        line(&told(&plan, "Nothing is left to erase of", "Would erase"))?;
        if !confirmed()? {
            return Err(CliError::NotConfirmed);
        }
    }
    // By id: what it is called may be gone with the first text.
    let asked = match plan.kind.as_str() {
        "person" => ErasureRequest { person: Some(plan.id.clone()), task: None },
        _ => ErasureRequest { person: None, task: Some(plan.id.clone()) },
    };
    let call = Call::post("/api/erasures", &asked)?.waits(wait);
    let answer: Value = session.patiently("erasing", api.call(call)).await?;
    let done = Erasure { label: plan.label, ..read(&answer)? };
    session.out.done(&answer, &told(&done, "Nothing was left to erase of", "Erased"))
}

fn told(plan: &Erasure, nothing: &str, verb: &str) -> String {
    let mut what: Vec<String> = plan.kinds.iter().map(|(kind, n)| format!("{n} × {kind}")).collect();
    if plan.transcripts > 0 {
        what.push(format!("{} × transcript ({} messages)", plan.transcripts, plan.messages));
    }
    if what.is_empty() {
        return format!("{nothing} {}.", plan.label);
    }
    format!("{verb} of {}: {}. It can't be undone; the events stay.", plan.label, what.join(", "))
}

/// Asks on the terminal.
fn confirmed() -> Result<bool, CliError> {
    let mut out = std::io::stderr().lock();
    let asked = write!(out, "Type `erase` to do it: ").and_then(|()| out.flush());
    asked.map_err(CliError::Output)?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(CliError::Output)?;
    Ok(answer.trim() == "erase")
}
