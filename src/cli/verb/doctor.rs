//! `multica doctor`: what doesn't work, and what helps.

use serde_json::{Value, json};

use crate::cli::error::CliError;
use crate::cli::output::{items, line, plain_line, read, text};
use crate::cli::session::Session;
use crate::domain::webhook::OffBecause;
use crate::wire::api::Webhook;

/// One thing that was looked at.
struct Look {
    part: &'static str,
    sentence: String,
    /// What helps, where something is wrong.
    next_step: Option<String>,
}

impl Look {
    fn well(part: &'static str, sentence: impl Into<String>) -> Self {
        Self { part, sentence: sentence.into(), next_step: None }
    }

    fn wrong(part: &'static str, sentence: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self { part, sentence: sentence.into(), next_step: Some(next_step.into()) }
    }

    fn failed(part: &'static str, error: &CliError) -> Self {
        Self::wrong(part, error.sentence(), error.next_step())
    }
}

pub async fn run(session: &Session) -> Result<(), CliError> {
    let mut looks = vec![server(session).await];
    // What the server can't be asked for needs no line of its own each.
    if looks.iter().all(|look| look.next_step.is_none()) {
        looks.extend(read_models(session).await);
        looks.extend(daemons(session).await);
        looks.extend(webhooks(session).await);
    }
    let faults = looks.iter().filter(|look| look.next_step.is_some()).count();
    if session.out.is_json() {
        let shown: Vec<Value> = looks
            .iter()
            .map(|look| {
                json!({"part": look.part, "ok": look.next_step.is_none(), "sentence": look.sentence,
                    "next_step": look.next_step})
            })
            .collect();
        session.out.json(&json!({"looks": shown, "faults": faults}))?;
    } else {
        for look in &looks {
            let mark = if look.next_step.is_none() { "ok " } else { "!! " };
            line(&format!("{mark} {}", plain_line(&look.sentence)))?;
            if let Some(step) = &look.next_step {
                line(&format!("    Next: {}", plain_line(step)))?;
            }
        }
    }
    if faults == 0 { Ok(()) } else { Err(CliError::Unwell { faults }) }
}

async fn server(session: &Session) -> Look {
    match session.get("/health").await {
        Ok(health) => {
            let version = text(&health, "version");
            Look::well("server", format!("The server answers (version {version})."))
        }
        Err(error) => Look::failed("server", &error),
    }
}

async fn read_models(session: &Session) -> Vec<Look> {
    let answer = match session.get("/api/projections").await {
        Ok(answer) => answer,
        Err(error) => return vec![Look::failed("database", &error)],
    };
    let all = items(&answer, "projections");
    let mut looks = Vec::new();
    let head = all.first().map(|standing| text(standing, "head")).unwrap_or_default();
    looks.push(Look::well("database", format!("The database answers; the log stands at position {head}.")));
    for standing in all {
        let (name, fault) = (text(standing, "name"), text(standing, "fault"));
        let step = match text(standing, "state").as_str() {
            "stopped" => format!(
                "It is tried again by itself. `multica verify` names what is damaged; `multica projections skip \
                 {name}` lets it pass over the event."
            ),
            _ => format!("When the log is mended: `multica projections rebuild {name}`."),
        };
        if !fault.is_empty() {
            looks.push(Look::wrong("read models", capital(&fault), step));
        }
    }
    if looks.len() == 1 {
        looks.push(Look::well("read models", format!("All {} read models are in order.", all.len())));
    }
    let unknown = answer["unknown_events"].as_u64().unwrap_or_default();
    if unknown > 0 {
        looks.push(Look::wrong(
            "events",
            format!("The server has met events of a newer version of the program {unknown} times, and ignores them."),
            "Start the newest build.",
        ));
    }
    looks
}

async fn daemons(session: &Session) -> Vec<Look> {
    let answer = match session.get("/api/daemons").await {
        Ok(answer) => answer,
        Err(error) => return vec![Look::failed("daemons", &error)],
    };
    let all = items(&answer, "daemons");
    if all.is_empty() {
        let step = "Start one on each machine with agents: `multica daemon start`.";
        return vec![Look::wrong("daemons", "No daemon has registered: nothing runs.", step)];
    }
    all.iter()
        .map(|daemon| {
            let (name, status) = (text(daemon, "device_name"), text(daemon, "status"));
            match status.as_str() {
                "online" | "draining" => Look::well("daemons", format!("The daemon on {name} is {status}.")),
                _ => Look::wrong(
                    "daemons",
                    format!("The daemon on {name} is {status}."),
                    "Start it there: `multica daemon start`; or give it up: `multica daemon declare-dead`.",
                ),
            }
        })
        .collect()
}

/// Nothing where there are none, or where they aren't this account's business.
async fn webhooks(session: &Session) -> Vec<Look> {
    let all = match session.get("/api/webhooks").await {
        Ok(answer) => answer,
        Err(error) if error.code() == "forbidden" => return Vec::new(),
        Err(error) => return vec![Look::failed("webhooks", &error)],
    };
    let all: Vec<Webhook> = match read(&all) {
        Ok(all) => all,
        Err(error) => return vec![Look::failed("webhooks", &error)],
    };
    all.iter().map(webhook).collect()
}

fn webhook(one: &Webhook) -> Look {
    let name = &one.name;
    let off = match one.off_because {
        Some(OffBecause::Gone) => Some("its receiver wants nothing any more"),
        Some(OffBecause::Failing) => Some("too many of its deliveries were given up"),
        Some(OffBecause::Asked) | None => None,
    };
    if let Some(why) = off {
        let sentence = format!("The webhook {name} was turned off: {why}.");
        return Look::wrong(
            "webhooks",
            sentence,
            format!("When its receiver is mended: `multica webhook update {name} --enable`."),
        );
    }
    if one.dead > 0 {
        let sentence = match one.dead {
            1 => format!("A delivery of the webhook {name} was given up."),
            many => format!("{many} deliveries of the webhook {name} were given up."),
        };
        let step = format!(
            "`multica webhook deliveries {name} --state dead` says why; `multica webhook retry {name} --all` tries them again."
        );
        return Look::wrong("webhooks", sentence, step);
    }
    let state = if one.off_because.is_some() { "is off, as somebody asked" } else { "delivers" };
    Look::well("webhooks", format!("The webhook {name} {state}."))
}

fn capital(fault: &str) -> String {
    crate::cli::output::as_sentence(fault)
}
