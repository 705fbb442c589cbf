//! The shape of most state read models: one row for each stream of a family, changed by that stream's
//! events alone.
//!
//! Invariants: an event that is none of the family touches nothing; one that can't follow its row is poison.

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{At, FoldError, Mode, ReadModel, Rows};
use crate::domain::{Envelope, Event};

/// An inline read model of that shape: what it is called, and how its row changes.
pub trait OfStream: Send + Sync {
    /// See [`ReadModel::name`].
    const NAME: &'static str;
    /// See [`ReadModel::version`].
    const VERSION: u32;
    /// The family's events.
    type Happened;
    /// The row.
    type Row: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;

    /// The event, if it is one of the family.
    fn pick(event: &Event) -> Option<&Self::Happened>;

    /// The key of a stream's row.
    fn key(stream: Uuid) -> String;

    /// The row after the event; none when the event can't follow.
    fn after(
        before: Option<Self::Row>,
        happened: &Self::Happened,
        event: &Envelope,
        at: At,
    ) -> Option<Self::Row>;
}

impl<M: OfStream> ReadModel for M {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn version(&self) -> u32 {
        M::VERSION
    }

    fn mode(&self) -> Mode {
        Mode::Inline
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        M::pick(&event.event).map(|_| M::key(event.stream.id)).into_iter().collect()
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        let Some(happened) = M::pick(&event.event) else { return Ok(()) };
        let key = M::key(event.stream.id);
        let before = rows.get(M::NAME, &key)?;
        let Some(row) = M::after(before, happened, event, At::now(rows)) else {
            let reason = "the event can't follow what the row says".to_owned();
            return Err(FoldError { read_model: M::NAME, key, reason });
        };
        rows.put(&key, event.workspace, row);
        Ok(())
    }
}
