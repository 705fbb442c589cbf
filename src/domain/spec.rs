//! The harness of the rules' tests: given events, when a command, then events, a refusal, or nothing.
//!
//! Every `then` also proves that what was decided folds onto what was given.

use std::fmt::Debug;

use jiff::Timestamp;
use uuid::Uuid;

use super::{Actor, ActorKind, ContentRef, Envelope, Event, Refusal, StreamKey, Via};
use crate::kernel::ids::{CommandId, ContentId, CorrelationId, EventId, WorkspaceId};

/// One family's rules, as the harness drives them.
pub trait Rules {
    /// What it folds to.
    type State: Clone + Debug + PartialEq;
    /// What happens.
    type Event: Clone + Debug + PartialEq;
    /// What is asked.
    type Command;
    /// Applies one event.
    fn evolve(state: Option<Self::State>, event: &Self::Event) -> Option<Self::State>;
    /// Decides one command.
    fn decide(state: Option<&Self::State>, command: Self::Command) -> Result<Vec<Self::Event>, Refusal>;
}

/// Events that have happened.
pub struct Given<R: Rules> {
    state: Option<R::State>,
}

/// A decision to look at.
pub struct When<R: Rules> {
    state: Option<R::State>,
    decided: Result<Vec<R::Event>, Refusal>,
}

/// Begins a test with what has happened.
pub fn given<R: Rules>(events: impl IntoIterator<Item = R::Event>) -> Given<R> {
    Given { state: fold::<R>(None, events) }
}

fn fold<R: Rules>(state: Option<R::State>, events: impl IntoIterator<Item = R::Event>) -> Option<R::State> {
    events.into_iter().fold(state, |state, event| {
        let next = R::evolve(state, &event);
        assert!(next.is_some(), "{event:?} can't follow");
        next
    })
}

impl<R: Rules> Given<R> {
    /// Asks.
    pub fn when(self, command: R::Command) -> When<R> {
        let decided = R::decide(self.state.as_ref(), command);
        When { state: self.state, decided }
    }

    /// The state so far.
    pub fn state(self) -> R::State {
        self.state.expect("no events were given")
    }
}

impl<R: Rules> When<R> {
    /// These events happen, and fold. Gives the state after them.
    pub fn then(self, events: impl IntoIterator<Item = R::Event>) -> R::State {
        let wanted: Vec<R::Event> = events.into_iter().collect();
        let decided = self.decided.expect("it was refused");
        assert_eq!(decided, wanted);
        fold::<R>(self.state, decided).expect("no events at all")
    }

    /// Nothing happens: it was so before.
    pub fn then_nothing(self) {
        assert_eq!(self.decided, Ok(Vec::new()));
    }

    /// It is refused with that code.
    pub fn then_refused(self, code: &str) {
        let refusal = self.decided.expect_err("it was not refused");
        assert_eq!(refusal.code, code);
        assert!(!refusal.sentence.is_empty() && refusal.next_step.ends_with('.'), "{refusal:?}");
    }
}

/// A fixed id.
pub const fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// A fixed piece of content.
pub fn content(n: u128) -> ContentRef {
    ContentRef { id: ContentId(id(n)), bytes: 5, sha256: "0".repeat(64) }
}

/// The workspace of all tests.
pub const WORKSPACE: WorkspaceId = WorkspaceId(id(0xaaaa));

/// An envelope around an event, recorded at its position in seconds.
pub fn envelope(position: i64, stream: StreamKey, version: i32, event: Event) -> Envelope {
    let at = Timestamp::from_second(position).expect("a small number");
    Envelope {
        position: Some(position),
        workspace: WORKSPACE,
        stream,
        version,
        event_id: EventId(id(0xe000_0000 + position as u128)),
        command_id: CommandId(id(1)),
        correlation: CorrelationId(id(2)),
        causation: None,
        actor: Actor { kind: ActorKind::System, id: "test".to_owned(), via: Via::Policy },
        occurred_at: at,
        recorded_at: Some(at),
        event,
    }
}
