//! `GET /api/retention`: how long transcripts are kept, and what is older: what the next round would remove, or
//! would with another number of days.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;

use crate::domain::task::Phase;
use crate::domain::workspace::Role;
use crate::http::App;
use crate::http::auth::Identity;
use crate::http::body::Query;
use crate::http::error::ApiError;
use crate::http::objects::task::tasks;
use crate::kernel::ids::TaskId;
use crate::store::transcript;
use crate::wire::api::Retention;

/// See [`show`].
#[derive(Debug, Deserialize)]
pub struct Asked {
    days: Option<u32>,
}

/// This workspace's part: nothing is removed by it.
pub async fn show(
    State(app): State<App>,
    who: Identity,
    Query(asked): Query<Asked>,
) -> Result<Json<Retention>, ApiError> {
    who.must_be(Role::Admin)?;
    if asked.days == Some(0) {
        return Err(ApiError::field("days", "`days` is a whole number from 1 on"));
    }
    let counted_for = asked.days.or(app.keep_transcripts);
    let mut found = Retention { days: app.keep_transcripts, counted_for, transcripts: 0, messages: 0 };
    let Some(days) = counted_for else { return Ok(Json(found)) };
    let mut behind = None;
    loop {
        let page = transcript::older(&app.store, days, behind, app.limits.retention_batch).await?;
        let Some(last) = page.last().copied() else { break };
        behind = Some(last);
        let mine: Vec<_> = page.into_iter().filter(|kept| kept.workspace == who.workspace).collect();
        let mut ids: Vec<TaskId> = mine.iter().map(|kept| kept.task).collect();
        ids.dedup();
        let over: BTreeSet<TaskId> = tasks(&app, who.workspace, &ids)
            .await?
            .into_iter()
            .filter(|task| matches!(task.state.phase, Phase::Ended { .. }))
            .map(|task| task.state.id)
            .collect();
        for kept in mine.iter().filter(|kept| over.contains(&kept.task)) {
            found.transcripts += 1;
            found.messages += kept.messages;
        }
    }
    Ok(Json(found))
}
