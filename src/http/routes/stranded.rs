//! `GET /api/stranded-tasks`: every task whose wait is longer than usual for its kind, with its cause.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::domain::task::Status;
use crate::domain::task::usual::{Times, usual};
use crate::fold::at::At;
use crate::fold::task_status::TaskRow;
use crate::http::App;
use crate::http::as_of::AsAsked;
use crate::http::auth::Identity;
use crate::http::error::ApiError;
use crate::http::explain;
use crate::readmodel::task_status;
use crate::store::read;
use crate::wire::api::Stranded;

/// The statuses in which a task waits for something.
const WAITING: [Status; 4] =
    [Status::Queued, Status::Dispatched, Status::WaitingLocalDirectory, Status::Running];
/// Those that have been through it.
const OVER: [Status; 3] = [Status::Completed, Status::Failed, Status::Cancelled];

/// The longest waits first.
pub async fn list(AsAsked(app): AsAsked, who: Identity) -> Result<Json<Value>, ApiError> {
    let named = |statuses: &[Status]| statuses.iter().map(|status| status.name().to_owned()).collect();
    let wanted = |statuses, limit: u32| task_status::Wanted {
        statuses,
        limit: i64::from(limit),
        ..task_status::Wanted::default()
    };
    let sample = wanted(named(&OVER), app.limits.stranded_sample);
    let earlier: Vec<Times> = task_status::list(&app.store, &app.registry, who.workspace, &sample)
        .await?
        .iter()
        .map(|found| times(&found.row))
        .collect();
    let usual: BTreeMap<Status, Duration> = WAITING
        .iter()
        .map(|status| {
            let waits = earlier.iter().filter_map(|times| times.waited(*status)).collect();
            (*status, usual(waits, least(&app, *status)))
        })
        .collect();
    // The database's clock: the rows' times are its own.
    let now = read::now(&app.store).await?;
    let waiting = wanted(named(&WAITING), app.limits.list_most);
    let mut stranded = Vec::new();
    for found in task_status::list(&app.store, &app.registry, who.workspace, &waiting).await? {
        let status = found.row.status;
        let since = times(&found.row).since(status).and_then(|at| Timestamp::from_microsecond(at).ok());
        let (Some(since), Some(usual)) = (since, usual.get(&status)) else { continue };
        let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        if waited > *usual {
            stranded.push((waited, since, *usual, found.row.id));
        }
    }
    stranded.sort_unstable_by(|one, other| other.cmp(one));
    let mut tasks = Vec::with_capacity(stranded.len());
    for (waited, since, usual, id) in stranded {
        let explanation = explain::of(&app, &who, id).await?;
        tasks.push(Stranded { since, waited_s: waited.as_secs(), usual_s: usual.as_secs(), explanation });
    }
    let usual: BTreeMap<&str, u64> =
        usual.iter().map(|(status, usual)| (status.name(), usual.as_secs())).collect();
    Ok(Json(json!({"tasks": tasks, "usual_s": usual, "earlier": earlier.len()})))
}

fn times(row: &TaskRow) -> Times {
    let micros = |at: &Option<At>| at.as_ref().and_then(At::micros);
    Times {
        queued: row.queued_at.micros(),
        dispatched: micros(&row.dispatched_at),
        parked: micros(&row.parked_at),
        promoted: micros(&row.promoted_at),
        started: micros(&row.started_at),
        completed: micros(&row.completed_at),
    }
}

fn least(app: &App, status: Status) -> Duration {
    match status {
        Status::Dispatched => app.limits.stranded_dispatched,
        Status::WaitingLocalDirectory => app.limits.stranded_parked,
        Status::Running => app.limits.stranded_running,
        Status::Deferred | Status::Queued | Status::Completed | Status::Failed | Status::Cancelled => {
            app.limits.stranded_queued
        }
    }
    .duration()
}
