//! `GET /api/what-if?set=queued_ttl=30m&since=7d`: which tasks would have gone differently with another value of
//! a timer.
//!
//! Invariants: only timers whose inputs are in the log are asked; what isn't asked is refused by its name.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::domain::what_if::{Difference, Instead, Parameter, WhatIf};
use crate::domain::{Event, Family, Refusal, StreamKey};
use crate::http::as_of::{self, AsAsked};
use crate::http::auth::Identity;
use crate::http::body::Query;
use crate::http::error::ApiError;
use crate::http::left_out;
use crate::kernel::limits::Limits;
use crate::kernel::text;
use crate::store::raw::Reading;
use crate::store::read;
use crate::wire::api::{WhatIf as Told, WhatIfRecorded};

/// See the module.
#[derive(Debug, Default, Deserialize)]
pub struct Asked {
    /// `NAME=SPAN`, several with commas between.
    set: Option<String>,
    /// From when on the values hold; from the beginning when it isn't given.
    since: Option<String>,
}

/// In the order in which history would have gone another way.
pub async fn list(
    AsAsked(app): AsAsked,
    who: Identity,
    Query(asked): Query<Asked>,
) -> Result<Json<Value>, ApiError> {
    who.user()?;
    let values = values(asked.set.as_deref().unwrap_or_default())?;
    let now = read::now(&app.store).await?;
    let since = asked.since.as_deref().filter(|text| !text.trim().is_empty());
    let since = since.map(|text| as_of::time(text, "since", now)).transpose()?;
    let mut what_if = WhatIf::new(values.clone(), since.unwrap_or(Timestamp::UNIX_EPOCH));
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let page = read::readings(&app.store, after, app.limits.follower_page).await?;
        let Some(last) = page.last() else { break };
        after = last.position();
        for reading in page {
            match reading {
                Reading::Whole(event) if event.workspace == who.workspace => {
                    // What a newer build wrote may be what a timer waited for.
                    if let Event::Unknown(_) = event.event {
                        left_out::note(event.stream);
                    }
                    found.extend(what_if.take(&event));
                }
                Reading::Damaged(row) if row.workspace == who.workspace.0 => {
                    // Of a family that this build doesn't know no task hangs.
                    if let Some(family) = Family::from_name(&row.family) {
                        left_out::note(StreamKey { family, id: row.stream });
                    }
                }
                Reading::Whole(_) | Reading::Damaged(_) => {}
            }
        }
    }
    found.extend(what_if.end(now));
    found.sort_by_key(|difference| (diverged_at(difference), difference.task));
    let most = usize::try_from(app.limits.list_most).unwrap_or(usize::MAX);
    let total = found.len();
    let told: Vec<Told> = found.into_iter().take(most).map(told).collect();
    let set: BTreeMap<&str, u128> =
        values.iter().map(|(parameter, value)| (parameter.name(), value.as_millis())).collect();
    Ok(Json(json!({"tasks": told, "total": total, "set_ms": set, "since": since, "up_to": after})))
}

/// When what would have happened parts from what did.
fn diverged_at(difference: &Difference) -> Timestamp {
    difference.recorded.as_ref().map_or(difference.due, |recorded| recorded.at.min(difference.due))
}

fn told(difference: Difference) -> Told {
    let instead = match difference.instead {
        Instead::Fails(reason) => format!("fails ({reason})"),
        Instead::ClaimReleased => "its claim goes back in the queue".to_owned(),
        Instead::ParkedAgain => "waits for its directory again".to_owned(),
        Instead::WaitsOn => "waits on; how that ends isn't in the log".to_owned(),
        Instead::GoesOn => "goes on: its machine is back in time".to_owned(),
    };
    Told {
        task: difference.task,
        name: difference.name,
        parameter: difference.parameter.name().to_owned(),
        since: difference.since,
        due: difference.due,
        instead,
        known: difference.instead != Instead::WaitsOn,
        recorded: difference.recorded.map(|recorded| WhatIfRecorded {
            position: recorded.position,
            at: recorded.at,
            event_type: recorded.event_type,
            reason: recorded.reason,
        }),
    }
}

/// The values asked for.
fn values(set: &str) -> Result<BTreeMap<Parameter, Duration>, ApiError> {
    let names = Parameter::ALL.map(Parameter::name).join(", ");
    let mut values = BTreeMap::new();
    for one in set.split(',').map(str::trim).filter(|one| !one.is_empty()) {
        let (name, value) = one.split_once('=').unwrap_or((one, ""));
        let (name, value) = (name.trim(), value.trim());
        let parameter = name.parse::<Parameter>().map_err(|_| not_asked(name, &names))?;
        let span = value.parse::<SignedDuration>().ok().and_then(|span| Duration::try_from(span).ok());
        let span = span.filter(|span| !span.is_zero()).ok_or_else(|| {
            let shown = text::head(value, 40);
            ApiError::field("set", format!("`{name}` is a span like 90s, 30m or 2h, not `{shown}`"))
        })?;
        if values.insert(parameter, span).is_some() {
            return Err(ApiError::field("set", format!("`{name}` is given twice")));
        }
    }
    if values.is_empty() {
        return Err(ApiError::field("set", format!("`set` names a timer and its value; there are {names}")));
    }
    Ok(values)
}

/// Why a name isn't a timer of recorded history.
fn not_asked(name: &str, names: &str) -> ApiError {
    let known = serde_json::to_value(Limits::default()).is_ok_and(|limits| limits.get(name).is_some());
    let name = text::head(name, 40);
    let (code, sentence) = if known {
        (
            "parameter_not_in_log",
            format!("what `{name}` is judged by isn't in the log: it can't be tried on history"),
        )
    } else {
        ("unknown_parameter", format!("there is no timer `{name}`"))
    };
    ApiError::Refused(Refusal::invalid(code, sentence, format!("Those that can be tried: {names}.")))
}
