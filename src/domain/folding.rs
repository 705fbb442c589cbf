//! The one loop that folds a stream's envelopes into a state.
//!
//! Invariants: an event of another family, or one that can't follow, is an [`Impossible`] that names the
//! stream and the version; nothing here panics.

use super::{Envelope, Event, Impossible, codec};

/// Folds a whole stream; none when it is empty. `pick` takes the family's event out of an envelope's;
/// `evolve` applies one event, none when it can't follow.
pub(in crate::domain) fn fold_stream<S, E>(
    events: &[Envelope],
    pick: impl Fn(&Event) -> Option<&E>,
    evolve: impl Fn(Option<S>, &E, &Envelope) -> Option<S>,
) -> Result<Option<S>, Impossible> {
    let mut state = None;
    for envelope in events {
        let next = pick(&envelope.event).and_then(|event| evolve(state.take(), event, envelope));
        state = Some(next.ok_or_else(|| impossible(envelope))?);
    }
    Ok(state)
}

fn impossible(envelope: &Envelope) -> Impossible {
    let family = envelope.event.family().name();
    Impossible {
        stream: envelope.stream,
        version: envelope.version,
        event_type: codec::event_type(&envelope.event).unwrap_or_else(|_| family.to_owned()),
    }
}
