//! Row history: every version that a read model's rows have had, by the read model's own fold.
//!
//! A history is a follower of its own, `<read model>_history`. Its rows are those of the read model, each from
//! the position that made it so up to the one that changed or removed it; what the read model showed as of a
//! position is a query.
//!
//! Invariants: there is one fold, the base's; a history keeps every change, its base only the last.

use super::{FoldError, Mode, ReadModel, Rows};
use crate::domain::Envelope;

/// What a history's name ends with; no other read model's may.
pub const ENDING: &str = "_history";

/// The history of a read model.
pub struct History {
    name: &'static str,
    base: Box<dyn ReadModel>,
}

impl History {
    /// The history of `base`, called `<base>_history`.
    #[must_use]
    pub fn new(name: &'static str, base: Box<dyn ReadModel>) -> Self {
        Self { name, base }
    }
}

impl ReadModel for History {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> u32 {
        self.base.version()
    }

    fn mode(&self) -> Mode {
        Mode::Follower
    }

    fn history_of(&self) -> Option<&'static str> {
        Some(self.base.name())
    }

    fn touches(&self, event: &Envelope) -> Vec<String> {
        self.base.touches(event)
    }

    fn apply(&self, rows: &mut Rows, event: &Envelope) -> Result<(), FoldError> {
        self.base.apply(rows, event)
    }
}
