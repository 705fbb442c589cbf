//! Every state that can be reached is explained.

use proptest::prelude::*;

use super::*;
use crate::domain::directory::{self, Directory, DirectoryCommand, Place};
use crate::domain::sentence::NoNames;
use crate::domain::task::explain::{
    AgentFacts, DaemonFacts, Explanation, Facts, HolderFacts, Since, Terms, explain,
};
use crate::domain::task::failure::Again;
use crate::kernel::ids::MachineId;

const TERMS: Terms = Terms {
    queued: jiff::SignedDuration::from_secs(3_600),
    receipt: jiff::SignedDuration::from_secs(30),
    grace: jiff::SignedDuration::from_secs(300),
    idle: jiff::SignedDuration::from_secs(1_800),
};

fn at(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).expect("a small number")
}

fn facts_of(directory: Option<&Directory>, bits: u32) -> Facts<'_> {
    let on = |bit: u32| bits & (1 << bit) != 0;
    Facts {
        damage: None,
        directory,
        daemon: DaemonFacts {
            known: on(0),
            online: on(1),
            runtime_online: on(2),
            draining: on(3),
            last_seen: None,
            slots_taken: if on(4) { 20 } else { 0 },
            slots: 20,
        },
        agent: AgentFacts { archived: on(5), slots_taken: if on(6) { 6 } else { 1 }, slots: 6 },
        conversation: on(7).then_some(TaskId(id(90))),
        ahead: bits % 3,
        since: Since::default(),
        stalled: on(8),
        holder: on(9).then(|| HolderFacts {
            status: Status::ALL[(bits % 8) as usize],
            last_output: on(1).then_some(at(600)),
            daemon: "desktop".to_owned(),
            machine: DaemonFacts {
                known: true,
                online: on(2),
                runtime_online: on(2),
                ..DaemonFacts::default()
            },
        }),
        last_output: on(10).then_some(at(700)),
        undelivered: bits % 4,
        retry: on(3).then_some(Status::Queued),
        terms: TERMS,
        names: &NoNames,
    }
}

fn place() -> Place {
    Place {
        machine: MachineId(id(5)),
        real_path: "/data/game".to_owned(),
        device: 1,
        inode: 2,
        boot_id: "b".to_owned(),
        label: "game".to_owned(),
    }
}

fn queue_of(tasks: &[TaskId]) -> Option<Directory> {
    let mut state = None;
    for task in tasks {
        let enter = DirectoryCommand::Enter {
            task: *task,
            generation: 1,
            agent: AgentId(id(3)),
            daemon: "laptop".to_owned(),
            place: place(),
        };
        for event in directory::decide::decide(state.as_ref(), enter).expect("entering is allowed") {
            state = directory::state::evolve(state, &event);
        }
    }
    state
}

#[test]
fn a_parked_task_names_the_holder_its_place_and_what_helps() {
    let task = given(waiting(ParkedBecause::Held)).state();
    let directory = queue_of(&[TaskId(id(9)), TaskId(id(91)), TASK]);
    let explanation = explain(&task, &facts_of(directory.as_ref(), 0b111));
    assert_eq!(explanation.sentence, "GAME-12#3 waits for game");
    assert_eq!(explanation.causes[0].sentence, "runs in game go one after the other, and it is 2nd in line");
    assert_eq!(explanation.causes[1].sentence, "task 00000009 holds game");
    let called = format!("multica task explain {}", TaskId(id(9)));
    assert!(explanation.commands.contains(&called), "a command names what it can find: {explanation:?}");
}

/// Runs of one issue and agent go one after the other: the wait ends with the other one.
#[test]
fn a_task_behind_its_sibling_says_whose_end_it_waits_for() {
    struct Names;
    impl crate::domain::sentence::Names for Names {
        fn task(&self, _: TaskId) -> Option<String> {
            Some("GAME-12#2".to_owned())
        }
        fn issue(&self, _: IssueId) -> Option<String> {
            None
        }
        fn agent(&self, _: AgentId) -> Option<String> {
            None
        }
        fn project(&self, _: ProjectId) -> Option<String> {
            None
        }
        fn directory(&self, _: crate::kernel::ids::DirectoryId) -> Option<String> {
            None
        }
        fn daemon(&self, _: &str) -> Option<String> {
            None
        }
        fn member(&self, _: crate::kernel::ids::UserId) -> Option<String> {
            None
        }
        fn content(&self, _: crate::kernel::ids::ContentId) -> Option<String> {
            None
        }
    }
    let task = given(queued()).state();
    let facts = Facts { conversation: Some(TaskId(id(90))), names: &Names, ..facts_of(None, 0b111) };
    let explained = explain(&task, &facts);
    let ends = explained.ends_when.clone().unwrap_or_default();
    assert!(ends.starts_with("GAME-12#2 is over"), "{explained:?}");
    for verb in ["explain", "cancel"] {
        assert!(explained.commands.contains(&format!("multica task {verb} GAME-12#2")), "{explained:?}");
    }
}

#[test]
fn a_cancelled_task_that_still_holds_its_directory_says_so() {
    let events = waiting(ParkedBecause::Held).into_iter().chain([
        promoted(),
        received(1),
        TaskEvent::Cancelled(Cancelled { reason: None }),
    ]);
    let task = given(events).state();
    let directory = queue_of(&[TASK]);
    let explanation = explain(&task, &facts_of(directory.as_ref(), 0b111));
    assert!(explanation.causes.iter().any(|cause| cause.sentence.starts_with("it still holds game")));
    assert!(explanation.ends_when.is_some());
}

/// What a waiting task waits for is followed to its end: the holder, what it last said, its machine.
#[test]
fn a_parked_task_tells_what_its_holder_is_at_and_by_when_that_ends() {
    let task = given(waiting(ParkedBecause::Held)).state();
    let directory = queue_of(&[TaskId(id(9)), TASK]);
    let explained = |status, online| {
        let machine = DaemonFacts {
            known: true,
            online,
            runtime_online: online,
            last_seen: Some(at(1_000)),
            ..DaemonFacts::default()
        };
        let holder =
            HolderFacts { status, last_output: Some(at(900)), daemon: "desktop".to_owned(), machine };
        explain(&task, &Facts { holder: Some(holder), ..facts_of(directory.as_ref(), 0b111) })
    };
    let runs = explained(Status::Running, true);
    let said = runs.causes.iter().find(|cause| cause.sentence.contains("last said something"));
    assert_eq!(said.and_then(|cause| cause.since), Some(at(900)), "{runs:?}");
    assert_eq!(runs.until, None);
    let silent = explained(Status::Running, false);
    let gone = silent.causes.iter().find(|cause| cause.sentence == "the daemon on desktop isn't there");
    assert_eq!(gone.and_then(|cause| cause.since), Some(at(1_000)), "{silent:?}");
    assert_eq!(silent.until, Some(at(1_300)), "the grace of its machine");
    assert!(silent.commands.contains(&"multica daemon declare-dead desktop".to_owned()), "{silent:?}");
    for (status, told) in [
        (Status::Cancelled, "is cancelled, and its machine hasn't let the directory go yet"),
        (Status::Dispatched, "is getting ready there"),
        (Status::WaitingLocalDirectory, "another program has locked the directory"),
    ] {
        let explained = explained(status, true);
        assert!(explained.causes.iter().any(|cause| cause.sentence.contains(told)), "{explained:?}");
    }
}

#[test]
fn a_time_limit_that_ends_a_wait_is_told() {
    let until = |task: &Task, facts: Facts<'_>| explain(task, &facts).until;
    let since = || Since { status: Some(at(100)), ..Since::default() };
    let there = |on| Facts { since: since(), ..facts_of(None, on) };
    let queued = given(queued()).state();
    assert_eq!(until(&queued, there(0b111)), Some(at(3_700)));
    let claimed = given(self::queued().into_iter().chain([claimed(1)])).state();
    assert_eq!(until(&claimed, there(0b111)), Some(at(130)));
    let running = given(running()).state();
    assert_eq!(until(&running, there(0b111)), Some(at(1_900)), "it never said anything");
    let spoke = Facts { last_output: Some(at(700)), ..there(0b111) };
    assert_eq!(until(&running, spoke), Some(at(2_500)));
    let daemon = DaemonFacts { known: true, last_seen: Some(at(400)), ..DaemonFacts::default() };
    assert_eq!(until(&running, Facts { daemon, ..there(0b111) }), Some(at(700)));
}

#[test]
fn claims_that_nobody_confirmed_are_counted() {
    let task = given(queued()).state();
    let told = |undelivered| {
        let explained = explain(&task, &Facts { undelivered, ..facts_of(None, 0b111) });
        explained.causes.into_iter().map(|cause| cause.sentence).collect::<Vec<_>>().join("; ")
    };
    assert!(!told(0).contains("didn't confirm"));
    assert!(told(1).contains("claimed once before, and the daemon didn't confirm"));
    assert!(told(3).contains("claimed 3 times before"));
}

#[test]
fn a_run_that_was_given_up_is_said_to_be_at_work_until_its_machine_has_stopped_it() {
    let lost = || {
        let order = TaskEvent::CancelRequested(CancelRequested { generation: Some(1) });
        running().into_iter().chain([order, TaskEvent::Failed(failed("runtime_offline"))])
    };
    let told = |events: Vec<TaskEvent>, bits| {
        let since = Since { told_to_stop: Some(at(100)), ..Since::default() };
        explain(&given(events).state(), &Facts { since, ..facts_of(None, bits) })
    };
    let told_to_stop = |explained: &Explanation| {
        let cause = explained.causes.iter().find(|cause| cause.sentence.contains("was told to stop"));
        cause.map(|cause| cause.since)
    };
    let away = told(lost().collect(), 0b001);
    assert_eq!(told_to_stop(&away), Some(Some(at(100))), "{away:?}");
    assert!(away.ends_when.is_some() && away.commands.contains(&"multica daemon start".to_owned()));
    let back = told(lost().collect(), 0b111);
    assert!(told_to_stop(&back).is_some() && !back.commands.contains(&"multica daemon start".to_owned()));
    let stopped = TaskEvent::CancelAcknowledged(CancelAcknowledged { generation: 1, reason: None });
    let over = told(lost().chain([stopped]).collect(), 0b111);
    assert_eq!((told_to_stop(&over), over.ends_when), (None, None));
}

/// a task whose directory doesn't answer is told from one that has only just begun.
#[test]
fn a_task_that_gets_ready_for_too_long_is_said_to_be_stalled() {
    let task = given(dispatched()).state();
    let causes = |bits: u32| explain(&task, &facts_of(None, bits)).causes;
    assert!(causes(0b111).iter().any(|cause| cause.sentence == "its place to work is being made ready"));
    let stalled = explain(&task, &facts_of(None, 0b1_0000_0111));
    assert!(stalled.causes.iter().any(|cause| cause.sentence.contains("unusually long")), "{stalled:?}");
    assert!(stalled.commands.contains(&"multica task cancel GAME-12#3".to_owned()), "{stalled:?}");
}

#[test]
fn a_failed_task_s_advice_is_no_cause_of_its_failure() {
    let failed = TaskEvent::Failed(failed("agent_error.process_failure"));
    let task = given(dispatched().into_iter().chain([failed])).state();
    let explanation = explain(&task, &facts_of(None, 0b111));
    let step = failure::find("agent_error.process_failure").expect("known").next_step(Again::None, true);
    assert_eq!(explanation.advice, [step]);
    assert!(explanation.causes.iter().all(|cause| cause.sentence != step), "{explanation:?}");
    assert!(explanation.commands.contains(&"multica task logs GAME-12#3".to_owned()), "{explanation:?}");
}

/// A run that isn't tried again by itself isn't said to be, however its daemon stands.
#[test]
fn what_helps_a_lost_run_hangs_on_its_retry_and_on_its_daemon() {
    let lost = || running().into_iter().chain([TaskEvent::Failed(failed("runtime_offline"))]);
    let retried = TaskEvent::Retried(Retried { by: TaskId(id(9)) });
    let advice = |events: Vec<TaskEvent>, retry, bits| {
        explain(&given(events).state(), &Facts { retry, ..facts_of(None, bits) }).advice.join(" ")
    };
    let (away, there) = (0b001, 0b111);
    assert_eq!(advice(lost().collect(), None, away), "Start its daemon again, then rerun the issue.");
    assert_eq!(advice(lost().collect(), None, there), "Rerun the issue if it is still wanted.");
    let again = |retry, bits| advice(lost().chain([retried.clone()]).collect(), Some(retry), bits);
    assert!(
        again(Status::Queued, away).contains("Start its daemon again; the task is tried again by itself")
    );
    assert_eq!(again(Status::Running, there), "Nothing: it is tried again by itself.");
    assert_eq!(again(Status::Failed, away), "Look at the run that took its place.");
}

/// Who is behind a task that another one keeps out hears by whom.
#[test]
fn who_keeps_the_holder_out_is_named_to_those_who_wait_behind_it() {
    let task = given(waiting(ParkedBecause::Held)).state();
    let mut directory = queue_of(&[TaskId(id(9)), TASK]);
    let lock = directory::LockBlocked {
        task: TaskId(id(9)),
        pid: Some(9),
        program: None,
        run: Some(directory::LockingRun::Task { task: TaskId(id(91)) }),
    };
    directory = directory::state::evolve(directory, &directory::DirectoryEvent::LockBlocked(lock));
    let holder = HolderFacts {
        status: Status::WaitingLocalDirectory,
        last_output: None,
        daemon: "desktop".to_owned(),
        machine: DaemonFacts { known: true, online: true, runtime_online: true, ..DaemonFacts::default() },
    };
    let explained = explain(&task, &Facts { holder: Some(holder), ..facts_of(directory.as_ref(), 0b111) });
    let named = "waits itself: task 0000005b (process 9) has locked the directory";
    assert!(explained.causes.iter().any(|cause| cause.sentence.contains(named)), "{explained:?}");
}

proptest! {
    #[test]
    fn every_reachable_state_is_explained_and_never_unknown(
        numbers in proptest::collection::vec((0_usize..19, 1_u32..3), 0..30),
        bits in 0_u32..2_048,
        queue in 0_usize..4,
    ) {
        let queues = [
            None,
            queue_of(&[TASK]),
            queue_of(&[TaskId(id(9)), TASK]),
            queue_of(&[TaskId(id(9)), TaskId(id(91))]),
        ];
        for task in life(&numbers) {
            let explanation = explain(&task, &facts_of(queues[queue].as_ref(), bits));
            let all = explanation.causes.iter().map(|cause| cause.sentence.as_str());
            for sentence in all.chain([explanation.sentence.as_str()]) {
                prop_assert!(!sentence.is_empty() && !sentence.to_lowercase().contains("unknown"));
            }
            if !task.status().is_terminal() {
                prop_assert!(!explanation.causes.is_empty());
                prop_assert!(explanation.ends_when.is_some());
            }
            prop_assert!(!explanation.commands.is_empty());
        }
    }
}
