//! The installation's rules, given / when / then.

use uuid::Uuid;

use super::evolve::evolve;
use super::*;
use crate::domain::Refusal;
use crate::domain::spec::{Given, Rules};
use crate::kernel::ids::{ContentId, TaskId, UserId, WorkspaceId};

struct Installation;

impl Rules for Installation {
    type State = Operation;
    type Event = OperationEvent;
    type Command = OperationCommand;
    fn evolve(state: Option<Operation>, event: &OperationEvent) -> Option<Operation> {
        evolve(state, event)
    }
    fn decide(state: Option<&Operation>, command: OperationCommand) -> Result<Vec<OperationEvent>, Refusal> {
        decide::decide(state, command)
    }
}

fn given(events: impl IntoIterator<Item = OperationEvent>) -> Given<Installation> {
    crate::domain::spec::given(events)
}

fn started(key: &str) -> Started {
    Started { version: "0.1.0".to_owned(), instance_key_id: key.to_owned() }
}

fn skipped() -> EventSkipped {
    EventSkipped { read_model: "activity_feed".to_owned(), position: 7, reason: "no row".to_owned() }
}

fn verified() -> Verified {
    Verified { up_to: 12, blocks: 4, erased: 1, read_models: 12, found: 0, findings: Vec::new() }
}

fn sealed(up_to: i64) -> Sealed {
    Sealed { up_to, block: "ab".repeat(32), place: SealPlaceKind::File }
}

fn export() -> ExportMade {
    ExportMade {
        format: "jsonl".to_owned(),
        after: "0".to_owned(),
        up_to: 12,
        filters: [("type".to_owned(), "task.*".to_owned())].into(),
        searched: false,
    }
}

fn gone() -> Vec<GoneTranscript> {
    vec![GoneTranscript { task: TaskId(Uuid::from_u128(7)), generation: 2, messages: 40 }]
}

fn erased(contents: u128) -> Erased {
    Erased {
        of: ErasedOf::Person(UserId(Uuid::from_u128(5))),
        contents: (0..contents).map(|n| ContentId(Uuid::from_u128(n))).collect(),
        kinds: [("comment".to_owned(), 2)].into(),
        transcripts: Vec::new(),
    }
}

fn removed() -> TranscriptsRemoved {
    TranscriptsRemoved { days: 90, transcripts: gone() }
}

/// One of each event.
pub(crate) fn samples() -> Vec<OperationEvent> {
    vec![
        OperationEvent::Started(started("0011223344556677")),
        OperationEvent::ReadModelRebuilt(ReadModelRebuilt {
            read_model: "activity_feed".to_owned(),
            version: 1,
            up_to: 12,
            rows: 30,
        }),
        OperationEvent::EventSkipped(skipped()),
        OperationEvent::Verified(verified()),
        OperationEvent::Sealed(sealed(12)),
        OperationEvent::ExportMade(export()),
        OperationEvent::Erased(Erased { transcripts: gone(), ..erased(2) }),
        OperationEvent::TranscriptsRemoved(removed()),
    ]
}

#[test]
fn a_server_starts_with_the_key_of_the_log_and_no_other() {
    given([]).when(OperationCommand::Start(started("a"))).then([OperationEvent::Started(started("a"))]);
    let begun = [OperationEvent::Started(started("a"))];
    given(begun.clone())
        .when(OperationCommand::Start(started("a")))
        .then([OperationEvent::Started(started("a"))]);
    given(begun).when(OperationCommand::Start(started("b"))).then_refused("instance_key_mismatch");
}

#[test]
fn a_skip_said_twice_is_one_and_a_rebuild_heals_it() {
    let state = given(samples()).state();
    assert_eq!(state.skipped.len(), 1);
    given(samples()).when(OperationCommand::RecordSkip(skipped())).then_nothing();
    let rebuilt = ReadModelRebuilt { read_model: "activity_feed".to_owned(), version: 1, up_to: 9, rows: 1 };
    let state = given(samples())
        .when(OperationCommand::RecordRebuild(rebuilt.clone()))
        .then([OperationEvent::ReadModelRebuilt(rebuilt)]);
    assert!(state.skipped.is_empty());
    given([]).when(OperationCommand::RecordSkip(skipped())).then_refused("not_found");
}

#[test]
fn a_verification_is_recorded_each_time_with_what_it_found() {
    let wrong = Verified { found: 70, findings: vec!["position 7 is missing".to_owned()], ..verified() };
    let state = given(samples())
        .when(OperationCommand::RecordVerified(wrong.clone()))
        .then([OperationEvent::Verified(wrong)]);
    assert_eq!((state.verified_up_to, state.found, state.findings.len()), (12, 70, 1));
    let again = OperationCommand::RecordVerified(verified());
    given(samples()).when(again).then([OperationEvent::Verified(verified())]);
    given([]).when(OperationCommand::RecordVerified(verified())).then_refused("not_found");
}

#[test]
fn a_seal_is_recorded_and_the_furthest_is_remembered() {
    let state = given(samples())
        .when(OperationCommand::RecordSealed(sealed(7)))
        .then([OperationEvent::Sealed(sealed(7))]);
    assert_eq!(state.sealed_up_to, 12);
    given([]).when(OperationCommand::RecordSealed(sealed(7))).then_refused("not_found");
}

#[test]
fn an_export_is_recorded_each_time() {
    let again = || OperationCommand::RecordExport(export());
    let state = given(samples()).when(again()).then([OperationEvent::ExportMade(export())]);
    assert_eq!(state.exports, 2);
    // A workspace's own stream begins with the first.
    given([]).when(again()).then([OperationEvent::ExportMade(export())]);
}

#[test]
fn what_takes_nothing_away_is_nothing_and_what_does_is_recorded() {
    given(samples()).when(OperationCommand::Erase(erased(0))).then_nothing();
    let nothing = TranscriptsRemoved { transcripts: Vec::new(), ..removed() };
    given([]).when(OperationCommand::RemoveTranscripts(nothing)).then_nothing();
    // A workspace's own stream may begin with either.
    let state = given([]).when(OperationCommand::Erase(erased(3))).then([OperationEvent::Erased(erased(3))]);
    assert_eq!((state.erased, state.starts), (3, 0));
    let state = given([])
        .when(OperationCommand::RemoveTranscripts(removed()))
        .then([OperationEvent::TranscriptsRemoved(removed())]);
    assert_eq!(state.transcripts_removed, 1);
    let only = Erased { transcripts: gone(), ..erased(0) };
    given([]).when(OperationCommand::Erase(only.clone())).then([OperationEvent::Erased(only)]);
}

#[test]
fn each_workspace_has_its_own_stream_beside_the_installations() {
    let of = |n| evolve::stream(WorkspaceId(Uuid::from_u128(n))).id;
    assert_eq!(of(0), STREAM);
    assert!(of(1) != STREAM && of(1) != of(2) && of(1) != Uuid::from_u128(1));
}
