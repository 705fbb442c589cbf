//! Recorded history through today's code: each event's state after it, and whether the rules of today would
//! have decided the same.
//!
//! Invariants: pure, so that it runs where there is no database; a decision is asked again only where all
//! that it needs is in the log, and said to be unasked elsewhere; events that one decision wrote together
//! are compared together.
//!
//! Not here: where the history comes from (`http`, a bundle's file), how it is shown (`cli`).

mod directory;
mod task;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{Envelope, Event, Family, Refusal, StreamKey};
use crate::kernel::ids::CommandId;

/// What today's code says of a recorded event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "today", rename_all = "snake_case")]
pub enum Verdict {
    /// It would write the same.
    Same,
    /// It would do something else: what, as a sentence.
    Otherwise(String),
    /// Not all that the decision needed is in the log.
    Unasked,
}

/// One event of a history, gone through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What its stream is after it, as a sentence; none for families that aren't followed here.
    pub state: Option<String>,
    /// What today's code says of it.
    pub verdict: Verdict,
}

/// What a family brings to be gone through again.
trait Replayed {
    /// Its state.
    type State;
    /// Its events.
    type Event: PartialEq + Serialize;
    /// Its commands.
    type Command;

    /// Takes the family's event out of any.
    fn pick(event: &Event) -> Option<&Self::Event>;

    /// Applies one event; none when it can't follow.
    fn evolve(stream: StreamKey, state: Option<Self::State>, event: &Self::Event) -> Option<Self::State>;

    /// The command that wrote the first of these events, which one command wrote; none when what it needed
    /// isn't in the log.
    fn command(state: Option<&Self::State>, events: &[&Self::Event]) -> Option<Self::Command>;

    /// Today's decision.
    fn decide(state: Option<&Self::State>, command: Self::Command) -> Result<Vec<Self::Event>, Refusal>;

    /// The state as a sentence.
    fn told(state: &Self::State) -> String;
}

/// Goes through a history, in the order of its positions: a step for each event.
#[must_use]
pub fn replay(history: &[Envelope]) -> Vec<Step> {
    let mut streams: BTreeMap<StreamKey, Vec<usize>> = BTreeMap::new();
    for (index, envelope) in history.iter().enumerate() {
        streams.entry(envelope.stream).or_default().push(index);
    }
    let mut steps = vec![Step { state: None, verdict: Verdict::Unasked }; history.len()];
    for (key, indices) in streams {
        let told = match key.family {
            Family::Task => walk::<task::Tasks>(key, history, &indices),
            Family::Directory => walk::<directory::Directories>(key, history, &indices),
            _ => continue,
        };
        for (index, step) in indices.into_iter().zip(told) {
            steps[index] = step;
        }
    }
    steps
}

fn walk<F: Replayed>(key: StreamKey, history: &[Envelope], indices: &[usize]) -> Vec<Step> {
    let events: Vec<(CommandId, &F::Event)> = indices
        .iter()
        .map_while(|index| {
            let envelope = &history[*index];
            F::pick(&envelope.event).map(|event| (envelope.command_id, event))
        })
        .collect();
    let begins = indices.first().is_some_and(|first| history[*first].version == 1);
    let mut steps = Vec::with_capacity(events.len());
    if !begins {
        return steps;
    }
    let mut state: Option<F::State> = None;
    // Events that the last decision has covered already.
    let mut covered = 0_usize;
    for (index, (command, event)) in events.iter().enumerate() {
        let verdict = if covered > 0 {
            covered -= 1;
            Verdict::Same
        } else {
            let together: Vec<&F::Event> =
                events[index..].iter().take_while(|(other, _)| other == command).map(|(_, e)| *e).collect();
            let (verdict, equal) = decided_again::<F>(state.as_ref(), &together);
            covered = equal.saturating_sub(1);
            verdict
        };
        state = F::evolve(key, state.take(), event);
        let Some(now) = &state else {
            let verdict = Verdict::Otherwise("it can't follow what came before it".to_owned());
            steps.push(Step { state: None, verdict });
            return steps;
        };
        steps.push(Step { state: Some(F::told(now)), verdict });
    }
    steps
}

/// The verdict on the first of these events, and how many of them the decision gives.
fn decided_again<F: Replayed>(state: Option<&F::State>, together: &[&F::Event]) -> (Verdict, usize) {
    let Some(command) = F::command(state, together) else { return (Verdict::Unasked, 1) };
    let today = match F::decide(state, command) {
        Ok(today) => today,
        Err(refusal) => {
            let sentence = format!("it would refuse: {} ({})", refusal.sentence, refusal.code);
            return (Verdict::Otherwise(sentence), 1);
        }
    };
    let same = !today.is_empty()
        && today.len() <= together.len()
        && today.iter().zip(together).all(|(a, b)| a == *b);
    if same {
        return (Verdict::Same, today.len());
    }
    (Verdict::Otherwise(difference(&today, together)), 1)
}

fn difference<E: Serialize>(today: &[E], recorded: &[&E]) -> String {
    let values: Vec<Value> = today.iter().filter_map(|event| serde_json::to_value(event).ok()).collect();
    let Some(first) = values.first() else { return "it would write nothing".to_owned() };
    let recorded = recorded.first().and_then(|event| serde_json::to_value(event).ok()).unwrap_or_default();
    if first["type"] == recorded["type"] {
        let fields: Vec<&str> = members(&first["data"])
            .chain(members(&recorded["data"]))
            .filter(|field| first["data"][field] != recorded["data"][field])
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect();
        if !fields.is_empty() {
            return format!("it would write another {}", fields.join(", "));
        }
    }
    let names: Vec<&str> = values.iter().filter_map(|value| value["type"].as_str()).collect();
    format!("it would write {}", names.join(", "))
}

fn members(data: &Value) -> impl Iterator<Item = &str> {
    data.as_object().into_iter().flat_map(|members| members.keys().map(String::as_str))
}

#[cfg(test)]
mod tests;
