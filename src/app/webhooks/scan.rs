//! Goes through the log for a webhook: what was wanted when it happened gets a delivery.

use super::Webhooks;
use crate::app::AppError;
use crate::domain::Envelope;
use crate::domain::webhook::evolve::pick;
use crate::domain::webhook::{self, Terms, WebhookEvent};
use crate::kernel::ids::WebhookId;
use crate::store::read;
use crate::store::webhooks::{self as deliveries, Cursor, LIVE, Seen, Stretch};

/// What going through the log came to.
pub(super) struct Scanned {
    /// Whether a cursor moved: there may be more.
    pub moved: bool,
    /// Only deliveries of events up to there may be sent: what a replay hasn't come to yet goes before the rest.
    pub up_to: i64,
}

impl Webhooks {
    /// Moves each of a webhook's cursors by a page.
    pub(super) async fn scan(&self, webhook: WebhookId) -> Result<Scanned, AppError> {
        let mut scanned = Scanned { moved: false, up_to: i64::MAX };
        for cursor in deliveries::cursors(&self.store, Some(webhook)).await? {
            if !cursor.behind {
                continue;
            }
            if deliveries::waiting(&self.store, webhook).await? >= self.limits.webhook_waiting {
                scanned.heed(&cursor, cursor.position);
                continue;
            }
            let (reached, seen) = deliveries::seen(&self.store, &cursor, self.limits.webhook_page).await?;
            // Read after the page: it holds whatever the page does.
            let events = read::stream(&self.store, webhook::evolve::stream(webhook)).await?;
            let stretch = stretch(&cursor, reached, seen, &events);
            scanned.moved |= deliveries::pass(&self.store, &cursor, &stretch).await?;
            if !stretch.replays.is_empty() {
                // They are seen to in the next round, before anything is sent.
                scanned.up_to =
                    stretch.replays.iter().map(|(_, after, _)| *after).fold(scanned.up_to, i64::min);
            }
            scanned.heed(&cursor, reached);
        }
        Ok(scanned)
    }
}

impl Scanned {
    fn heed(&mut self, cursor: &Cursor, reached: i64) {
        if cursor.replay != LIVE && cursor.up_to.is_some_and(|end| reached < end) {
            self.up_to = self.up_to.min(reached);
        }
    }
}

/// What follows from the events behind a cursor, by the webhook's own.
fn stretch(cursor: &Cursor, reached: i64, seen: Vec<Seen>, events: &[Envelope]) -> Stretch {
    let terms = Terms::of(events);
    let mut stretch = Stretch { reached, wanted: wanted(cursor, &terms, seen), ..Stretch::default() };
    if cursor.replay != LIVE {
        return stretch;
    }
    for event in events {
        let position = event.position.unwrap_or_default();
        if position <= cursor.position || position > reached {
            continue;
        }
        match pick(&event.event) {
            Some(WebhookEvent::RetryAsked(asked)) => stretch.revived.extend(&asked.positions),
            Some(WebhookEvent::ReplayAsked(asked)) => {
                stretch.replays.push((position, asked.from - 1, asked.up_to));
            }
            _ => {}
        }
    }
    stretch
}

/// Those of the events that are delivered by a cursor.
pub(super) fn wanted(cursor: &Cursor, terms: &Terms, seen: Vec<Seen>) -> Vec<Seen> {
    let want = |seen: &Seen| match cursor.replay {
        LIVE => terms.want(seen.position, &seen.event_type),
        asked => terms.fit(asked, &seen.event_type),
    };
    seen.into_iter().filter(want).collect()
}
