//! The directory's rules, given / when / then.

use proptest::prelude::*;

use super::state::evolve;
use super::*;
use crate::domain::Refusal;
use crate::domain::spec::{Given, Rules, id};
use crate::kernel::ids::{AgentId, MachineId, TaskId};

pub(crate) struct Directories;

impl Rules for Directories {
    type State = Directory;
    type Event = DirectoryEvent;
    type Command = DirectoryCommand;
    fn evolve(state: Option<Directory>, event: &DirectoryEvent) -> Option<Directory> {
        evolve(state, event)
    }
    fn decide(state: Option<&Directory>, command: DirectoryCommand) -> Result<Vec<DirectoryEvent>, Refusal> {
        decide::decide(state, command)
    }
}

fn given(events: impl IntoIterator<Item = DirectoryEvent>) -> Given<Directories> {
    crate::domain::spec::given(events)
}

pub(crate) const fn task(n: u128) -> TaskId {
    TaskId(id(n))
}

pub(crate) fn place() -> Place {
    Place {
        machine: MachineId(id(5)),
        real_path: "/data/game".to_owned(),
        device: 1,
        inode: 2,
        boot_id: "boot".to_owned(),
        label: "game".to_owned(),
    }
}

pub(crate) fn enter(n: u128) -> DirectoryCommand {
    DirectoryCommand::Enter {
        task: task(n),
        generation: 1,
        agent: AgentId(id(6)),
        daemon: "laptop".to_owned(),
        place: place(),
    }
}

fn acquired(n: u128, ticket: u64) -> DirectoryEvent {
    DirectoryEvent::Acquired(Acquired {
        task: task(n),
        generation: 1,
        agent: AgentId(id(6)),
        daemon: "laptop".to_owned(),
        ticket,
        place: place(),
    })
}

fn queued(n: u128, ticket: u64, holder: Option<u128>) -> DirectoryEvent {
    DirectoryEvent::Queued(Queued {
        task: task(n),
        generation: 1,
        agent: AgentId(id(6)),
        daemon: "laptop".to_owned(),
        ticket,
        holder: holder.map(task),
        place: place(),
    })
}

fn released(n: u128) -> DirectoryEvent {
    DirectoryEvent::Released(Released { task: task(n) })
}

fn blocked(n: u128) -> LockBlocked {
    LockBlocked { task: task(n), pid: Some(9), program: Some("vim".to_owned()), run: None }
}

/// One of each event.
pub(crate) fn samples() -> Vec<DirectoryEvent> {
    vec![
        acquired(1, 1),
        queued(2, 2, Some(1)),
        DirectoryEvent::LockBlocked(blocked(1)),
        DirectoryEvent::LockTaken(LockTaken { task: task(1) }),
        released(1),
        DirectoryEvent::Promoted(Promoted { task: task(2) }),
        DirectoryEvent::HolderLost(HolderLost { task: task(2) }),
        DirectoryEvent::LeftQueue(LeftQueue { task: task(3), reason: "cancelled".to_owned() }),
    ]
}

fn held() -> Vec<DirectoryEvent> {
    vec![acquired(1, 1), queued(2, 2, Some(1)), queued(3, 3, Some(1))]
}

#[test]
fn the_first_gets_it_and_the_others_wait_in_order_of_arrival() {
    given([]).when(enter(1)).then([acquired(1, 1)]);
    given([acquired(1, 1)]).when(enter(2)).then([queued(2, 2, Some(1))]);
    given(held()).when(enter(1)).then_nothing();
    given(held()).when(enter(3)).then_nothing();
    let state = given(held()).state();
    assert_eq!((state.place_in_line(task(2)), state.place_in_line(task(3))), (Some(1), Some(2)));
    let free = held().into_iter().chain([released(1)]);
    given(free).when(enter(4)).then([queued(4, 4, None)]);
}

#[test]
fn who_comes_by_another_path_waits_and_the_directory_keeps_its_own() {
    let other = Place { real_path: "/mnt/game".to_owned(), label: "mount".to_owned(), ..place() };
    assert!(place().is_same_directory(&other));
    for elsewhere in [
        Place { boot_id: "after".to_owned(), ..other.clone() },
        Place { machine: MachineId(id(50)), ..other.clone() },
        Place { device: 7, ..other.clone() },
        Place { inode: 7, ..other.clone() },
    ] {
        assert!(!place().is_same_directory(&elsewhere), "{elsewhere:?}");
    }
    let DirectoryEvent::Queued(mut second) = queued(2, 2, Some(1)) else { panic!("queued") };
    second.place = other;
    let state = given([acquired(1, 1), DirectoryEvent::Queued(second)]).state();
    assert_eq!(state.place_in_line(task(2)), Some(1));
    assert_eq!(state.place, place());
}

#[test]
fn who_has_the_lock_is_told_in_words() {
    let who = |run, program: Option<&str>, pid| {
        let lock = LockBlocked { task: task(1), pid, program: program.map(str::to_owned), run };
        lock.who(|_| "GAME-1#1".to_owned())
    };
    assert_eq!(who(None, Some("vim"), Some(9)), "vim (process 9)");
    assert_eq!(who(None, Some("vim"), None), "vim");
    assert_eq!(who(None, None, Some(9)), "process 9");
    assert_eq!(who(None, None, None), "a process that can't be named");
    let ours = Some(LockingRun::Task { task: task(4) });
    assert_eq!(who(ours, Some("multica"), Some(9)), "GAME-1#1 (process 9)");
    let elsewhere = who(Some(LockingRun::Elsewhere {}), Some("multica"), Some(9));
    assert_eq!(elsewhere, "a task of another workspace or installation (process 9)");
}

#[test]
fn a_waiting_task_is_promoted_only_while_nobody_holds() {
    let promote = |n| DirectoryCommand::Promote { task: task(n) };
    given(held()).when(promote(2)).then_refused("directory_held");
    given(held()).when(promote(1)).then_nothing();
    let free = || held().into_iter().chain([released(1)]);
    given(free()).when(promote(9)).then_refused("not_waiting");
    given(free()).when(promote(3)).then([DirectoryEvent::Promoted(Promoted { task: task(3) })]);
    given([]).when(promote(1)).then_refused("not_found");
}

#[test]
fn a_promotion_that_isnt_answered_returns_to_its_old_place() {
    let promoted =
        held().into_iter().chain([released(1), DirectoryEvent::Promoted(Promoted { task: task(2) })]);
    let state = given(promoted).when(DirectoryCommand::Requeue { task: task(2) }).then([queued(2, 2, None)]);
    assert_eq!((state.place_in_line(task(2)), state.holder), (Some(1), None));
}

#[test]
fn leaving_releases_the_holder_and_takes_a_waiter_out() {
    let leave = |n| DirectoryCommand::Leave { task: task(n), reason: "cancelled".to_owned() };
    given(held()).when(leave(1)).then([released(1)]);
    let left = DirectoryEvent::LeftQueue(LeftQueue { task: task(2), reason: "cancelled".to_owned() });
    given(held()).when(leave(2)).then([left]);
    given(held()).when(leave(9)).then_nothing();
    given([]).when(leave(1)).then_nothing();
    given(held()).when(DirectoryCommand::Release { task: task(2) }).then_nothing();
    given(held()).when(DirectoryCommand::LoseHolder { task: task(2) }).then_nothing();
    given(held())
        .when(DirectoryCommand::LoseHolder { task: task(1) })
        .then([DirectoryEvent::HolderLost(HolderLost { task: task(1) })]);
}

#[test]
fn only_the_holder_meets_a_foreign_lock_and_takes_its_own() {
    given(held()).when(DirectoryCommand::Block(blocked(2))).then_refused("not_holder");
    given(held()).when(DirectoryCommand::Block(blocked(1))).then([DirectoryEvent::LockBlocked(blocked(1))]);
    let kept_out = || held().into_iter().chain([DirectoryEvent::LockBlocked(blocked(1))]);
    given(kept_out()).when(DirectoryCommand::Block(blocked(1))).then_nothing();
    let locked = || DirectoryEvent::LockTaken(LockTaken { task: task(1) });
    let state = given(kept_out()).when(DirectoryCommand::Lock { task: task(1) }).then([locked()]);
    assert!(state.holder.is_some_and(|holder| holder.locked && holder.blocked.is_none()));
    given(held().into_iter().chain([locked()])).when(DirectoryCommand::Lock { task: task(1) }).then_nothing();
    given(held()).when(DirectoryCommand::Lock { task: task(3) }).then_refused("not_holder");
}

/// The transition table of this family, from the code.
#[test]
fn the_table_of_who_stands_where_is_the_codes() {
    let free = || held().into_iter().chain([released(1)]).collect::<Vec<_>>();
    let rows: [(&str, Vec<DirectoryEvent>, u128); 4] =
        [("holder", held(), 1), ("waits", held(), 2), ("waits, free", free(), 2), ("neither", held(), 9)];
    let columns = |n: u128| {
        vec![
            ("enter", enter(n)),
            ("promote", DirectoryCommand::Promote { task: task(n) }),
            ("requeue", DirectoryCommand::Requeue { task: task(n) }),
            ("leave", DirectoryCommand::Leave { task: task(n), reason: "failed".to_owned() }),
            ("release", DirectoryCommand::Release { task: task(n) }),
            ("lose holder", DirectoryCommand::LoseHolder { task: task(n) }),
            ("block", DirectoryCommand::Block(blocked(n))),
            ("lock", DirectoryCommand::Lock { task: task(n) }),
        ]
    };
    let mut lines = Vec::new();
    for (name, events, n) in rows {
        let state = given(events).state();
        let cells = columns(n).into_iter().map(|(column, command)| {
            let cell = match decide::decide(Some(&state), command) {
                Err(refusal) => format!("✗ {}", refusal.code),
                Ok(events) => events.first().map_or_else(
                    || "–".to_owned(),
                    |event| crate::domain::codec::event_type(&event.clone().into()).expect("encodes"),
                ),
            };
            format!("{column}: {cell}")
        });
        lines.push(format!("{name}: {}", cells.collect::<Vec<_>>().join(" | ")));
    }
    insta::assert_snapshot!(lines.join("\n"), @r"
    holder: enter: – | promote: – | requeue: directory.queued | leave: directory.released | release: directory.released | lose holder: directory.holder_lost | block: directory.lock_blocked | lock: directory.lock_taken
    waits: enter: – | promote: ✗ directory_held | requeue: – | leave: directory.left_queue | release: – | lose holder: – | block: ✗ not_holder | lock: ✗ not_holder
    waits, free: enter: – | promote: directory.promoted | requeue: – | leave: directory.left_queue | release: – | lose holder: – | block: ✗ not_holder | lock: ✗ not_holder
    neither: enter: directory.queued | promote: ✗ directory_held | requeue: – | leave: – | release: – | lose holder: – | block: ✗ not_holder | lock: ✗ not_holder
    ");
}

/// A command by numbers: what histories are made of.
pub(crate) fn command(kind: usize, n: u128) -> DirectoryCommand {
    match kind % 8 {
        0 | 1 => enter(n),
        2 => DirectoryCommand::Promote { task: task(n) },
        3 => DirectoryCommand::Requeue { task: task(n) },
        4 => DirectoryCommand::Leave { task: task(n), reason: "cancelled".to_owned() },
        5 => DirectoryCommand::Release { task: task(n) },
        6 => DirectoryCommand::LoseHolder { task: task(n) },
        _ => DirectoryCommand::Block(blocked(n)),
    }
}

/// The events that come of commands, each decided on what came before.
pub(crate) fn history(commands: &[(usize, u128)]) -> Vec<DirectoryEvent> {
    let mut state = None;
    let mut all = Vec::new();
    for (kind, n) in commands {
        for event in decide::decide(state.as_ref(), command(*kind, *n)).unwrap_or_default() {
            state = evolve(state, &event);
            assert!(state.is_some(), "what is decided folds: {event:?}");
            all.push(event);
        }
    }
    all
}

proptest! {
    #[test]
    fn one_holder_and_first_come_first_served(
        commands in proptest::collection::vec((0_usize..8, 1_u128..6), 0..60)
    ) {
        let mut state: Option<Directory> = None;
        for event in history(&commands) {
            let before = state.clone();
            state = evolve(state, &event);
            let now = state.as_ref().expect("folds");
            let tickets: Vec<u64> = now.queue.iter().map(|waiting| waiting.ticket).collect();
            prop_assert!(tickets.is_sorted(), "{tickets:?}");
            let mut tasks: Vec<TaskId> = now.queue.iter().map(|waiting| waiting.task).collect();
            tasks.extend(now.holder.iter().map(|holder| holder.who.task));
            let many = tasks.len();
            tasks.sort_unstable();
            tasks.dedup();
            prop_assert_eq!(tasks.len(), many, "a task stands twice");
            if let DirectoryEvent::Acquired(_) = event {
                prop_assert!(before.is_none_or(|before| before.holder.is_none() && before.queue.is_empty()));
            }
        }
    }
}
