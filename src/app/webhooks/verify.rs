//! Holds deliveries against the log: every event that was wanted has one.

use super::scan::wanted;
use crate::app::AppError;
use crate::app::verify::Found;
use crate::domain::webhook::{self, Terms};
use crate::store::webhooks::{self as deliveries, Cursor, LIVE, State};
use crate::store::{Store, read};

/// Events looked at at once.
const PAGE: i64 = 5_000;

/// How many deliveries there had to be, and what is wrong with them.
///
/// # Errors
/// [`AppError`] when the database doesn't answer; damage is a finding, never an error.
pub async fn run(store: &Store) -> Result<(u64, Vec<Found>), AppError> {
    let (mut count, mut found) = (0, Vec::new());
    for cursor in deliveries::cursors(store, None).await? {
        let events = match read::stream(store, webhook::evolve::stream(cursor.webhook)).await {
            Ok(events) => events,
            // The walk over the log names it.
            Err(error) if error.is_damage() => continue,
            Err(error) => return Err(error.into()),
        };
        let Ok(state) = webhook::evolve::fold(&events) else { continue };
        let Some(state) = state.filter(|state| !state.removed) else { continue };
        let terms = Terms::of(&events);
        // What was asked for since the cursor was here isn't done yet.
        let asked = events.last().and_then(|event| event.position).unwrap_or_default();
        let settled = cursor.replay == LIVE && cursor.position >= asked;
        let mut at = Cursor { position: cursor.began, up_to: Some(cursor.position), ..cursor.clone() };
        while at.position < cursor.position {
            let (reached, seen) = deliveries::seen(store, &at, PAGE).await?;
            let states = deliveries::states(store, cursor.webhook, at.position, reached).await?;
            for event in wanted(&cursor, &terms, seen) {
                count += 1;
                if event.position > cursor.forgotten && !states.contains_key(&event.position) {
                    found.push(missing(&state.name, event.position, &event.event_type));
                }
            }
            let dead = states.iter().filter(|(_, state)| **state == State::Dead.name());
            let untold = dead.filter(|(position, _)| settled && !state.dead.contains(position));
            found.extend(untold.map(|(position, _)| silent(&state.name, *position)));
            if reached <= at.position {
                break;
            }
            at.position = reached;
        }
    }
    Ok((count, found))
}

fn missing(name: &str, position: i64, event_type: &str) -> Found {
    Found {
        code: "delivery_missing",
        position: Some(position),
        sentence: format!("event {position} ({event_type}) was wanted by webhook {name} and has no delivery"),
        next_step: format!("Deliver it: `multica webhook replay {name} --from {position} --to {position}`."),
    }
}

fn silent(name: &str, position: i64) -> Found {
    Found {
        code: "delivery_given_up_in_silence",
        position: Some(position),
        sentence: format!(
            "the delivery of event {position} to webhook {name} is given up, and no event says so"
        ),
        next_step: format!("Deliver it: `multica webhook replay {name} --from {position} --to {position}`."),
    }
}
