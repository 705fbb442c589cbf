//! `multica projections`: the read models.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::error::{CliError, UsageError};
use crate::cli::output::{Bar, items, line, note, plain_line, text};
use crate::cli::session::Session;
use crate::client::api::{Call, segment};

/// `multica projections …`.
#[derive(Debug, Subcommand)]
pub enum ProjectionsVerb {
    /// Lists the read models: how far they are, what stands still, what is being rebuilt.
    List,
    /// Rebuilds read models from the log, beside those that answer until they are done; goes on where one was
    /// interrupted.
    Rebuild(Names),
    /// Compares read models with the log.
    Verify(Names),
    /// Lets a read model that stands still at an event pass over it; it is degraded until it is rebuilt.
    Skip {
        /// The read model.
        name: String,
    },
}

/// Which ones.
#[derive(Debug, Args)]
pub struct Names {
    /// The read models.
    #[arg(value_name = "NAME", conflicts_with = "all")]
    pub names: Vec<String>,
    /// All of them.
    #[arg(long)]
    pub all: bool,
}

const PATH: &str = "/api/projections";

pub async fn run(session: &Session, verb: ProjectionsVerb) -> Result<(), CliError> {
    match verb {
        ProjectionsVerb::List => list(session).await,
        ProjectionsVerb::Rebuild(names) => rebuild(session, &names).await,
        ProjectionsVerb::Verify(names) => verify(session, &names).await,
        ProjectionsVerb::Skip { name } => skip(session, &name).await,
    }
}

/// What stands in a list for how a read model does.
pub fn state(standing: &Value) -> String {
    match (text(standing, "state").as_str(), standing["degraded"] == true, &standing["rebuild"]) {
        (_, _, rebuild) if !rebuild.is_null() => {
            format!("rebuilding ({} of {})", text(rebuild, "position"), text(rebuild, "target"))
        }
        ("active", true, _) => "degraded".to_owned(),
        (state, ..) => state.to_owned(),
    }
}

async fn list(session: &Session) -> Result<(), CliError> {
    let answer = session.get(PATH).await?;
    let rows = items(&answer, "projections").iter().map(|standing| {
        vec![
            text(standing, "name"),
            text(standing, "version"),
            text(standing, "mode"),
            state(standing),
            format!("{} of {}", text(standing, "position"), text(standing, "head")),
            text(standing, "fault"),
        ]
    });
    let headers = ["read model", "version", "kept", "status", "position", "what is wrong"];
    session.out.list(&answer, &headers, rows.collect(), "No read model is installed.")
}

async fn chosen(session: &Session, names: &Names) -> Result<Vec<String>, CliError> {
    if !names.all {
        return if names.names.is_empty() {
            Err(CliError::Usage(UsageError::NoReadModel))
        } else {
            Ok(names.names.clone())
        };
    }
    let answer = session.get(PATH).await?;
    let mut all: Vec<String> = items(&answer, "projections")
        .iter()
        .filter(|standing| matches!(text(standing, "state").as_str(), "active" | "stopped"))
        .map(|standing| text(standing, "name"))
        .collect();
    all.dedup();
    Ok(all)
}

async fn rebuild(session: &Session, names: &Names) -> Result<(), CliError> {
    let mut done = Vec::new();
    for name in chosen(session, names).await? {
        let api = session.api()?;
        let path = format!("{PATH}/{}/rebuild", segment(&name));
        let call = Call::post(&path, &json!({}))?.waits(session.limits.slow_request.duration());
        let bar = Bar::new(session.limits.patience.duration());
        let answer = {
            let mut work = std::pin::pin!(api.call::<Value>(call));
            loop {
                match tokio::time::timeout(session.limits.progress_look.duration(), &mut work).await {
                    Ok(answer) => break answer,
                    Err(_) => look(session, &name, &bar).await,
                }
            }
        };
        bar.end();
        let answer = answer?;
        if !session.out.is_json() {
            line(&plain_line(&sentence(&answer)))?;
            if answer["passed_over"].as_i64() > Some(0) {
                note(&plain_line(&format!(
                    "{} event(s) can't be folded and were passed over; the first is at position {}: {}. {name} \
                     is degraded until the log is mended and it is rebuilt.",
                    text(&answer, "passed_over"),
                    text(&answer, "first_passed"),
                    text(&answer, "reason")
                )));
            }
        }
        done.push(answer);
    }
    if session.out.is_json() { session.out.json(&json!({"rebuilt": done})) } else { Ok(()) }
}

/// Shows how far a rebuild is. It is only a look: one that fails shows nothing.
async fn look(session: &Session, name: &str, bar: &Bar) {
    let Ok(answer) = session.get(PATH).await else { return };
    let own = |standing: &&Value| standing["name"] == name && !standing["rebuild"].is_null();
    if let Some(standing) = items(&answer, "projections").iter().find(own) {
        let number = |key: &str| standing["rebuild"][key].as_i64().unwrap_or_default();
        let (at, target) = (number("position"), number("target"));
        bar.tell(&format!("rebuilding {name}"), at, target.max(at));
    }
}

fn sentence(answer: &Value) -> String {
    format!(
        "{} is rebuilt up to position {}: {} rows.",
        text(answer, "name"),
        text(answer, "up_to"),
        text(answer, "rows")
    )
}

async fn verify(session: &Session, names: &Names) -> Result<(), CliError> {
    let mut answers = Vec::new();
    let mut wrong = 0;
    for name in chosen(session, names).await? {
        let path = format!("{PATH}/{}/verify", segment(&name));
        let call = Call::post(&path, &json!({}))?.waits(session.limits.slow_request.duration());
        let what = format!("comparing {name} with the log");
        let answer: Value = session.patiently(&what, session.api()?.call(call)).await?;
        let findings = items(&answer, "findings");
        wrong += findings.len();
        if !session.out.is_json() {
            match findings {
                [] => line(&format!("{name} is what the log says."))?,
                findings => {
                    for finding in findings {
                        line(&format!("- {}", text(finding, "sentence")))?;
                        line(&format!("  {}", text(finding, "next_step")))?;
                    }
                }
            }
        }
        answers.push(answer);
    }
    if session.out.is_json() {
        session.out.json(&json!({"verified": answers}))?;
    }
    if wrong == 0 { Ok(()) } else { Err(CliError::NotVerified { findings: wrong }) }
}

async fn skip(session: &Session, name: &str) -> Result<(), CliError> {
    let path = format!("{PATH}/{}/skip", segment(name));
    let answer = session.call(Call::post(&path, &json!({}))?).await?;
    let sentence = format!(
        "{name} passes over the event at position {} and goes on; it is degraded until it is rebuilt: `multica \
         projections rebuild {name}`.",
        text(&answer, "skipped")
    );
    session.out.done(&answer, &sentence)
}
