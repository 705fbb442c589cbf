//! The agent's rules, given / when / then.

use super::evolve::evolve;
use super::*;
use crate::domain::Refusal;
use crate::domain::spec::{Given, Rules, content, id};
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
    vec![AgentEvent::Created(facts()), AgentEvent::Archived(Archived {})]
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
