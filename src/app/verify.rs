//! Verifies the installation: the log against itself and its seals, every read model against the log, deliveries to
//! webhooks against what was wanted.
//!
//! Not here: the walk (`store::verify`), the comparison of one read model (`readmodel::verify`).

use serde::Serialize;

use super::seals::Seals;
use super::writer::check::Schemas;
use super::{AppError, webhooks};
use crate::kernel::error_chain::Chain;
use crate::readmodel::query::{self, Standing};
use crate::readmodel::{self, Registered, Registry};
use crate::seal::{Place, SealError};
use crate::store::Store;
use crate::store::verify::{self, Asked, Sealed};
use crate::wire::api::Seal;

/// Something that isn't as it should be, with where and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// A stable code.
    pub code: &'static str,
    /// Where in the log, where that can be said.
    pub position: Option<i64>,
    /// What is wrong.
    pub sentence: String,
    /// What to do now.
    pub next_step: String,
}

/// What a verification came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// The last position looked at.
    pub up_to: i64,
    /// Blocks whose hash was computed again.
    pub blocks: u64,
    /// Texts that events refer to and that were erased.
    pub erased: u64,
    /// Seals that blocks were held against.
    pub seals: u64,
    /// Read models that were compared with the log.
    pub read_models: u32,
    /// Deliveries to webhooks that there had to be.
    pub deliveries: u64,
    /// What is wrong: the log in the order of positions, then the tables beside it, then the read models.
    pub findings: Vec<Found>,
}

/// Hears how far it is: with what, how much of it, of how much.
pub type Tell<'a> = &'a (dyn Fn(&str, i64, i64) + Send + Sync);

/// Verifies everything; `seals` are those that whoever asks has kept.
///
/// # Errors
/// [`AppError`] when the log or a table can't be read; damage is a finding, never an error.
pub async fn run(
    store: &Store,
    registry: &Registry,
    seals: Vec<Sealed>,
    tell: Tell<'_>,
) -> Result<Verification, AppError> {
    let catalogue = Schemas::catalogue();
    let log = |at, of| tell("the log", at, of);
    let walked = verify::run_with(store, Asked { catalogue: &catalogue, seals: &seals, tell: &log }).await?;
    let mut findings: Vec<Found> = walked
        .findings
        .iter()
        .map(|finding| Found {
            code: finding.code(),
            position: finding.position(),
            sentence: finding.to_string(),
            next_step: finding.next_step().to_owned(),
        })
        .collect();
    let all = registry.all().count();
    let of = i64::try_from(all).unwrap_or(i64::MAX);
    for (done, registered) in (0..).zip(registry.all()) {
        tell(registered.model().name(), done, of);
        findings.extend(compared(store, registered).await?);
    }
    tell("deliveries", 0, 1);
    let (deliveries, wrong) = webhooks::verify::run(store).await?;
    findings.extend(wrong);
    findings.extend(standing_faults(store, None).await?);
    Ok(Verification {
        up_to: walked.up_to,
        blocks: walked.blocks,
        erased: walked.erased,
        seals: walked.seals,
        read_models: u32::try_from(all).unwrap_or(u32::MAX),
        deliveries,
        findings,
    })
}

/// The seals of the installation's own places, and what is wrong with the places.
pub async fn own_seals(seals: &Seals) -> (Vec<Sealed>, Vec<Found>) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for place in &seals.places {
        match place.read(&seals.means).await {
            Ok(kept) => found.extend(of_installation(kept.seals, seals)),
            // Nothing was sealed there yet.
            Err(SealError::File { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound && matches!(place, Place::File(_)) => {}
            Err(error) => wrong.push(Found {
                code: "seals_unreadable",
                position: None,
                sentence: Chain(&error).to_string(),
                next_step: error.next_step(),
            }),
        }
    }
    (found, wrong)
}

fn of_installation(kept: Vec<Seal>, seals: &Seals) -> impl Iterator<Item = Sealed> {
    let most = seals.limits.verified_seals;
    let ours: Vec<Seal> = kept.into_iter().filter(|seal| seal.installation == seals.installation).collect();
    let skipped = ours.len().saturating_sub(most);
    ours.into_iter().skip(skipped).map(|seal| Sealed { position: seal.position, block: seal.block })
}

/// Compares one read model with the log.
///
/// # Errors
/// [`AppError`] when log or table can't be read; damage is a finding.
pub async fn compared(store: &Store, registered: &Registered) -> Result<Vec<Found>, AppError> {
    let name = registered.model().name();
    let unfoldable = |position, reason: String| Found {
        code: "read_model_unfoldable",
        position,
        sentence: format!("{name} can't be compared with the log there: {reason}"),
        next_step: "Mend the log first: the read model is computed from it.".to_owned(),
    };
    let compared = match readmodel::verify::one(store, registered).await {
        Ok(compared) => compared,
        Err(error) if error.is_damage() => {
            return Ok(vec![unfoldable(error.poison(), Chain(&error).to_string())]);
        }
        Err(error) => return Err(error.into()),
    };
    let mut found: Vec<Found> =
        compared.passed.into_iter().map(|(position, reason)| unfoldable(Some(position), reason)).collect();
    found.extend(compared.differences.iter().map(different));
    if compared.more {
        found.push(Found {
            code: "rows_differ",
            position: None,
            sentence: format!("more rows of {name} than these differ from its rebuild"),
            next_step: rebuild(name),
        });
    }
    Ok(found)
}

/// Read models that stand still at an event or have passed over one: all, or the one of that name.
///
/// # Errors
/// [`AppError`] when the database doesn't answer.
pub async fn standing_faults(store: &Store, name: Option<&str>) -> Result<Vec<Found>, AppError> {
    let all = query::standings(store).await?;
    let asked = all.iter().filter(|standing| name.is_none_or(|name| standing.name == name));
    Ok(asked.filter_map(standing_fault).collect())
}

fn standing_fault(standing: &Standing) -> Option<Found> {
    let (code, next_step) = if standing.state == "stopped" {
        ("read_model_stopped", skip(&standing.name))
    } else {
        (
            "read_model_degraded",
            format!("When the log is mended: `multica projections rebuild {}`.", standing.name),
        )
    };
    Some(Found { code, position: standing.stopped_at, sentence: standing.fault()?, next_step })
}

fn skip(name: &str) -> String {
    format!(
        "It is tried again by itself once the log is mended; `multica projections skip {name}` lets it pass over \
         the event."
    )
}

fn rebuild(name: &str) -> String {
    format!(
        "The events are whole: ask who changed the table, and bring it back from the log: `multica projections \
         rebuild {name}`."
    )
}

fn different(difference: &readmodel::verify::Difference) -> Found {
    let (code, how) = match (&difference.live, &difference.rebuilt) {
        (Some(_), Some(_)) => ("row_differs", "differs from"),
        (Some(_), None) => ("row_unknown", "is not in"),
        (None, _) => ("row_missing", "is missing beside"),
    };
    let row = difference.rebuilt.as_ref().or(difference.live.as_ref());
    Found {
        code,
        position: row.map(|row| row.position),
        sentence: format!("row {} of {} {how} its rebuild", difference.key, difference.read_model),
        next_step: rebuild(&difference.read_model),
    }
}
