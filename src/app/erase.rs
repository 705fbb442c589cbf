//! Takes away texts of a person or a task, and transcripts that are too old. The append that writes the event
//! carries it out (`es.take_away`).
//!
//! Invariants: a run that isn't over keeps its transcript; what one event takes is bounded, for the append
//! holds the log's head while it does.
//!
//! Not here: which texts are whose (`domain::texts`), who may ask (`http`), when transcripts are too old
//! (`policy`).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::decision::{Decided, Decision, Halt, NewEvent, View};
use super::draft::Draft;
use super::load;
use crate::domain::operation::{
    Erased, ErasedOf, GoneTranscript, OperationCommand, OperationEvent, TranscriptsRemoved, decide, evolve,
};
use crate::domain::task::Phase;
use crate::domain::texts::Whose;
use crate::domain::{Envelope, Event, Refusal, texts};
use crate::kernel::ids::{ContentId, TaskId, WorkspaceId};

/// A text that is to be erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doomed {
    /// What it is: `issue title`.
    pub kind: &'static str,
    /// Its id.
    pub id: ContentId,
    /// Its length.
    pub bytes: u64,
    /// The event that refers to it.
    pub position: i64,
}

/// The texts of an event that are that person's or that task's.
pub fn doomed(envelope: &Envelope, of: ErasedOf) -> impl Iterator<Item = Doomed> {
    let whose = match of {
        ErasedOf::Person(user) => Whose::Person(user),
        ErasedOf::Task(task) => Whose::Task(task),
    };
    texts::of(envelope).into_iter().filter(move |text| text.whose == whose).map(|text| Doomed {
        kind: text.kind,
        id: text.reference.id,
        bytes: text.reference.bytes,
        position: envelope.position.unwrap_or_default(),
    })
}

/// All that is to be erased, and what of it the next event takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The texts, each once.
    pub texts: Vec<Doomed>,
    /// The transcripts.
    pub transcripts: Vec<GoneTranscript>,
}

impl Plan {
    /// Adds a text, unless it is there.
    pub fn add(&mut self, text: Doomed, known: &mut BTreeSet<ContentId>) {
        if known.insert(text.id) {
            self.texts.push(text);
        }
    }

    /// How many texts there are of what.
    #[must_use]
    pub fn kinds(&self) -> BTreeMap<String, u64> {
        let mut kinds = BTreeMap::new();
        for text in &self.texts {
            *kinds.entry(text.kind.to_owned()).or_insert(0) += 1;
        }
        kinds
    }

    /// The part that one event takes: so many texts, or so many bytes of them, and with the first all
    /// transcripts.
    #[must_use]
    pub fn first_part(&self, most: usize, most_bytes: u64) -> Self {
        let mut bytes = 0_u64;
        let fits = |text: &&Doomed| {
            bytes = bytes.saturating_add(text.bytes);
            bytes <= most_bytes
        };
        // One that is larger than a part is a part of its own.
        let count = self.texts.iter().take(most).take_while(fits).count().max(1);
        let texts = self.texts.iter().take(count).copied().collect();
        Self { texts, transcripts: self.transcripts.clone() }
    }

    /// Takes away what a part took.
    pub fn without(&mut self, part: &Self) {
        self.texts.drain(..part.texts.len());
        self.transcripts.clear();
    }

    /// Leaves what was written after a position: a repeat takes no more than what was asked for then.
    pub fn written_before(&mut self, position: i64) {
        self.texts.retain(|text| text.position < position);
    }

    /// Without what events tell was erased already: two at once, and each text goes once.
    fn still_there(&self, told: &[Envelope]) -> Self {
        let (mut texts, mut transcripts) = (BTreeSet::new(), BTreeSet::new());
        for envelope in told {
            if let Event::Operation(OperationEvent::Erased(erased)) = &envelope.event {
                texts.extend(erased.contents.iter().copied());
                transcripts.extend(erased.transcripts.iter().map(|gone| (gone.task, gone.generation)));
            }
        }
        let there = |gone: &&GoneTranscript| !transcripts.contains(&(gone.task, gone.generation));
        Self {
            texts: self.texts.iter().filter(|text| !texts.contains(&text.id)).copied().collect(),
            transcripts: self.transcripts.iter().filter(there).cloned().collect(),
        }
    }

    /// Transcripts in which something was said.
    #[must_use]
    pub fn spoken(&self) -> u64 {
        self.transcripts.iter().filter(|gone| gone.messages > 0).count() as u64
    }

    /// The messages of its transcripts.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.transcripts.iter().map(|gone| gone.messages).sum()
    }
}

/// Erases one part.
pub struct Erase {
    /// Whose workspace.
    pub workspace: WorkspaceId,
    /// Whose texts.
    pub of: ErasedOf,
    /// What goes.
    pub part: Plan,
}

impl Decision for Erase {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        match self.of {
            ErasedOf::Task(task) => is_over(view, self.workspace, task)?,
            ErasedOf::Person(user) => {
                let workspace = load::workspace(view, self.workspace)?;
                if !workspace.is_some_and(|workspace| workspace.members.contains_key(&user)) {
                    return Err(Refusal::not_found("member").into());
                }
            }
        }
        let part = self.part.still_there(view.stream(evolve::stream(self.workspace))?);
        let erased = Erased {
            of: self.of,
            contents: part.texts.iter().map(|text| text.id).collect(),
            kinds: part.kinds(),
            transcripts: part.transcripts.clone(),
        };
        let result = json!({
            "kinds": erased.kinds, "texts": part.texts.len(), "transcripts": part.spoken(),
            "messages": part.messages(),
        });
        written(view, self.workspace, OperationCommand::Erase(erased), result)
    }
}

fn is_over(view: &View, workspace: WorkspaceId, id: TaskId) -> Result<(), Halt> {
    let task = Draft::new(view, workspace).needed_task(id)?;
    if matches!(task.phase, Phase::Ended { .. }) {
        return Ok(());
    }
    Err(Refusal::conflict(
        "task_not_over",
        format!("{} isn't over: it would go on writing", task.name()),
        format!("Wait for its end, or stop it: `multica task cancel {}`.", task.name()),
    )
    .into())
}

/// Removes transcripts that are too old: those of tasks that are over.
pub struct RemoveTranscripts {
    /// Whose workspace.
    pub workspace: WorkspaceId,
    /// For how many days they are kept.
    pub days: u32,
    /// Those that are older.
    pub transcripts: Vec<GoneTranscript>,
}

impl Decision for RemoveTranscripts {
    fn decide(&self, view: &View) -> Result<Decided, Halt> {
        let mut draft = Draft::new(view, self.workspace);
        let mut transcripts = Vec::new();
        for gone in &self.transcripts {
            // One whose task can't be read stays: whoever mends the log may need it.
            let task = load::if_readable(draft.task(gone.task).map(|task| task.cloned()))?.flatten();
            if task.is_some_and(|task| matches!(task.phase, Phase::Ended { .. })) {
                transcripts.push(gone.clone());
            }
        }
        let result = json!({"transcripts": transcripts.len()});
        let removed = TranscriptsRemoved { days: self.days, transcripts };
        written(view, self.workspace, OperationCommand::RemoveTranscripts(removed), result)
    }
}

fn written(
    view: &View,
    workspace: WorkspaceId,
    command: OperationCommand,
    result: serde_json::Value,
) -> Result<Decided, Halt> {
    let stream = evolve::stream(workspace);
    let state = evolve::fold(view.stream(stream)?)?;
    let events = decide::decide(state.as_ref(), command)?;
    let events = events.into_iter().map(|event| NewEvent::new(stream, event)).collect();
    Ok(Decided { events, contents: Vec::new(), result })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::spec;
    use uuid::Uuid;

    fn plan(sizes: &[u64]) -> Plan {
        let text = |(n, bytes): (u128, &u64)| Doomed {
            kind: "comment",
            id: ContentId(Uuid::from_u128(n)),
            bytes: *bytes,
            position: i64::try_from(n).unwrap(),
        };
        Plan { texts: (1..).zip(sizes).map(text).collect(), transcripts: Vec::new() }
    }

    #[test]
    fn parts_are_bounded_by_number_and_by_bytes_and_take_all_in_the_end() {
        let mut left = plan(&[5, 5, 90, 1, 1, 1, 300, 2]);
        let mut parts = Vec::new();
        while !left.texts.is_empty() {
            let part = left.first_part(3, 100);
            parts.push(part.texts.iter().map(|text| text.bytes).collect::<Vec<_>>());
            left.without(&part);
        }
        assert_eq!(parts, [vec![5, 5, 90], vec![1, 1, 1], vec![300], vec![2]]);
        assert_eq!(plan(&[]).first_part(3, 100), Plan::default());
    }

    #[test]
    fn transcripts_go_with_the_first_part_and_a_text_is_there_once() {
        let gone = GoneTranscript { task: TaskId(Uuid::from_u128(1)), generation: 1, messages: 3 };
        let mut left = Plan { transcripts: vec![gone], ..plan(&[60, 60]) };
        let first = left.first_part(10, 100);
        assert_eq!((first.texts.len(), first.transcripts.len()), (1, 1));
        left.without(&first);
        assert_eq!(left.first_part(10, 100).transcripts, []);
        let mut known = BTreeSet::new();
        let mut once = Plan::default();
        for text in plan(&[1]).texts.into_iter().cycle().take(3) {
            once.add(text, &mut known);
        }
        assert_eq!((once.texts.len(), once.kinds()), (1, [("comment".to_owned(), 1)].into()));
    }

    #[test]
    fn what_was_written_later_or_is_gone_already_is_not_taken_again() {
        let gone =
            |task, messages| GoneTranscript { task: TaskId(Uuid::from_u128(task)), generation: 1, messages };
        let mut asked = Plan { transcripts: vec![gone(1, 3), gone(2, 0)], ..plan(&[1, 1, 1]) };
        asked.written_before(3);
        assert_eq!(asked.texts.len(), 2);
        assert_eq!((asked.spoken(), asked.messages()), (1, 3), "in one nothing was said");
        let erased = Erased {
            of: ErasedOf::Task(TaskId(Uuid::from_u128(1))),
            contents: vec![ContentId(Uuid::from_u128(1))],
            kinds: BTreeMap::new(),
            transcripts: vec![gone(1, 3)],
        };
        let stream = evolve::stream(WorkspaceId(Uuid::from_u128(5)));
        let told = spec::envelope(9, stream, 1, Event::Operation(OperationEvent::Erased(erased)));
        let left = asked.still_there(&[told]);
        assert_eq!((left.texts, left.transcripts), (vec![asked.texts[1]], vec![gone(2, 0)]));
    }
}
