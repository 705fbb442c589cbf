//! The task's rules, given / when / then.

use proptest::prelude::*;

use super::command::Claim as ClaimCommand;
use super::evolve::evolve;
use super::*;
use crate::domain::spec::{Given, Rules, content, id};
use crate::domain::{Family, Refusal};
use crate::kernel::ids::{
    AgentId, CommentId, DirectoryId, Incarnation, IssueId, ProjectId, ResourceId, RuntimeId, TaskId,
};

mod explained;
mod table;

pub(crate) struct Tasks;

impl Rules for Tasks {
    type State = Task;
    type Event = TaskEvent;
    type Command = TaskCommand;
    fn evolve(state: Option<Task>, event: &TaskEvent) -> Option<Task> {
        evolve(TASK, state, event)
    }
    fn decide(state: Option<&Task>, command: TaskCommand) -> Result<Vec<TaskEvent>, Refusal> {
        decide::decide(state, command)
    }
}

fn given(events: impl IntoIterator<Item = TaskEvent>) -> Given<Tasks> {
    crate::domain::spec::given(events)
}

pub(crate) const TASK: TaskId = TaskId(id(1));
const DIRECTORY: DirectoryId = DirectoryId(id(50));

pub(crate) fn facts() -> Queued {
    Queued {
        issue: IssueId(id(2)),
        issue_key: "GAME-12".to_owned(),
        run: 3,
        agent: AgentId(id(3)),
        agent_name: "dev".to_owned(),
        runtime: RuntimeId(id(4)),
        daemon: "laptop".to_owned(),
        provider: "command".to_owned(),
        project: Some(ProjectId(id(5))),
        priority: 3,
        trigger: Trigger::Assignment,
        attempt: 1,
        max_attempts: 2,
    }
}

fn claim() -> ClaimCommand {
    ClaimCommand {
        daemon: "laptop".to_owned(),
        runtime: RuntimeId(id(4)),
        incarnation: Incarnation(id(6)),
        agent_slot: 0,
        daemon_slot: 1,
        built_from: vec![BuiltFrom { family: Family::Issue, stream: id(2), version: 4 }],
        resources: vec![ResourceId(id(7))],
        comments: vec![CommentId(id(8))],
    }
}

fn claimed(generation: u32) -> TaskEvent {
    TaskEvent::Claimed(claim().event(&facts(), generation))
}

fn received(generation: u32) -> TaskEvent {
    TaskEvent::ClaimReceived(Generation { generation })
}

fn parked(because: ParkedBecause) -> TaskEvent {
    TaskEvent::Parked(Parked {
        generation: 1,
        directory: DIRECTORY,
        label: "game".to_owned(),
        holder: Some(TaskId(id(9))),
        place: 2,
        because,
    })
}

fn promoted() -> TaskEvent {
    TaskEvent::Promoted(Promoted {
        generation: 1,
        directory: DIRECTORY,
        agent: facts().agent,
        daemon: "laptop".to_owned(),
        agent_slot: 0,
        daemon_slot: 0,
    })
}

fn git() -> Option<GitState> {
    Some(GitState { head: Some("0".repeat(40)), branch: None, changed_paths: 2, more: false })
}

fn prepared() -> Prepared {
    Prepared {
        generation: 1,
        place: WorkPlace::InPlace,
        work_dir: "/data/game".to_owned(),
        env_root: "/var/lib/multica/work/x".to_owned(),
        sidecars: 1,
        git: git(),
    }
}

fn used() -> UsageRecorded {
    let usage = Usage {
        provider: "claude".to_owned(),
        model: "m".to_owned(),
        input_tokens: 10,
        output_tokens: 20,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        cost_usd_ticks: None,
    };
    UsageRecorded { generation: 1, usage: vec![usage] }
}

fn completed() -> Completed {
    let ending =
        Ending { work_dir: Some("/data/game".to_owned()), transcript_messages: 3, ..Ending::default() };
    Completed { generation: 1, output: Some(content(60)), ending }
}

fn failed(reason: &str) -> Failed {
    Failed { generation: Some(1), reason: reason.to_owned(), detail: None, ending: Ending::default() }
}

fn late(kind: &str) -> LateReportRecorded {
    LateReportRecorded { generation: 1, kind: kind.to_owned(), reason: None, detail: None }
}

fn exited() -> ProcessExited {
    ProcessExited { generation: 1, code: Some(0), signal: None, killed: 1 }
}

fn sidecars() -> Sidecars {
    Sidecars { generation: 1, paths: vec!["AGENTS.md".to_owned()] }
}

fn process() -> ProcessStarted {
    ProcessStarted { generation: 1, pid: 7, program: "make".to_owned() }
}

/// One of each event; some are of another life of the task.
pub(crate) fn samples() -> Vec<TaskEvent> {
    let one = Generation { generation: 1 };
    vec![
        TaskEvent::Queued(facts()),
        claimed(1),
        TaskEvent::ClaimReceived(one.clone()),
        TaskEvent::ClaimReleased(ClaimReleased { generation: 1, reason: "no_receipt".to_owned() }),
        TaskEvent::DirectoryEntered(DirectoryEntered {
            generation: 1,
            directory: DIRECTORY,
            label: "game".to_owned(),
        }),
        parked(ParkedBecause::Held),
        promoted(),
        TaskEvent::PrepareFailed(PrepareFailed { generation: 1, reason: "timeout".to_owned() }),
        TaskEvent::Prepared(prepared()),
        TaskEvent::Started(one.clone()),
        TaskEvent::ProcessStarted(process()),
        TaskEvent::SessionPinned(SessionPinned { generation: 1, session_id: "s-1".to_owned() }),
        TaskEvent::UsageRecorded(used()),
        TaskEvent::CancelRequested(CancelRequested { generation: Some(1) }),
        TaskEvent::Cancelled(Cancelled { reason: None }),
        TaskEvent::CancelReceived(one),
        TaskEvent::ProcessExited(exited()),
        TaskEvent::Finalized(Finalized { generation: 1, git: git() }),
        TaskEvent::SidecarsLeft(sidecars()),
        TaskEvent::SidecarsRemoved(sidecars()),
        TaskEvent::CancelAcknowledged(CancelAcknowledged { generation: 1, reason: None }),
        TaskEvent::Completed(completed()),
        TaskEvent::Failed(failed("timeout")),
        TaskEvent::Retried(Retried { by: TaskId(id(70)) }),
        TaskEvent::LateReportRecorded(late("complete")),
    ]
}

pub(crate) fn queued() -> Vec<TaskEvent> {
    vec![TaskEvent::Queued(facts())]
}

fn dispatched() -> Vec<TaskEvent> {
    vec![TaskEvent::Queued(facts()), claimed(1), received(1)]
}

fn waiting(because: ParkedBecause) -> Vec<TaskEvent> {
    dispatched().into_iter().chain([parked(because)]).collect()
}

fn running() -> Vec<TaskEvent> {
    dispatched().into_iter().chain([TaskEvent::Started(Generation { generation: 1 })]).collect()
}

fn over() -> Vec<TaskEvent> {
    running().into_iter().chain([TaskEvent::Completed(completed())]).collect()
}

fn complete() -> TaskCommand {
    let Completed { generation, output, ending } = completed();
    TaskCommand::Complete { generation, output, ending }
}

fn fail(reason: &str) -> TaskCommand {
    let Failed { generation, reason, detail, ending } = failed(reason);
    TaskCommand::Fail { generation, reason, detail, ending }
}

fn park(because: ParkedBecause) -> TaskCommand {
    TaskCommand::Park {
        generation: 1,
        directory: DIRECTORY,
        label: "game".to_owned(),
        holder: Some(TaskId(id(9))),
        place: 2,
        because,
    }
}

fn promote() -> TaskCommand {
    TaskCommand::Promote { directory: DIRECTORY, agent_slot: 0, daemon_slot: 0 }
}

fn cancel() -> TaskCommand {
    TaskCommand::Cancel { reason: None }
}

#[test]
fn nothing_is_done_before_the_receipt_is_accepted() {
    let unconfirmed = || vec![TaskEvent::Queued(facts()), claimed(1)];
    given(unconfirmed()).when(TaskCommand::Start { generation: 1 }).then_refused("not_received");
    given(unconfirmed()).when(park(ParkedBecause::Held)).then_refused("not_received");
    given(unconfirmed()).when(TaskCommand::Prepared(prepared())).then_refused("not_received");
    let enter = TaskCommand::Enter { generation: 1, directory: DIRECTORY, label: "game".to_owned() };
    given(unconfirmed()).when(enter).then_refused("not_received");
    given(unconfirmed()).when(TaskCommand::Receive { generation: 1 }).then([received(1)]);
    given(dispatched()).when(TaskCommand::Receive { generation: 1 }).then_nothing();
}

#[test]
fn a_claim_that_never_arrived_goes_back_and_its_generation_is_stale_for_ever() {
    let released = || {
        vec![
            TaskEvent::Queued(facts()),
            claimed(1),
            TaskEvent::ClaimReleased(ClaimReleased { generation: 1, reason: "no_receipt".to_owned() }),
        ]
    };
    given(released()).when(TaskCommand::Receive { generation: 1 }).then_refused("stale_generation");
    given(released()).when(TaskCommand::Claim(claim())).then([claimed(2)]);
    let second = || released().into_iter().chain([claimed(2)]);
    given(second()).when(TaskCommand::Receive { generation: 1 }).then_refused("stale_generation");
    given(second()).when(complete()).then_refused("stale_generation");
    given(second()).when(fail("timeout")).then_refused("stale_generation");
    given(second()).when(TaskCommand::ProcessExited(exited())).then_refused("stale_generation");
    let again = TaskCommand::ReleaseClaim { generation: 1, reason: "no_receipt".to_owned() };
    given(second()).when(again).then_nothing();
}

#[test]
fn a_promotion_that_isnt_answered_is_parked_again() {
    let unanswered = || waiting(ParkedBecause::Held).into_iter().chain([promoted()]);
    given(unanswered())
        .when(park(ParkedBecause::PromotionUnanswered))
        .then([parked(ParkedBecause::PromotionUnanswered)]);
    let back = TaskCommand::ReleaseClaim { generation: 1, reason: "no_receipt".to_owned() };
    given(unanswered()).when(back).then_refused("not_dispatched");
    given(unanswered()).when(TaskCommand::Start { generation: 1 }).then_refused("not_received");
    given(waiting(ParkedBecause::Held))
        .when(TaskCommand::Start { generation: 1 })
        .then_refused("not_granted");
    // A receipt that comes after the promotion was taken back must not pass for a grant.
    given(unanswered().chain([parked(ParkedBecause::PromotionUnanswered)]))
        .when(TaskCommand::Receive { generation: 1 })
        .then_refused("not_granted");
}

#[test]
fn a_cancel_tells_the_machine_only_where_one_is_at_work() {
    let asked = |generation| TaskEvent::CancelRequested(CancelRequested { generation });
    let cancelled = || TaskEvent::Cancelled(Cancelled { reason: None });
    given(queued()).when(cancel()).then([asked(None), cancelled()]);
    given(dispatched()).when(cancel()).then([asked(Some(1)), cancelled()]);
    given(waiting(ParkedBecause::Held)).when(cancel()).then([asked(None), cancelled()]);
    given(waiting(ParkedBecause::ForeignLock)).when(cancel()).then([asked(Some(1)), cancelled()]);
    given(running()).when(cancel()).then([asked(Some(1)), cancelled()]);
    given(over()).when(cancel()).then_nothing();
}

#[test]
fn who_ends_a_run_without_its_machine_s_word_tells_the_machine_to_stop_it() {
    let order = || TaskEvent::CancelRequested(CancelRequested { generation: Some(1) });
    let lose = || TaskCommand::Fail {
        generation: None,
        reason: "runtime_offline".to_owned(),
        detail: None,
        ending: Ending::default(),
    };
    let lost = || TaskEvent::Failed(failed("runtime_offline"));
    given(running()).when(lose()).then([order(), lost()]);
    let unprepared = PrepareFailed { generation: 1, reason: "runtime_offline".to_owned() };
    given(dispatched()).when(lose()).then([order(), TaskEvent::PrepareFailed(unprepared), lost()]);

    // Whatever the machine says last of it answers the order, once.
    let given_up = || running().into_iter().chain([order(), lost()]);
    assert!(given(given_up()).state().is_stopping());
    let done = || TaskEvent::CancelAcknowledged(CancelAcknowledged { generation: 1, reason: None });
    let said = LateReportRecorded { detail: Some(content(60)), ..late("complete") };
    given(given_up()).when(complete()).then([TaskEvent::LateReportRecorded(said.clone()), done()]);
    let answered = || given_up().chain([TaskEvent::LateReportRecorded(said.clone()), done()]);
    assert!(!given(answered()).state().is_stopping());
    given(answered()).when(complete()).then_nothing();
    given(answered()).when(TaskCommand::AcknowledgeCancel { generation: 1, reason: None }).then_nothing();
    // Who reported its end by itself isn't told to stop.
    given(running()).when(fail("timeout")).then([TaskEvent::Failed(failed("timeout"))]);
}

#[test]
fn what_a_machine_says_after_the_end_is_kept_once() {
    let stopped = || running().into_iter().chain([TaskEvent::Cancelled(Cancelled { reason: None })]);
    let exit = || TaskCommand::ProcessExited(exited());
    given(stopped()).when(exit()).then([TaskEvent::ProcessExited(exited())]);
    given(stopped().chain([TaskEvent::ProcessExited(exited())])).when(exit()).then_nothing();
    let said = LateReportRecorded { detail: Some(content(60)), ..late("complete") };
    given(stopped()).when(complete()).then([TaskEvent::LateReportRecorded(said.clone())]);
    given(stopped().chain([TaskEvent::LateReportRecorded(said)])).when(complete()).then_nothing();
    given(over()).when(complete()).then_nothing();
    let acknowledge = || TaskCommand::AcknowledgeCancel { generation: 1, reason: None };
    given(stopped())
        .when(acknowledge())
        .then([TaskEvent::CancelAcknowledged(CancelAcknowledged { generation: 1, reason: None })]);
    given(running()).when(acknowledge()).then_refused("not_ended");
}

#[test]
fn a_program_that_is_started_again_is_told_in_turns_and_each_turn_once() {
    let (start, exit) = (|| TaskCommand::ProcessStarted(process()), || TaskCommand::ProcessExited(exited()));
    let (started, ended) = (TaskEvent::ProcessStarted(process()), TaskEvent::ProcessExited(exited()));
    let once = || running().into_iter().chain([started.clone()]);
    given(once()).when(start()).then_nothing();
    let over = || once().chain([ended.clone()]);
    given(over()).when(exit()).then_nothing();
    given(over()).when(start()).then([started.clone()]);
    let twice = || over().chain([started.clone()]);
    given(twice()).when(start()).then_nothing();
    given(twice()).when(exit()).then([ended.clone()]);
    // Once the task is over a fact that is known is known.
    given(over().chain([TaskEvent::Completed(completed())])).when(start()).then_nothing();
}

#[test]
fn usage_and_session_said_twice_are_said_once() {
    let usage = || TaskCommand::RecordUsage { generation: 1, usage: used().usage };
    given(running()).when(usage()).then([TaskEvent::UsageRecorded(used())]);
    given(running().into_iter().chain([TaskEvent::UsageRecorded(used())])).when(usage()).then_nothing();
    let pin = || TaskCommand::PinSession { generation: 1, session_id: "s".to_owned() };
    let pinned = TaskEvent::SessionPinned(SessionPinned { generation: 1, session_id: "s".to_owned() });
    given(running()).when(pin()).then([pinned.clone()]);
    given(running().into_iter().chain([pinned])).when(pin()).then_nothing();
}

#[test]
fn the_log_never_lets_a_task_leave_its_end() {
    for event in samples() {
        let before = given(over()).state();
        let after = evolve(TASK, Some(before.clone()), &event);
        if let Some(after) = after {
            assert_eq!(after.status(), before.status(), "{event:?}");
        }
    }
}

/// Every report and command, by a number: what histories are made of.
pub(crate) fn command(n: usize, generation: u32) -> TaskCommand {
    match n % 19 {
        0 => TaskCommand::Claim(claim()),
        1 => TaskCommand::Receive { generation },
        2 => TaskCommand::ReleaseClaim { generation, reason: "no_receipt".to_owned() },
        3 => TaskCommand::Enter { generation, directory: DIRECTORY, label: "game".to_owned() },
        4 => park(ParkedBecause::Held),
        5 => park(ParkedBecause::ForeignLock),
        6 => park(ParkedBecause::PromotionUnanswered),
        7 => promote(),
        8 => TaskCommand::Prepared(Prepared { generation, ..prepared() }),
        9 | 10 => TaskCommand::Start { generation },
        11 => TaskCommand::ProcessExited(ProcessExited { generation, ..exited() }),
        12 => TaskCommand::RecordUsage { generation, usage: used().usage },
        13 => TaskCommand::CancelReceived { generation },
        14 => TaskCommand::AcknowledgeCancel { generation, reason: None },
        15 => cancel(),
        16 => TaskCommand::Fail {
            generation: None,
            reason: "runtime_offline".to_owned(),
            detail: None,
            ending: Ending::default(),
        },
        17 => TaskCommand::Complete { generation, output: None, ending: Ending::default() },
        _ => TaskCommand::PinSession { generation, session_id: "s".to_owned() },
    }
}

/// Runs commands from a queued task on; the state after each.
pub(crate) fn life(numbers: &[(usize, u32)]) -> Vec<Task> {
    let mut task = given(queued()).state();
    let mut states = vec![task.clone()];
    for (n, generation) in numbers {
        for event in decide::decide(Some(&task), command(*n, *generation)).unwrap_or_default() {
            task = evolve(TASK, Some(task), &event).expect("what is decided folds");
        }
        states.push(task.clone());
    }
    states
}

proptest! {
    #[test]
    fn a_history_made_by_decisions_always_folds_and_its_end_absorbs(
        numbers in proptest::collection::vec((0_usize..19, 1_u32..4), 0..40)
    ) {
        let states = life(&numbers);
        let mut ended: Option<&Task> = None;
        for state in &states {
            if let Some(before) = ended {
                prop_assert_eq!(state.status(), before.status());
                let (Phase::Ended { outcome, .. }, Phase::Ended { outcome: first, .. }) = (&state.phase, &before.phase)
                else { return Err(TestCaseError::fail("left its end")) };
                prop_assert_eq!(outcome, first);
            }
            if state.status().is_terminal() && ended.is_none() {
                ended = Some(state);
            }
        }
    }

    #[test]
    fn a_command_repeated_at_once_changes_nothing_more(
        numbers in proptest::collection::vec((0_usize..19, 1_u32..3), 0..25)
    ) {
        for (at, (n, generation)) in numbers.iter().enumerate() {
            let mut twice = numbers[..=at].to_vec();
            twice.push((*n, *generation));
            let states = life(&twice);
            // A claim is another claim; all else says nothing new.
            if n % 19 != 0 {
                let [.., once, again] = states.as_slice() else { continue };
                prop_assert_eq!(once, again);
            }
        }
    }
}

/// All orders of up to five out of the reports that can end a running task, and facts beside them.
#[test]
fn whatever_the_order_of_reports_the_first_end_stays() {
    type Report = (&'static str, fn() -> TaskCommand);
    let reports: [Report; 6] = [
        ("complete", complete),
        ("fail", || fail("idle_watchdog")),
        ("cancel", cancel),
        ("acknowledge", || TaskCommand::AcknowledgeCancel { generation: 1, reason: None }),
        ("exited", || TaskCommand::ProcessExited(exited())),
        ("start", || TaskCommand::Start { generation: 1 }),
    ];
    let wanted = |name: &str| match name {
        "complete" => Some(Status::Completed),
        "fail" => Some(Status::Failed),
        "cancel" => Some(Status::Cancelled),
        _ => None,
    };
    let mut tried = 0;
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..5 {
        let longer = orders
            .iter()
            .flat_map(|order| (0..reports.len()).map(move |n| [order.as_slice(), &[n]].concat()));
        orders = longer.collect();
        for order in &orders {
            let mut task = given(running()).state();
            for n in order {
                for event in decide::decide(Some(&task), reports[*n].1()).unwrap_or_default() {
                    task = evolve(TASK, Some(task), &event).expect("what is decided folds");
                }
            }
            let first = order.iter().find_map(|n| wanted(reports[*n].0));
            assert_eq!(task.status(), first.unwrap_or(Status::Running), "{order:?}");
            tried += 1;
        }
    }
    assert_eq!(tried, 6 + 36 + 216 + 1_296 + 7_776);
}
