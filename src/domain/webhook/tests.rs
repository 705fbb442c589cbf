//! The table of the module's documentation, row by row; schedules; what is wanted when.

use std::time::Duration;

use jiff::Timestamp;

use super::delivery::{self, wait};
use super::terms::fits;
use super::*;
use crate::domain::spec::{Rules, envelope, given, id};
use crate::domain::{Envelope, Refusal};
use crate::kernel::ids::{SecretId, WebhookId};
use crate::kernel::limits::{Limits, Millis};

const HOOK: WebhookId = WebhookId(id(1));

struct Webhooks;

impl Rules for Webhooks {
    type State = Webhook;
    type Event = WebhookEvent;
    type Command = WebhookCommand;
    fn evolve(state: Option<Webhook>, event: &WebhookEvent) -> Option<Webhook> {
        evolve::evolve(HOOK, state, event)
    }
    fn decide(state: Option<&Webhook>, command: WebhookCommand) -> Result<Vec<WebhookEvent>, Refusal> {
        decide::decide(state, command)
    }
}

fn facts() -> Created {
    Created {
        name: "chat".to_owned(),
        url: "https://hooks.example.com/x".to_owned(),
        types: vec!["task".to_owned()],
        secret: SecretId(id(8)),
    }
}

fn created() -> WebhookEvent {
    WebhookEvent::Created(facts())
}

fn disabled(because: OffBecause) -> WebhookEvent {
    WebhookEvent::Disabled(Disabled { because })
}

fn dead(position: i64) -> DeadLettered {
    DeadLettered { position, attempts: 10, problem: Problem::Status, status: Some(500) }
}

fn dead_lettered(position: i64) -> WebhookEvent {
    WebhookEvent::DeadLettered(dead(position))
}

fn record_dead(position: i64, most: usize) -> WebhookCommand {
    WebhookCommand::RecordDead { dead: dead(position), most }
}

fn until() -> Timestamp {
    Timestamp::from_second(2_000).expect("a small number")
}

fn rotated() -> WebhookEvent {
    WebhookEvent::SecretRotated(SecretRotated { secret: SecretId(id(9)), old_until: until() })
}

fn removed() -> WebhookEvent {
    WebhookEvent::Removed(Removed {})
}

/// One of each event.
pub(crate) fn samples() -> Vec<WebhookEvent> {
    vec![
        created(),
        WebhookEvent::Updated(Updated {
            name: Some("ci".to_owned()),
            url: Some("https://ci.example.com/".to_owned()),
            types: Some(vec!["task.completed".to_owned(), "issue.*".to_owned()]),
        }),
        disabled(OffBecause::Gone),
        WebhookEvent::Enabled(Enabled {}),
        rotated(),
        dead_lettered(7),
        WebhookEvent::RetryAsked(RetryAsked { positions: vec![7] }),
        WebhookEvent::ReplayAsked(ReplayAsked { from: 3, up_to: 9 }),
        WebhookEvent::Tested(Tested { problem: Some(Problem::TimedOut), status: None }),
        removed(),
    ]
}

#[test]
fn a_webhook_is_created_once_under_a_name_that_fits_an_address() {
    given::<Webhooks>([]).when(WebhookCommand::Create(facts())).then([created()]);
    given::<Webhooks>([created()]).when(WebhookCommand::Create(facts())).then_refused("webhook_exists");
    given::<Webhooks>([created(), removed()])
        .when(WebhookCommand::Create(facts()))
        .then_refused("webhook_exists");
    for name in ["", " chat", "a/b", "a\u{1b}[2J", &"x".repeat(65)] {
        let create = WebhookCommand::Create(Created { name: name.to_owned(), ..facts() });
        given::<Webhooks>([]).when(create).then_refused("bad_name");
        let rename = Updated { name: Some(name.to_owned()), ..Updated::default() };
        given::<Webhooks>([created()]).when(WebhookCommand::Update(rename)).then_refused("bad_name");
    }
}

#[test]
fn what_it_is_already_is_no_change() {
    let same = Updated { name: Some("chat".to_owned()), url: Some(facts().url), types: Some(facts().types) };
    given::<Webhooks>([created()]).when(WebhookCommand::Update(same)).then_nothing();
    let all = Updated { types: Some(Vec::new()), ..Updated::default() };
    let state = given::<Webhooks>([created()])
        .when(WebhookCommand::Update(all.clone()))
        .then([WebhookEvent::Updated(all)]);
    assert!(state.types.is_empty());
}

#[test]
fn it_goes_off_and_on_again_and_repeats_are_nothing() {
    given::<Webhooks>([created()]).when(WebhookCommand::Enable).then_nothing();
    let off = given::<Webhooks>([created()])
        .when(WebhookCommand::Disable(OffBecause::Asked))
        .then([disabled(OffBecause::Asked)]);
    assert_eq!(off.off, Some(OffBecause::Asked));
    given::<Webhooks>([created(), disabled(OffBecause::Asked)])
        .when(WebhookCommand::Disable(OffBecause::Gone))
        .then_nothing();
    let on = given::<Webhooks>([created(), disabled(OffBecause::Gone)])
        .when(WebhookCommand::Enable)
        .then([WebhookEvent::Enabled(Enabled {})]);
    assert_eq!(on.off, None);
}

#[test]
fn two_secrets_sign_until_the_overlap_is_over_and_never_three() {
    let rotate = |n| WebhookCommand::Rotate { secret: SecretId(id(n)), old_until: until() };
    let state = given::<Webhooks>([created()]).when(rotate(9)).then([rotated()]);
    let before = Timestamp::from_second(1_999).expect("a time");
    assert_eq!(state.secrets(before).collect::<Vec<_>>(), [SecretId(id(9)), SecretId(id(8))]);
    assert_eq!(state.secrets(until()).collect::<Vec<_>>(), [SecretId(id(9))]);
    let again = WebhookEvent::SecretRotated(SecretRotated { secret: SecretId(id(10)), old_until: until() });
    let state = given::<Webhooks>([created(), rotated()]).when(rotate(10)).then([again]);
    assert_eq!(state.secrets(before).collect::<Vec<_>>(), [SecretId(id(10)), SecretId(id(9))]);
}

#[test]
fn what_is_given_up_is_told_once_and_too_much_of_it_switches_off() {
    given::<Webhooks>([created()]).when(record_dead(7, 3)).then([dead_lettered(7)]);
    given::<Webhooks>([created(), dead_lettered(7)]).when(record_dead(7, 3)).then_nothing();
    let two = [created(), dead_lettered(7), dead_lettered(8)];
    let state = given::<Webhooks>(two.clone())
        .when(record_dead(9, 3))
        .then([dead_lettered(9), disabled(OffBecause::Failing)]);
    assert_eq!((state.dead.len(), state.off), (3, Some(OffBecause::Failing)));
    // Off already: one more is told, and no more.
    let off = two.into_iter().chain([disabled(OffBecause::Asked)]);
    given::<Webhooks>(off).when(record_dead(9, 3)).then([dead_lettered(9)]);
    given::<Webhooks>([created(), removed()]).when(record_dead(9, 3)).then_nothing();
    given::<Webhooks>([]).when(record_dead(9, 3)).then_nothing();
}

#[test]
fn what_was_given_up_is_tried_again_when_asked_for_and_nothing_else_is() {
    let two = [created(), dead_lettered(7), dead_lettered(8)];
    let retry = |positions: Option<Vec<i64>>| WebhookCommand::Retry { positions };
    let asked = |positions: &[i64]| WebhookEvent::RetryAsked(RetryAsked { positions: positions.to_vec() });
    let state = given::<Webhooks>(two.clone()).when(retry(None)).then([asked(&[7, 8])]);
    assert!(state.dead.is_empty());
    let state = given::<Webhooks>(two.clone()).when(retry(Some(vec![8, 8]))).then([asked(&[8])]);
    assert_eq!(state.dead.iter().collect::<Vec<_>>(), [&7]);
    given::<Webhooks>(two).when(retry(Some(vec![7, 9]))).then_refused("not_dead_lettered");
    given::<Webhooks>([created()]).when(retry(None)).then_nothing();
}

#[test]
fn a_replay_takes_what_was_given_up_with_it() {
    let replay = |from, up_to| ReplayAsked { from, up_to };
    let two = [created(), dead_lettered(7), dead_lettered(12)];
    let state = given::<Webhooks>(two)
        .when(WebhookCommand::Replay(replay(3, 9)))
        .then([WebhookEvent::ReplayAsked(replay(3, 9))]);
    assert_eq!(state.dead.iter().collect::<Vec<_>>(), [&12]);
    for (from, up_to) in [(0, 5), (-1, 5), (6, 5)] {
        let command = WebhookCommand::Replay(replay(from, up_to));
        given::<Webhooks>([created()]).when(command).then_refused("bad_replay");
    }
}

#[test]
fn one_that_is_gone_or_never_was_is_told_so() {
    let tested = Tested { problem: None, status: Some(204) };
    let every = || {
        [
            WebhookCommand::Update(Updated::default()),
            WebhookCommand::Enable,
            WebhookCommand::Rotate { secret: SecretId(id(9)), old_until: until() },
            WebhookCommand::Retry { positions: None },
            WebhookCommand::Replay(ReplayAsked { from: 1, up_to: 2 }),
        ]
    };
    for command in every() {
        given::<Webhooks>([]).when(command).then_refused("not_found");
    }
    for command in every() {
        given::<Webhooks>([created(), removed()]).when(command).then_refused("not_found");
    }
    let told = [
        WebhookCommand::Remove,
        WebhookCommand::Disable(OffBecause::Gone),
        WebhookCommand::RecordTest(tested.clone()),
    ];
    for command in told.clone() {
        given::<Webhooks>([created(), removed()]).when(command).then_nothing();
    }
    for command in told {
        given::<Webhooks>([]).when(command).then_refused("not_found");
    }
    given::<Webhooks>([created()]).when(WebhookCommand::Remove).then([removed()]);
    given::<Webhooks>([created()])
        .when(WebhookCommand::RecordTest(tested.clone()))
        .then([WebhookEvent::Tested(tested)]);
}

fn stream(events: impl IntoIterator<Item = (i64, WebhookEvent)>) -> Vec<Envelope> {
    let key = evolve::stream(HOOK);
    (1..)
        .zip(events)
        .map(|(version, (position, event))| envelope(position, key, version, event.into()))
        .collect()
}

#[test]
fn an_event_is_wanted_by_what_the_webhook_was_when_it_happened() {
    let issues = Updated { types: Some(vec!["issue".to_owned()]), ..Updated::default() };
    let terms = Terms::of(&stream([
        (10, created()),
        (20, WebhookEvent::Updated(issues)),
        (30, disabled(OffBecause::Asked)),
        (40, WebhookEvent::Enabled(Enabled {})),
        (50, removed()),
    ]));
    for (position, event_type, wanted) in [
        (9, "task.queued", false),
        (11, "task.queued", true),
        (11, "issue.created", false),
        (19, "task.queued", true),
        (21, "task.queued", false),
        (21, "issue.created", true),
        (31, "issue.created", false),
        (41, "issue.created", true),
        (51, "issue.created", false),
    ] {
        assert_eq!(terms.want(position, event_type), wanted, "{event_type} at {position}");
    }
    // A replay goes by what holds when it is asked for, also of one that is off.
    assert!(terms.fit(35, "issue.created") && !terms.fit(35, "task.queued"));
}

#[test]
fn types_are_whole_ones_families_and_beginnings_and_never_webhooks_own() {
    let of = |types: &[&str], event_type| {
        fits(&types.iter().map(|&one| one.to_owned()).collect::<Vec<_>>(), event_type)
    };
    assert!(of(&[], "task.queued") && of(&["task"], "task.queued") && of(&["task.*"], "task.queued"));
    assert!(of(&["issue", "task.qu*"], "task.queued") && of(&["*"], "task.queued"));
    assert!(!of(&["task.queue"], "task.queued") && !of(&["tas"], "task.queued"));
    for types in [&[][..], &["webhook"], &["webhook.tested"], &["*"]] {
        assert!(!of(types, "webhook.tested"), "{types:?}");
    }
}

#[test]
fn the_wait_is_the_schedule_s_and_a_little_more_and_ends_with_it() {
    let limits = Limits {
        webhook_retries: vec![Millis(1_000), Millis(60_000)],
        webhook_jitter_percent: 20,
        webhook_retry_after: Millis(90_000),
        ..Limits::default()
    };
    let failed = Outcome::failed(Problem::Unreachable);
    let seconds = Duration::from_secs;
    assert_eq!(wait(&limits, 1, failed, 0), Some(seconds(1)));
    assert_eq!(wait(&limits, 1, failed, u32::MAX), Some(Duration::from_millis(1_200)));
    assert_eq!(wait(&limits, 2, failed, 0), Some(seconds(60)));
    assert_eq!(wait(&limits, 3, failed, 0), None);
    assert_eq!(wait(&limits, 0, failed, 0), None, "nothing was tried");
    // Whoever asks to be left alone is, within bounds, and never tried sooner than the schedule says.
    let asks = |after| Outcome::of_status(503, Some(after));
    assert_eq!(wait(&limits, 1, asks(30), 0), Some(seconds(30)));
    assert_eq!(wait(&limits, 1, asks(u64::MAX), 0), Some(seconds(90)));
    assert_eq!(wait(&limits, 2, asks(30), 0), Some(seconds(60)));
}

#[test]
fn a_status_is_taken_at_its_word() {
    for (status, problem) in [
        (200, None),
        (204, None),
        (299, None),
        (199, Some(Problem::Status)),
        (301, Some(Problem::Redirected)),
        (304, Some(Problem::Redirected)),
        (400, Some(Problem::Status)),
        (410, Some(Problem::Gone)),
        (500, Some(Problem::Status)),
    ] {
        assert_eq!(Outcome::of_status(status, None).problem, problem, "{status}");
    }
    for problem in Problem::ALL {
        let word = serde_json::to_value(problem).expect("a word");
        assert_eq!(
            (word.as_str(), Problem::from_name(problem.name())),
            (Some(problem.name()), Some(problem))
        );
    }
}

#[test]
fn a_delivery_s_id_is_that_of_webhook_and_event() {
    assert_eq!(delivery::id(HOOK, 7), delivery::id(HOOK, 7));
    assert_ne!(delivery::id(HOOK, 7), delivery::id(HOOK, 8));
    assert_ne!(delivery::id(HOOK, 7), delivery::id(WebhookId(id(2)), 7));
    // A full stop would move the border between what is signed.
    assert!(delivery::id(HOOK, 7).chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
}
