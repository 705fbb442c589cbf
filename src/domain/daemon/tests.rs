//! The daemon's rules, given / when / then.

use super::evolve::evolve;
use super::*;
use crate::domain::Refusal;
use crate::domain::spec::{Given, Rules, WORKSPACE, id};
use crate::domain::workspace::Role;
use crate::kernel::ids::{Incarnation, MachineId, OrderId, StreamId, UserId};

struct Daemons;

impl Rules for Daemons {
    type State = Daemon;
    type Event = DaemonEvent;
    type Command = DaemonCommand;
    fn evolve(state: Option<Daemon>, event: &DaemonEvent) -> Option<Daemon> {
        evolve(StreamId(id(1)), state, event)
    }
    fn decide(state: Option<&Daemon>, command: DaemonCommand) -> Result<Vec<DaemonEvent>, Refusal> {
        decide::decide(state, command)
    }
}

fn given(events: impl IntoIterator<Item = DaemonEvent>) -> Given<Daemons> {
    crate::domain::spec::given(events)
}

const FIRST: Incarnation = Incarnation(id(10));
const SECOND: Incarnation = Incarnation(id(11));
const ORDER: OrderId = OrderId(id(12));

fn registration(incarnation: Incarnation, providers: &[&str]) -> Registration {
    let found = |provider: &&str| FoundRuntime {
        provider: (*provider).to_owned(),
        version: "1.0".to_owned(),
        name: (*provider).to_owned(),
    };
    Registration {
        workspace: WORKSPACE,
        daemon: "laptop".to_owned(),
        machine: MachineId(id(2)),
        incarnation,
        device_name: "Ann's laptop".to_owned(),
        cli_version: "0.1.0".to_owned(),
        os: "linux".to_owned(),
        member: UserId(id(3)),
        role: Role::Member,
        capabilities: vec!["directory-queue-v1".to_owned(), "a".to_owned()],
        runtimes: providers.iter().map(found).collect(),
    }
}

fn registered(incarnation: Incarnation) -> DaemonEvent {
    let said = registration(incarnation, &[]);
    DaemonEvent::Registered(Registered {
        daemon: said.daemon,
        machine: said.machine,
        incarnation,
        device_name: said.device_name,
        cli_version: said.cli_version,
        os: said.os,
        owner: said.member,
    })
}

fn found(provider: &str) -> DaemonEvent {
    DaemonEvent::RuntimeRegistered(RuntimeRegistered {
        runtime: runtime_id(WORKSPACE, "laptop", provider),
        provider: provider.to_owned(),
        version: "1.0".to_owned(),
        name: provider.to_owned(),
    })
}

fn capabilities() -> DaemonEvent {
    let capabilities = vec!["a".to_owned(), "directory-queue-v1".to_owned()];
    DaemonEvent::CapabilitiesDeclared(CapabilitiesDeclared { capabilities })
}

fn presence(provider: &str) -> RuntimePresence {
    RuntimePresence { runtime: runtime_id(WORKSPACE, "laptop", provider), last_seen: None, withdrawn: false }
}

fn withdrawn(provider: &str) -> DaemonEvent {
    DaemonEvent::RuntimeWentOffline(RuntimePresence { withdrawn: true, ..presence(provider) })
}

fn begun() -> Vec<DaemonEvent> {
    vec![registered(FIRST), found("command"), capabilities()]
}

fn dead() -> DaemonEvent {
    DaemonEvent::DeclaredDead(DeclaredDead { reason: "by_member".to_owned(), last_seen: None })
}

fn probe() -> DirectoryProbeRequested {
    DirectoryProbeRequested { order: ORDER, path: "/srv/game".to_owned() }
}

fn probed() -> DirectoryProbed {
    let result = ProbeOutcome::Usable { real_path: "/data/game".to_owned(), git: true, can_isolate: false };
    DirectoryProbed { order: ORDER, result }
}

/// One of each event; together they are a history.
pub(crate) fn samples() -> Vec<DaemonEvent> {
    let mut all = begun();
    all.extend([
        DaemonEvent::DirectoryProbeRequested(probe()),
        DaemonEvent::DirectoryProbed(probed()),
        DaemonEvent::DrainStarted(Drain { incarnation: FIRST }),
        DaemonEvent::DrainEnded(Drain { incarnation: FIRST }),
        DaemonEvent::RuntimeWentOffline(RuntimePresence {
            last_seen: Some(jiff::Timestamp::UNIX_EPOCH),
            ..presence("command")
        }),
        dead(),
        DaemonEvent::RuntimeCameBack(presence("command")),
        DaemonEvent::Deregistered(Drain { incarnation: FIRST }),
    ]);
    all
}

#[test]
fn registering_again_says_only_what_changed() {
    let register =
        |incarnation, providers: &[&str]| DaemonCommand::Register(registration(incarnation, providers));
    given([]).when(register(FIRST, &["command"])).then(begun());
    given(begun()).when(register(FIRST, &["command"])).then_nothing();
    given(begun()).when(register(FIRST, &["command", "claude"])).then([found("claude")]);
    let state = given(begun()).when(register(SECOND, &["command"])).then([registered(SECOND)]);
    assert!(state.online() && state.can("directory-queue-v1"));
    let gone = withdrawn("command");
    given(begun()).when(register(FIRST, &[])).then([gone.clone()]);
    given(begun().into_iter().chain([gone.clone()])).when(register(FIRST, &[])).then_nothing();
    given(begun().into_iter().chain([gone]))
        .when(register(FIRST, &["command"]))
        .then([DaemonEvent::RuntimeCameBack(presence("command"))]);
}

#[test]
fn a_superseded_process_is_told_so_for_ever() {
    let both = || begun().into_iter().chain([registered(SECOND)]);
    given(both())
        .when(DaemonCommand::Register(registration(FIRST, &["command"])))
        .then_refused("daemon_superseded");
    given(both()).when(DaemonCommand::StartDrain { incarnation: FIRST }).then_refused("daemon_superseded");
    given(both())
        .when(DaemonCommand::Deregister { incarnation: Some(FIRST) })
        .then_refused("daemon_superseded");
    let beat = DaemonCommand::ComeBack { incarnation: Some(FIRST), runtimes: Vec::new(), last_seen: None };
    given(both()).when(beat).then_refused("daemon_superseded");
    let nameless = Registration { daemon: " ".to_owned(), ..registration(FIRST, &[]) };
    given([]).when(DaemonCommand::Register(nameless)).then_refused("bad_daemon_id");
}

#[test]
fn a_daemon_stays_with_the_member_who_registered_it_first() {
    let by = |user, role| {
        let said = Registration { member: UserId(id(user)), role, ..registration(SECOND, &["command"]) };
        DaemonCommand::Register(said)
    };
    given(begun()).when(by(99, Role::Member)).then_refused("daemon_of_another_member");
    for role in [Role::Admin, Role::Owner] {
        let state = given(begun()).when(by(99, role)).then([registered(SECOND)]);
        assert_eq!(state.facts.owner, UserId(id(3)));
    }
    assert!(may_speak(None, UserId(id(99)), Role::Member).is_ok(), "nobody has it yet");
    assert!(may_speak(Some(UserId(id(3))), UserId(id(3)), Role::Member).is_ok());
}

/// A heartbeat says that the machine is there, not that it has every provider that it ever had.
#[test]
fn what_a_daemon_no_longer_offers_comes_back_by_being_offered_only() {
    let come =
        || DaemonCommand::ComeBack { incarnation: Some(SECOND), runtimes: Vec::new(), last_seen: None };
    let register = |providers: &[&str]| DaemonCommand::Register(registration(SECOND, providers));
    let both = || begun().into_iter().chain([found("claude")]);
    // It had stopped, and starts without one of its providers.
    let stopped = || {
        both().chain([
            DaemonEvent::RuntimeWentOffline(presence("claude")),
            DaemonEvent::RuntimeWentOffline(presence("command")),
            DaemonEvent::Deregistered(Drain { incarnation: FIRST }),
        ])
    };
    let back = || DaemonEvent::RuntimeCameBack(presence("command"));
    let started =
        given(stopped()).when(register(&["command"])).then([registered(SECOND), back(), withdrawn("claude")]);
    assert!(!started.takes_claims(runtime_id(WORKSPACE, "laptop", "claude")));
    let without = || stopped().chain([registered(SECOND), back(), withdrawn("claude")]);
    given(without()).when(come()).then_nothing();
    let silent = without().chain([DaemonEvent::RuntimeWentOffline(presence("command"))]);
    given(silent).when(come()).then([back()]);
    let offered = DaemonEvent::RuntimeCameBack(presence("claude"));
    given(without()).when(register(&["command", "claude"])).then([offered]);
}

#[test]
fn presence_changes_are_said_once() {
    let gone = DaemonEvent::RuntimeWentOffline(presence("command"));
    let back = DaemonEvent::RuntimeCameBack(presence("command"));
    let go = || DaemonCommand::GoOffline { runtimes: Vec::new(), last_seen: None };
    let come = || DaemonCommand::ComeBack { incarnation: Some(FIRST), runtimes: Vec::new(), last_seen: None };
    let declare = || DaemonCommand::DeclareDead { reason: "by_member".to_owned(), last_seen: None };
    let state = given(begun()).when(go()).then([gone.clone()]);
    assert!(!state.online());
    given(begun()).when(come()).then_nothing();
    let offline = || begun().into_iter().chain([gone.clone()]);
    given(offline()).when(go()).then_nothing();
    given(offline()).when(come()).then([back]);
    given(begun()).when(declare()).then([gone.clone(), dead()]);
    given(offline().chain([dead()])).when(declare()).then_nothing();
}

#[test]
fn a_drain_and_a_sign_off_are_said_once() {
    let start = || DaemonCommand::StartDrain { incarnation: FIRST };
    let end = || DaemonCommand::EndDrain { incarnation: FIRST };
    let draining = || begun().into_iter().chain([DaemonEvent::DrainStarted(Drain { incarnation: FIRST })]);
    let state = given(begun()).when(start()).then([DaemonEvent::DrainStarted(Drain { incarnation: FIRST })]);
    assert!(state.online() && !state.takes_claims(runtime_id(WORKSPACE, "laptop", "command")));
    given(draining()).when(start()).then_nothing();
    given(draining()).when(end()).then([DaemonEvent::DrainEnded(Drain { incarnation: FIRST })]);
    given(begun()).when(end()).then_nothing();
    given(begun()).when(DaemonCommand::Deregister { incarnation: None }).then([
        DaemonEvent::RuntimeWentOffline(presence("command")),
        DaemonEvent::Deregistered(Drain { incarnation: FIRST }),
    ]);
    // Whoever leaves while it drains takes nothing in between: the drain ends with the sign-off.
    given(draining()).when(DaemonCommand::Deregister { incarnation: None }).then([
        DaemonEvent::RuntimeWentOffline(presence("command")),
        DaemonEvent::DrainEnded(Drain { incarnation: FIRST }),
        DaemonEvent::Deregistered(Drain { incarnation: FIRST }),
    ]);
    let over = || {
        begun().into_iter().chain([
            DaemonEvent::RuntimeWentOffline(presence("command")),
            DaemonEvent::Deregistered(Drain { incarnation: FIRST }),
        ])
    };
    given(over()).when(DaemonCommand::Deregister { incarnation: None }).then_nothing();
    given(over())
        .when(DaemonCommand::Register(registration(FIRST, &["command"])))
        .then([registered(FIRST), DaemonEvent::RuntimeCameBack(presence("command"))]);
}

#[test]
fn a_path_is_asked_for_and_answered_once() {
    let ask = || DaemonCommand::RequestProbe { order: ORDER, path: "/srv/game".to_owned() };
    let answer = || DaemonCommand::RecordProbe { order: ORDER, result: probed().result };
    let asked = || begun().into_iter().chain([DaemonEvent::DirectoryProbeRequested(probe())]);
    given(begun()).when(ask()).then([DaemonEvent::DirectoryProbeRequested(probe())]);
    given(asked()).when(ask()).then_nothing();
    given(begun()).when(answer()).then_refused("not_found");
    given(asked()).when(answer()).then([DaemonEvent::DirectoryProbed(probed())]);
    given(asked().chain([DaemonEvent::DirectoryProbed(probed())])).when(answer()).then_nothing();
    let gone = DaemonEvent::RuntimeWentOffline(presence("command"));
    given(begun().into_iter().chain([gone])).when(ask()).then_refused("daemon_offline");
}
