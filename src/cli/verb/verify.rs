//! `multica verify` and `multica seal`.

use clap::Args;
use serde_json::Value;

use crate::cli::error::CliError;
use crate::cli::output::{Bar, items, line, note, text};
use crate::cli::session::Session;
use crate::client::api::Call;
use crate::seal::{Means, Place};
use crate::wire::api::{PutSeal, Seal, SealDone, SealRequest, VerifyRequest};

/// `multica verify`.
#[derive(Debug, Clone, Default, Args)]
pub struct VerifyArgs {
    /// Holds the log against the seals kept here too: a file or a Git repository; may be given more than
    /// once. The server's own are always looked at.
    #[arg(long, value_name = "FILE|REPO")]
    pub seals: Vec<String>,
}

/// `multica seal`.
#[derive(Debug, Clone, Default, Args)]
pub struct SealArgs {
    /// Keeps the seal here, on this machine, instead of where the server keeps its own: `file:PATH` or
    /// `git:REPOSITORY`.
    #[arg(long, value_name = "PLACE")]
    pub to: Option<String>,
}

pub async fn run(session: &Session, args: VerifyArgs) -> Result<(), CliError> {
    let seals = kept(session, &args.seals).await?;
    let bar = Bar::new(session.limits.patience.duration());
    let asked = VerifyRequest { seals, progress: true };
    let answer = session.api()?.verify(&asked, |what, done, of| bar.tell(what, done, of)).await;
    bar.end();
    let answer = answer?;
    let findings = items(&answer, "findings");
    if session.out.is_json() {
        session.out.json(&answer)?;
    } else {
        for finding in findings {
            line(&format!("- {}", text(finding, "sentence")))?;
            line(&format!("  {}", text(finding, "next_step")))?;
        }
        if findings.is_empty() {
            line(&format!(
                "Verified up to position {}: {} blocks, {} seals, {} deliveries, every chain, content and read model \
                 as it should be.",
                text(&answer, "up_to"),
                text(&answer, "blocks"),
                text(&answer, "seals"),
                text(&answer, "deliveries")
            ))?;
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(CliError::NotVerified { findings: findings.len() }) }
}

pub async fn seal(session: &Session, args: SealArgs) -> Result<(), CliError> {
    let api = session.api()?;
    let place = args.to.as_deref().map(Place::parse).transpose()?.map(Place::absolute);
    let put = match &place {
        None => None,
        Some(place) => {
            let seal: Seal = api.get("/api/seal").await?;
            place.put(&seal, &means(session)).await?;
            Some(PutSeal { position: seal.position, block: seal.block, place: place.kind() })
        }
    };
    let done: Value = api.call(Call::post("/api/seals", &SealRequest { put })?).await?;
    let SealDone { position, .. } = crate::cli::output::read(&done)?;
    let here = place.map(|place| format!(" in {place}")).unwrap_or_default();
    session.out.done(&done, &format!("Sealed at position {position}{here}."))
}

/// The seals of this installation in these places.
async fn kept(session: &Session, places: &[String]) -> Result<Vec<(i64, String)>, CliError> {
    let mut found = Vec::new();
    if places.is_empty() {
        return Ok(found);
    }
    let now: Seal = session.api()?.get("/api/seal").await?;
    for text in places {
        let place = Place::parse(text)?;
        let kept = place.read(&means(session)).await?;
        if kept.unreadable > 0 {
            note(&format!("{} lines of {place} are no seals.", kept.unreadable));
        }
        let before = found.len();
        let ours = kept.seals.into_iter().filter(|seal| seal.installation == now.installation);
        found.extend(ours.map(|seal| (seal.position, seal.block)));
        if found.len() == before {
            return Err(CliError::NoSeals { place: place.to_string() });
        }
    }
    // The newest: the chain ties the older ones to them.
    found.sort();
    let most = session.limits.verified_seals;
    Ok(found.split_off(found.len().saturating_sub(most)))
}

fn means(session: &Session) -> Means {
    Means::of_process(session.limits.seals_bytes, session.limits.git_timeout.duration())
}
