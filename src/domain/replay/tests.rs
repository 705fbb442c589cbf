//! What decisions have made is decided the same again, and what they haven't is noticed.

use proptest::prelude::*;

use super::*;
use crate::domain::directory::{self, DirectoryEvent};
use crate::domain::spec::{envelope, id};
use crate::domain::task::tests::{TASK, command, facts};
use crate::domain::task::{TaskCommand, TaskEvent, decide, evolve};
use crate::kernel::ids::DirectoryId;

/// A task's history of these commands: each event's envelope names the command that wrote it.
fn life(numbers: &[(usize, u32)]) -> Vec<Envelope> {
    let commands =
        std::iter::once(TaskCommand::Queue(facts())).chain(numbers.iter().map(|(n, g)| command(*n, *g)));
    let (mut task, mut history) = (None, Vec::new());
    for (n, command) in commands.enumerate() {
        for event in decide::decide(task.as_ref(), command).unwrap_or_default() {
            task = evolve::evolve(TASK, task, &event);
            let version = i32::try_from(history.len() + 1).expect("a small number");
            let told = envelope(version.into(), evolve::stream(TASK), version, Event::Task(event));
            history.push(Envelope { command_id: CommandId(id(0xc000 + n as u128)), ..told });
        }
    }
    history
}

fn queue_of(events: Vec<DirectoryEvent>) -> Vec<Envelope> {
    let stream = directory::state::stream(DirectoryId(id(50)));
    let one = |(n, event): (usize, DirectoryEvent)| {
        let version = i32::try_from(n + 1).expect("a small number");
        let told = envelope(version.into(), stream, version, Event::Directory(event));
        Envelope { command_id: CommandId(id(0xd000 + n as u128)), ..told }
    };
    events.into_iter().enumerate().map(one).collect()
}

fn otherwise(history: &[Envelope]) -> Vec<String> {
    let steps = replay(history);
    assert_eq!(steps.len(), history.len());
    steps
        .into_iter()
        .filter_map(|step| match step.verdict {
            Verdict::Otherwise(today) => Some(today),
            Verdict::Same | Verdict::Unasked => None,
        })
        .collect()
}

proptest! {
    #[test]
    fn what_today_s_rules_have_decided_they_decide_again(
        numbers in proptest::collection::vec((0_usize..19, 1_u32..4), 0..40)
    ) {
        let history = life(&numbers);
        prop_assert_eq!(otherwise(&history), Vec::<String>::new());
        let asked = replay(&history).iter().filter(|step| step.verdict == Verdict::Same).count();
        prop_assert!(asked > 0, "nothing was decided again");
    }

    #[test]
    fn a_directory_s_queue_is_decided_the_same_again(
        commands in proptest::collection::vec((0_usize..8, 1_u128..6), 0..60)
    ) {
        let history = queue_of(directory::tests::history(&commands));
        prop_assert_eq!(otherwise(&history), Vec::<String>::new());
        prop_assert!(replay(&history).iter().all(|step| step.verdict == Verdict::Same && step.state.is_some()));
    }
}

#[test]
fn what_today_s_rules_would_not_write_is_named() {
    // Queued, claimed, confirmed, started.
    let history = life(&[(0, 1), (1, 1), (8, 1), (9, 1), (17, 1)]);
    let types: Vec<String> =
        history.iter().map(|told| crate::domain::codec::event_type(&told.event).expect("encodes")).collect();
    assert_eq!(types.last().map(String::as_str), Some("task.completed"), "{types:?}");

    // Another generation than any claim has.
    let mut forged = history.clone();
    let Event::Task(TaskEvent::Started(started)) = &mut forged[4].event else { panic!("{types:?}") };
    started.generation = 7;
    let said = otherwise(&forged).join("; ");
    assert!(said.contains("it would"), "{said}");

    // A claim's slot is the writer's to choose; that the issue is the task's is a rule.
    let mut forged = history.clone();
    let Event::Task(TaskEvent::Claimed(claimed)) = &mut forged[1].event else { panic!("{types:?}") };
    claimed.issue = crate::kernel::ids::IssueId(id(0xbad));
    assert_eq!(otherwise(&forged), ["it would write another issue"]);

    // What can't follow ends the stream's story there.
    let mut forged = history.clone();
    forged.remove(1);
    let steps = replay(&forged);
    assert!(steps.iter().any(|step| matches!(&step.verdict, Verdict::Otherwise(_))), "{steps:?}");

    // A part of a history is not judged.
    assert!(replay(&history[2..]).iter().all(|step| step.verdict == Verdict::Unasked));
}

#[test]
fn the_state_is_told_after_each_event() {
    let told: Vec<String> =
        replay(&life(&[(0, 1), (1, 1), (4, 1), (7, 1)])).into_iter().filter_map(|step| step.state).collect();
    insta::assert_snapshot!(told.join("\n"), @r"
    queued
    dispatched, claim 1 of laptop, not yet confirmed
    dispatched, claim 1 of laptop
    waiting_local_directory, claim 1 of laptop, waits for its directory
    dispatched, claim 1 of laptop, not yet confirmed, promoted
    ");
}
