//! Folds one page of the log into a table, in the caller's transaction.
//!
//! Invariants: memory holds one page of events and the rows that they touch, however long the log is; an
//! event that can't be folded leaves no trace in the rows.

use std::collections::BTreeSet;

use tokio_postgres::GenericClient;

use super::folding::Folding;
use super::{ReadModelError, Registered, rows};
use crate::domain::Envelope;
use crate::kernel::error_chain::Chain;
use crate::store::raw::RawEvent;
use crate::store::read;

/// What an event does that can't be folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Poison {
    /// It ends the page before it.
    Stops,
    /// It is passed over, and named.
    IsPassedOver,
}

/// What folding one page came to.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// The last position that the rows show now; none when there was nothing.
    pub reached: Option<i64>,
    /// The first event that could not be folded, and why.
    pub poison: Option<(i64, String)>,
    /// How many could not.
    pub poisoned: i64,
}

/// Folds up to `limit` events after a position into `table`.
pub(super) async fn fold(
    client: &impl GenericClient,
    registered: &Registered,
    table: &str,
    after: i64,
    limit: i64,
    poison: Poison,
) -> Result<Page, ReadModelError> {
    let raw = read::range_in(client, after, limit).await?;
    let mut page = Page::default();
    let mut events = Vec::with_capacity(raw.len());
    for event in &raw {
        match RawEvent::read(event) {
            Ok(envelope) => events.push(envelope),
            Err(error) => page.note(event.seq, &error),
        }
        if page.poison.is_some() && poison == Poison::Stops {
            break;
        }
    }
    let model = registered.model();
    let keys: BTreeSet<String> = events.iter().flat_map(|event| model.touches(event)).collect();
    let keys: Vec<String> = keys.into_iter().collect();
    let found =
        if keys.is_empty() { Vec::new() } else { rows::load(client, registered, table, &keys).await? };
    let mut passed: BTreeSet<i64> = BTreeSet::new();
    // What a fold did before it failed is thrown away with all the rest: the page is folded again without it.
    let folding = loop {
        let mut folding = Folding::from_rows(model, keys.clone(), found.clone());
        match feed(&mut folding, &events, &passed) {
            Ok(()) => break folding,
            Err((position, error)) => {
                page.note(position, &error);
                if poison == Poison::Stops {
                    events.retain(|event| event.position.unwrap_or_default() < position);
                } else {
                    passed.insert(position);
                }
            }
        }
    };
    page.reached = match poison {
        Poison::Stops => events.last().and_then(|event| event.position),
        Poison::IsPassedOver => raw.last().map(|event| event.seq),
    };
    let mut folding = folding;
    rows::write(client, registered, table, &folding.take()).await?;
    Ok(page)
}

fn feed(
    folding: &mut Folding<'_>,
    events: &[Envelope],
    passed: &BTreeSet<i64>,
) -> Result<(), (i64, ReadModelError)> {
    for event in events {
        let position = event.position.unwrap_or_default();
        if !passed.contains(&position) {
            folding.feed(event).map_err(|error| (position, error))?;
        }
    }
    Ok(())
}

impl Page {
    fn note(&mut self, position: i64, error: &(dyn std::error::Error + 'static)) {
        self.poisoned += 1;
        // The first by position: one that can't be read may come after one that can't be folded.
        if self.poison.as_ref().is_none_or(|(first, _)| position < *first) {
            self.poison = Some((position, Chain(error).to_string()));
        }
    }
}
