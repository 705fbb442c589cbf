//! The agent's rules, given / when / then.

use super::evolve::evolve;
use super::*;
use crate::domain::spec::{Given, Rules, content, id};
use crate::domain::{ContentRef, Refusal};
use crate::kernel::ids::{AgentId, RuntimeId, UserId};

struct Agents;

impl Rules for Agents {
    type State = Agent;
    type Event = AgentEvent;
    type Command = AgentCommand;
    fn evolve(state: Option<Agent>, event: &AgentEvent) -> Option<Agent> {
        evolve(AgentId(id(1)), state, event)
    }
    fn decide(state: Option<&Agent>, command: AgentCommand) -> Result<Vec<AgentEvent>, Refusal> {
        decide::decide(state, command)
    }
}

fn given(events: impl IntoIterator<Item = AgentEvent>) -> Given<Agents> {
    crate::domain::spec::given(events)
}

const OWNER: UserId = UserId(id(2));

fn facts() -> Created {
    Created {
        name: "dev".to_owned(),
        runtime: RuntimeId(id(3)),
        provider: "command".to_owned(),
        instructions: Some(content(4)),
        model: None,
        command: Some(CommandLine {
            program: "make".to_owned(),
            arguments: vec!["-k".to_owned()],
            prompt: PromptVia::Stdin,
        }),
        custom_arguments: Vec::new(),
        max_concurrent_tasks: 6,
        owner: OWNER,
    }
}

/// One of each event; together they are a history.
pub(crate) fn samples() -> Vec<AgentEvent> {
    vec![AgentEvent::Created(facts()), AgentEvent::Updated(everything()), AgentEvent::Archived(Archived {})]
}

fn everything() -> Updated {
    Updated {
        name: Some("Dev".to_owned()),
        runtime: Some(RuntimeId(id(5))),
        instructions: Some(content(6)),
        model: Some("large".to_owned()),
        command: Some(CommandLine {
            program: "ninja".to_owned(),
            arguments: Vec::new(),
            prompt: PromptVia::None,
        }),
        custom_arguments: Some(vec!["--fast".to_owned()]),
        max_concurrent_tasks: Some(2),
    }
}

/// What a change of a `command` agent can hold.
fn asked() -> Updated {
    Updated { model: None, custom_arguments: None, ..everything() }
}

fn update(change: Updated) -> AgentCommand {
    AgentCommand::Update { change, moves_to: Some(Home { provider: "command".to_owned(), owner: OWNER }) }
}

fn create(facts: Created) -> AgentCommand {
    AgentCommand::Create { facts, runtime_owner: Some(OWNER) }
}

#[test]
fn an_agent_is_created_once_and_archived_once() {
    given([]).when(create(facts())).then([AgentEvent::Created(facts())]);
    given([AgentEvent::Created(facts())]).when(create(facts())).then_nothing();
    given(samples()).when(create(facts())).then_refused("agent_exists");
    given([AgentEvent::Created(facts())])
        .when(AgentCommand::Archive)
        .then([AgentEvent::Archived(Archived {})]);
    given(samples()).when(AgentCommand::Archive).then_nothing();
    given([]).when(AgentCommand::Archive).then_refused("not_found");
}

#[test]
fn what_cant_be_an_agent_is_refused_by_name() {
    for name in ["", " dev", "a\nb"] {
        given([]).when(create(Created { name: name.to_owned(), ..facts() })).then_refused("bad_name");
    }
    for max_concurrent_tasks in [0, 51] {
        let odd = Created { max_concurrent_tasks, ..facts() };
        given([]).when(create(odd)).then_refused("bad_max_concurrent_tasks");
    }
    given([]).when(create(Created { command: None, ..facts() })).then_refused("command_missing");
    let claude = Created { provider: "claude".to_owned(), ..facts() };
    given([]).when(create(claude)).then_refused("command_not_wanted");
    let foreign = AgentCommand::Create { facts: facts(), runtime_owner: Some(UserId(id(99))) };
    given([]).when(foreign).then_refused("runtime_not_shared");
    let nowhere = AgentCommand::Create { facts: facts(), runtime_owner: None };
    given([]).when(nowhere).then_refused("not_found");
}

#[test]
fn a_change_is_what_differs_and_nothing_is_no_change() {
    let created = [AgentEvent::Created(facts())];
    let after = given(created.clone()).when(update(asked())).then([AgentEvent::Updated(asked())]);
    let wanted = Created {
        provider: "command".to_owned(),
        owner: OWNER,
        name: "Dev".to_owned(),
        runtime: RuntimeId(id(5)),
        instructions: Some(content(6)),
        model: None,
        command: everything().command,
        custom_arguments: Vec::new(),
        max_concurrent_tasks: 2,
    };
    assert_eq!(after.facts, wanted);
    let updated = [created[0].clone(), AgentEvent::Updated(asked())];
    given(updated.clone()).when(update(asked())).then_nothing();
    // What an agent was made with by an older version is no obstacle to a change.
    let old = [created[0].clone(), AgentEvent::Updated(everything())];
    given(old.clone()).when(update(everything())).then_nothing();
    let renamed = Updated { name: Some("other".to_owned()), ..Updated::default() };
    given(old).when(update(renamed.clone())).then([AgentEvent::Updated(renamed)]);
    given(created.clone()).when(update(Updated::default())).then_nothing();
    let one = Updated { max_concurrent_tasks: Some(3), ..Updated::default() };
    let with_more = Updated { name: Some("dev".to_owned()), ..one.clone() };
    given(created).when(update(with_more)).then([AgentEvent::Updated(one)]);
}

#[test]
fn what_means_nothing_to_an_agent_is_refused_when_it_is_given() {
    let model = || Some("large".to_owned());
    let further = vec!["--fast".to_owned()];
    given([]).when(create(Created { model: model(), ..facts() })).then_refused("not_for_command");
    let with = Created { custom_arguments: further.clone(), ..facts() };
    given([]).when(create(with)).then_refused("not_for_command");
    let claude = Created { provider: "claude".to_owned(), command: None, model: model(), ..facts() };
    given([]).when(create(claude.clone())).then([AgentEvent::Created(claude)]);
    let created = [AgentEvent::Created(facts())];
    for change in [
        Updated { model: model(), ..Updated::default() },
        Updated { custom_arguments: Some(further), ..Updated::default() },
    ] {
        given(created.clone()).when(update(change)).then_refused("not_for_command");
    }
}

#[test]
fn a_program_is_an_absolute_path_or_a_name() {
    let line = |program: &str| CommandLine {
        program: program.to_owned(),
        arguments: Vec::new(),
        prompt: PromptVia::Stdin,
    };
    let created = [AgentEvent::Created(facts())];
    for program in ["./run.sh", "bin/run", "../run", "~/run"] {
        let made = Created { command: Some(line(program)), ..facts() };
        given([]).when(create(made)).then_refused("bad_program");
        let change = Updated { command: Some(line(program)), ..Updated::default() };
        given(created.clone()).when(update(change)).then_refused("bad_program");
    }
    for program in ["/srv/run.sh", "make"] {
        let made = Created { command: Some(line(program)), ..facts() };
        given([]).when(create(made.clone())).then([AgentEvent::Created(made)]);
    }
}

#[test]
fn an_empty_model_and_empty_instructions_take_them_away() {
    let updated = [AgentEvent::Created(facts()), AgentEvent::Updated(everything())];
    let none = ContentRef { bytes: 0, ..content(7) };
    let away = Updated { model: Some(String::new()), instructions: Some(none), ..Updated::default() };
    let after = given(updated.clone()).when(update(away.clone())).then([AgentEvent::Updated(away.clone())]);
    assert_eq!((after.facts.model, after.facts.instructions), (None, None));
    let gone = updated.into_iter().chain([AgentEvent::Updated(away.clone())]);
    given(gone).when(update(away)).then_nothing();
}

#[test]
fn what_an_agent_cant_become_is_refused_by_name() {
    let created = [AgentEvent::Created(facts())];
    let refused = |change: Updated, code| given(created.clone()).when(update(change)).then_refused(code);
    refused(Updated { name: Some(" dev".to_owned()), ..Updated::default() }, "bad_name");
    refused(Updated { max_concurrent_tasks: Some(51), ..Updated::default() }, "bad_max_concurrent_tasks");
    let blank = CommandLine { program: " ".to_owned(), arguments: Vec::new(), prompt: PromptVia::Stdin };
    refused(Updated { command: Some(blank), ..Updated::default() }, "command_missing");
    let moved = Updated { runtime: Some(RuntimeId(id(9))), ..Updated::default() };
    let to = |moves_to| AgentCommand::Update { change: moved.clone(), moves_to };
    let home = |provider: &str, owner| Some(Home { provider: provider.to_owned(), owner });
    given(created.clone()).when(to(None)).then_refused("not_found");
    given(created.clone()).when(to(home("command", UserId(id(99))))).then_refused("runtime_not_shared");
    given(created.clone()).when(to(home("claude", OWNER))).then_refused("provider_differs");
    let claude = Created { provider: "claude".to_owned(), command: None, ..facts() };
    given([AgentEvent::Created(claude)])
        .when(update(Updated { command: facts().command, ..Updated::default() }))
        .then_refused("command_not_wanted");
    given([]).when(update(asked())).then_refused("not_found");
    given(samples()).when(update(asked())).then_refused("agent_archived");
}
