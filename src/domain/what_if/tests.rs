//! Each timer with a shorter and a longer value, over what decisions have recorded.

use proptest::prelude::*;

use super::*;
use crate::domain::daemon::{DaemonEvent, DeclaredDead, Registered, RuntimePresence};
use crate::domain::spec::{envelope, id};
use crate::domain::task::tests::{TASK, command, facts};
use crate::domain::task::{decide, evolve};
use crate::domain::{Family, StreamKey, Via};
use crate::kernel::ids::{CommandId, Incarnation, MachineId, RuntimeId, UserId};

/// Numbers of [`command`].
const CLAIM: usize = 0;
const RECEIVE: usize = 1;
const RELEASE: usize = 2;
const ENTER: usize = 3;
const PARK: usize = 4;
const UNANSWERED: usize = 6;
const PROMOTE: usize = 7;
const START: usize = 9;
const CANCEL: usize = 15;
const LOSE: usize = 16;
const COMPLETE: usize = 17;

/// What is done, and at which second.
enum Done {
    Task(usize, u32),
    Expire,
    Daemon(DaemonEvent),
    /// The daemon told it.
    Report(usize, u32),
    /// Its machine is given up for that reason, and that becomes of the task in the same append.
    GiveUp(&'static str, usize),
}
use Done::{Daemon, Expire, GiveUp, Report, Task as Told};

const GRACE_OVER: &str = "reconnect_grace_over";
const BY_MEMBER: &str = "by_member";

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a small number")
}

/// A task queued at second 0, and what is done then: recorded when it is said.
fn history(all: &[(i64, Done)]) -> Vec<Envelope> {
    let (mut state, mut told, mut position, mut version) = (None, Vec::new(), 0_i64, 0);
    let queue = (0, TaskCommand::Queue(facts()));
    let mut tell = |at: i64, n: usize, via: Via, command: TaskCommand, told: &mut Vec<Envelope>| {
        let decided = decide::decide(state.as_ref(), command).unwrap_or_default();
        for event in decided {
            state = evolve::evolve(TASK, state.take(), &event);
            (position, version) = (position + 1, version + 1);
            let mut event = envelope(position, evolve::stream(TASK), version, Event::Task(event));
            (event.recorded_at, event.command_id, event.actor.via) = (Some(second(at)), written_by(n), via);
            told.push(event);
        }
    };
    let daemon = StreamKey { family: Family::Daemon, id: id(90) };
    let of_daemon = |at: i64, n: usize, event: DaemonEvent| {
        let event = envelope(1, daemon, 1, Event::Daemon(event));
        Envelope { recorded_at: Some(second(at)), command_id: written_by(n), ..event }
    };
    told.push(of_daemon(0, all.len(), registered()));
    tell(queue.0, all.len() + 1, Via::Web, queue.1, &mut told);
    for (n, (at, done)) in all.iter().enumerate() {
        match done {
            Told(c, generation) => tell(*at, n, Via::Policy, command(*c, *generation), &mut told),
            Report(c, generation) => tell(*at, n, Via::Daemon, command(*c, *generation), &mut told),
            Expire => {
                let reason = "queued_expired".to_owned();
                let ending = Ending::default();
                let fail = TaskCommand::Fail { generation: None, reason, detail: None, ending };
                tell(*at, n, Via::Policy, fail, &mut told);
            }
            Daemon(event) => told.push(of_daemon(*at, n, event.clone())),
            GiveUp(reason, c) => {
                let dead = DeclaredDead { reason: (*reason).to_owned(), last_seen: None };
                told.push(of_daemon(*at, n, DaemonEvent::DeclaredDead(dead)));
                let via = if *reason == BY_MEMBER { Via::Cli } else { Via::Policy };
                tell(*at, n, via, command(*c, 1), &mut told);
            }
        }
    }
    told
}

fn written_by(n: usize) -> CommandId {
    CommandId(id(1_000 + n as u128))
}

fn registered() -> DaemonEvent {
    DaemonEvent::Registered(Registered {
        daemon: "laptop".to_owned(),
        machine: MachineId(id(1)),
        incarnation: Incarnation(id(6)),
        device_name: String::new(),
        cli_version: String::new(),
        os: String::new(),
        owner: UserId(id(1)),
    })
}

fn silent_since(at: i64) -> DaemonEvent {
    let runtime = RuntimeId(id(4));
    DaemonEvent::RuntimeWentOffline(RuntimePresence {
        runtime,
        last_seen: Some(second(at)),
        withdrawn: false,
    })
}

fn back() -> DaemonEvent {
    DaemonEvent::RuntimeCameBack(RuntimePresence {
        runtime: RuntimeId(id(4)),
        last_seen: None,
        withdrawn: false,
    })
}

/// Parameter, when it would have fired, what then, and what is recorded instead.
type Short = (Parameter, i64, Instead, Option<String>);

fn asked_from(from: i64, parameter: Parameter, value: u64, all: &[(i64, Done)]) -> Vec<Short> {
    let mut what_if = WhatIf::new([(parameter, Duration::from_secs(value))].into(), second(from));
    let mut found: Vec<Difference> = history(all).iter().flat_map(|event| what_if.take(event)).collect();
    found.extend(what_if.end(second(1_000)));
    let short = |one: Difference| {
        let recorded = one.recorded.map(|recorded| recorded.event_type);
        (one.parameter, one.due.as_second(), one.instead, recorded)
    };
    found.into_iter().map(short).collect()
}

fn asked(parameter: Parameter, value: u64, all: &[(i64, Done)]) -> Vec<Short> {
    asked_from(0, parameter, value, all)
}

fn fails(reason: &'static str) -> Instead {
    Instead::Fails(reason)
}

#[test]
fn a_shorter_wait_for_a_claim_would_have_failed_a_task_that_was_claimed_later() {
    use Parameter::QueuedTtl;
    let life = || [(100, Told(CLAIM, 1)), (101, Told(RECEIVE, 1))];
    let claimed = Some("task.claimed".to_owned());
    assert_eq!(asked(QueuedTtl, 60, &life()), [(QueuedTtl, 60, fails("queued_expired"), claimed)]);
    assert_eq!(asked(QueuedTtl, 200, &life()), []);
    // It was cancelled before it would have expired; or nobody has taken it to this day.
    assert_eq!(asked(QueuedTtl, 60, &[(50, Told(CANCEL, 1))]), []);
    assert_eq!(asked(QueuedTtl, 60, &[]), [(QueuedTtl, 60, fails("queued_expired"), None)]);
    // Each stay in the queue counts for itself.
    let again = [(50, Told(CLAIM, 1)), (55, Told(RELEASE, 1)), (110, Told(CLAIM, 1))];
    assert_eq!(asked(QueuedTtl, 60, &again), []);
}

#[test]
fn a_longer_wait_for_a_claim_has_an_end_that_nobody_knows() {
    use Parameter::QueuedTtl;
    let failed = Some("task.failed".to_owned());
    assert_eq!(asked(QueuedTtl, 300, &[(200, Expire)]), [(QueuedTtl, 300, Instead::WaitsOn, failed)]);
    assert_eq!(asked(QueuedTtl, 60, &[(200, Expire)]), [], "it fails the same, earlier");
}

#[test]
fn a_value_holds_from_its_moment_on() {
    use Parameter::QueuedTtl;
    let claimed = Some("task.claimed".to_owned());
    let life = || [(100, Told(CLAIM, 1))];
    let at_once = [(QueuedTtl, 80, fails("queued_expired"), claimed)];
    assert_eq!(asked_from(80, QueuedTtl, 60, &life()), at_once, "by then it waits too long");
    assert_eq!(asked_from(150, QueuedTtl, 60, &life()), []);
    assert_eq!(asked_from(250, QueuedTtl, 300, &[(200, Expire)]), []);
}

#[test]
fn a_receipt_that_would_have_come_too_late_takes_the_claim_back() {
    use Parameter::ClaimReceipt;
    let late = || [(10, Told(CLAIM, 1)), (40, Told(RECEIVE, 1)), (50, Told(START, 1))];
    let received = Some("task.claim_received".to_owned());
    assert_eq!(asked(ClaimReceipt, 20, &late()), [(ClaimReceipt, 30, Instead::ClaimReleased, received)]);
    assert_eq!(asked(ClaimReceipt, 60, &late()), []);
    let released = Some("task.claim_released".to_owned());
    let never = [(10, Told(CLAIM, 1)), (40, Told(RELEASE, 1))];
    assert_eq!(asked(ClaimReceipt, 60, &never), [(ClaimReceipt, 70, Instead::WaitsOn, released)]);
    assert_eq!(asked(ClaimReceipt, 20, &never), [], "it goes back the same, earlier");
}

#[test]
fn a_promotion_has_the_same_time_to_be_confirmed() {
    use Parameter::ClaimReceipt;
    let promoted =
        || vec![(1, Told(CLAIM, 1)), (2, Told(RECEIVE, 1)), (3, Told(PARK, 1)), (9, Told(PROMOTE, 1))];
    let mut late = promoted();
    late.push((40, Told(RECEIVE, 1)));
    let received = Some("task.claim_received".to_owned());
    assert_eq!(asked(ClaimReceipt, 20, &late), [(ClaimReceipt, 29, Instead::ParkedAgain, received)]);
    let mut never = promoted();
    never.push((40, Told(UNANSWERED, 1)));
    let parked = Some("task.parked".to_owned());
    assert_eq!(asked(ClaimReceipt, 60, &never), [(ClaimReceipt, 69, Instead::WaitsOn, parked)]);
}

fn running() -> Vec<(i64, Done)> {
    vec![(1, Told(CLAIM, 1)), (2, Told(RECEIVE, 1)), (3, Told(ENTER, 1)), (4, Told(START, 1))]
}

#[test]
fn a_shorter_grace_would_have_lost_what_ran_on_a_machine_that_came_back() {
    use Parameter::ReconnectGrace;
    let mut life = running();
    life.extend([(70, Daemon(silent_since(10))), (200, Daemon(back())), (300, Told(COMPLETE, 1))]);
    assert_eq!(asked(ReconnectGrace, 100, &life), [(ReconnectGrace, 110, fails("runtime_offline"), None)]);
    assert_eq!(asked(ReconnectGrace, 250, &life), []);
    // Somebody cancelled it, but not before it would have been lost.
    let mut life = running();
    life.extend([(70, Daemon(silent_since(10))), (150, Told(CANCEL, 1)), (200, Daemon(back()))]);
    let cancelled = Some("task.cancelled".to_owned());
    let lost = |recorded| [(ReconnectGrace, 110, fails("runtime_offline"), recorded)];
    assert_eq!(asked(ReconnectGrace, 100, &life), lost(cancelled));
    assert_eq!(asked(ReconnectGrace, 145, &life), []);
    // It is silent to this day.
    let mut life = running();
    life.push((70, Daemon(silent_since(10))));
    assert_eq!(asked(ReconnectGrace, 100, &life), lost(None));
}

#[test]
fn a_longer_grace_saves_what_ran_where_the_machine_was_back_in_time() {
    use Parameter::ReconnectGrace;
    let lost_at_100 = |back_at: Option<i64>| {
        let mut life = running();
        life.extend([(70, Daemon(silent_since(10))), (100, GiveUp(GRACE_OVER, LOSE))]);
        life.extend(back_at.map(|at| (at, Daemon(back()))));
        life
    };
    let failed = || Some("task.failed".to_owned());
    let saved = [(ReconnectGrace, 310, Instead::GoesOn, failed())];
    assert_eq!(asked(ReconnectGrace, 300, &lost_at_100(Some(200))), saved);
    assert_eq!(asked(ReconnectGrace, 300, &lost_at_100(Some(400))), [], "lost the same, later");
    assert_eq!(asked(ReconnectGrace, 300, &lost_at_100(None)), []);
    assert_eq!(asked(ReconnectGrace, 50, &lost_at_100(None)), [], "lost the same, sooner");
    let open = [(ReconnectGrace, 2_010, Instead::WaitsOn, failed())];
    assert_eq!(asked(ReconnectGrace, 2_000, &lost_at_100(None)), open);
}

/// The grace had no part in it: a longer one wouldn't have kept the task, only a much shorter one would have
/// fired before the person did.
#[test]
fn what_a_person_lost_is_no_doing_of_the_grace() {
    use Parameter::ReconnectGrace;
    let given_up = || {
        let mut life = running();
        life.extend([(70, Daemon(silent_since(10))), (100, GiveUp(BY_MEMBER, LOSE)), (200, Daemon(back()))]);
        life
    };
    assert_eq!(asked(ReconnectGrace, 3_600, &given_up()), []);
    assert_eq!(asked(ReconnectGrace, 95, &given_up()), []);
    let failed = Some("task.failed".to_owned());
    let sooner = [(ReconnectGrace, 60, fails("runtime_offline"), failed)];
    assert_eq!(asked(ReconnectGrace, 50, &given_up()), sooner);
    // Its daemon said so itself: it had been started for other providers.
    let mut life = running();
    life.extend([(70, Daemon(silent_since(10))), (90, Report(LOSE, 1)), (95, Daemon(back()))]);
    assert_eq!(asked(ReconnectGrace, 3_600, &life), []);
}

/// What a lost machine had claimed goes back for its loss, however long a receipt may take.
#[test]
fn what_a_lost_machine_had_claimed_is_no_doing_of_the_receipts_timer() {
    use Parameter::{ClaimReceipt, ReconnectGrace};
    let promoted =
        || vec![(1, Told(CLAIM, 1)), (2, Told(RECEIVE, 1)), (3, Told(PARK, 1)), (9, Told(PROMOTE, 1))];
    for reason in [GRACE_OVER, BY_MEMBER] {
        for (begun, does, instead) in [
            (vec![(9, Told(CLAIM, 1))], RELEASE, Instead::ClaimReleased),
            (promoted(), UNANSWERED, Instead::ParkedAgain),
        ] {
            let mut life = begun;
            life.extend([(70, Daemon(silent_since(10))), (100, GiveUp(reason, does))]);
            assert_eq!(asked(ClaimReceipt, 3_600, &life), [], "{reason}");
            let sooner = asked(ClaimReceipt, 20, &life);
            assert!(
                matches!(&sooner[..], [(ClaimReceipt, 29, told, Some(_))] if *told == instead),
                "{sooner:?}"
            );
            // The grace had a part in it where it was over: what comes of a claim that is kept isn't known.
            life.push((200, Daemon(back())));
            let kept: Vec<Instead> =
                asked(ReconnectGrace, 300, &life).into_iter().map(|(_, _, instead, _)| instead).collect();
            let by_grace = if reason == GRACE_OVER { vec![Instead::WaitsOn] } else { Vec::new() };
            assert_eq!(kept, by_grace, "{reason}");
        }
    }
    // Its daemon gave the promotion back.
    let mut life = promoted();
    life.push((40, Report(UNANSWERED, 1)));
    assert_eq!(asked(ClaimReceipt, 3_600, &life), []);
}

proptest! {
    /// A timer that never fires makes no difference, and no task is told of twice.
    #[test]
    fn no_timer_no_difference_and_each_task_once(
        numbers in proptest::collection::vec((0_usize..19, 1_u32..3), 0..30),
        value in 1_u64..40,
    ) {
        let told = numbers.iter().enumerate();
        let all: Vec<(i64, Done)> =
            told.map(|(n, (c, g))| (i64::try_from(n).unwrap_or_default() * 7, Told(*c, *g))).collect();
        for parameter in Parameter::ALL {
            prop_assert!(asked(parameter, value, &all).len() <= 1);
        }
        let mut never = WhatIf::new(BTreeMap::new(), second(0));
        for event in history(&all) {
            prop_assert!(never.take(&event).is_empty());
        }
        prop_assert!(never.end(second(1_000)).is_empty());
    }
}
