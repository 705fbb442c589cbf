//! A directory's history through today's rules.

use super::Replayed;
use crate::domain::directory::decide::{DirectoryCommand, decide};
use crate::domain::directory::{Directory, DirectoryEvent, state};
use crate::domain::{Event, Refusal, StreamKey};

pub(super) struct Directories;

impl Replayed for Directories {
    type State = Directory;
    type Event = DirectoryEvent;
    type Command = DirectoryCommand;

    fn pick(event: &Event) -> Option<&DirectoryEvent> {
        match event {
            Event::Directory(event) => Some(event),
            _ => None,
        }
    }

    fn evolve(_: StreamKey, state: Option<Directory>, event: &DirectoryEvent) -> Option<Directory> {
        state::evolve(state, event)
    }

    fn command(state: Option<&Directory>, events: &[&DirectoryEvent]) -> Option<DirectoryCommand> {
        Some(match (*events.first()?).clone() {
            DirectoryEvent::Acquired(e) => DirectoryCommand::Enter {
                task: e.task,
                generation: e.generation,
                agent: e.agent,
                daemon: e.daemon,
                place: e.place,
            },
            DirectoryEvent::Queued(e) if state.is_some_and(|directory| directory.is_held_by(e.task)) => {
                DirectoryCommand::Requeue { task: e.task }
            }
            DirectoryEvent::Queued(e) => DirectoryCommand::Enter {
                task: e.task,
                generation: e.generation,
                agent: e.agent,
                daemon: e.daemon,
                place: e.place,
            },
            DirectoryEvent::Promoted(e) => DirectoryCommand::Promote { task: e.task },
            DirectoryEvent::LeftQueue(e) => DirectoryCommand::Leave { task: e.task, reason: e.reason },
            DirectoryEvent::LockBlocked(e) => DirectoryCommand::Block(e),
            DirectoryEvent::LockTaken(e) => DirectoryCommand::Lock { task: e.task },
            DirectoryEvent::Released(e) => DirectoryCommand::Release { task: e.task },
            DirectoryEvent::HolderLost(e) => DirectoryCommand::LoseHolder { task: e.task },
        })
    }

    fn decide(state: Option<&Directory>, command: DirectoryCommand) -> Result<Vec<DirectoryEvent>, Refusal> {
        decide(state, command)
    }

    fn told(directory: &Directory) -> String {
        let holder = match &directory.holder {
            None => "free".to_owned(),
            Some(holder) if holder.blocked.is_some() => "held, kept out by a foreign lock".to_owned(),
            Some(holder) if holder.locked => "held and locked".to_owned(),
            Some(_) => "held".to_owned(),
        };
        match directory.queue.len() {
            0 => holder,
            1 => format!("{holder}, 1 waits"),
            waiting => format!("{holder}, {waiting} wait"),
        }
    }
}
