//! What an agent allows.

use super::command::{AgentCommand, Home};
use super::event::{AgentEvent, Archived, CommandLine, Created, Updated};
use super::state::Agent;
use crate::domain::{ContentRef, Refusal, RefusalKind};
use crate::kernel::ids::UserId;
use crate::kernel::text::is_steering;

/// The provider that starts any program.
pub const COMMAND_PROVIDER: &str = "command";

/// Longest name, bytes: it stands in branch names and table columns.
const NAME_BYTES: usize = 64;

/// What is refused, or what happens: no events when nothing does.
pub type Decision = Result<Vec<AgentEvent>, Refusal>;

/// Decides one command on one agent; `None` is one that doesn't exist yet.
///
/// # Errors
/// `not_found`, `agent_exists`, `bad_name`, `bad_max_concurrent_tasks`, `command_missing`,
/// `command_not_wanted`, `bad_program`, `not_for_command`, `runtime_not_shared`, `agent_archived`,
/// `provider_differs`.
pub fn decide(agent: Option<&Agent>, command: AgentCommand) -> Decision {
    match (agent, command) {
        (None, AgentCommand::Create { facts, runtime_owner }) => create(facts, runtime_owner),
        (None, AgentCommand::Update { .. } | AgentCommand::Archive) => Err(Refusal::not_found("agent")),
        (Some(agent), AgentCommand::Create { facts, .. }) => {
            if !agent.archived && agent.facts == facts {
                return Ok(Vec::new());
            }
            Err(Refusal::conflict(
                "agent_exists",
                "an agent with this id exists already",
                "Create another one with a fresh id.",
            ))
        }
        (Some(agent), AgentCommand::Update { change, moves_to }) => update(agent, change, moves_to),
        (Some(agent), AgentCommand::Archive) => {
            Ok(if agent.archived { Vec::new() } else { vec![AgentEvent::Archived(Archived {})] })
        }
    }
}

fn create(facts: Created, runtime_owner: Option<UserId>) -> Decision {
    valid(&facts)?;
    serves(runtime_owner, facts.owner)?;
    command_fits(&facts)?;
    can_be_found(facts.command.as_ref())?;
    means_something(&facts.provider, facts.model.as_deref(), &facts.custom_arguments)?;
    Ok(vec![AgentEvent::Created(facts)])
}

fn update(agent: &Agent, asked: Updated, moves_to: Option<Home>) -> Decision {
    if agent.archived {
        return Err(Refusal::conflict(
            "agent_archived",
            "the agent is archived and takes no more tasks: there is nothing to change",
            "Create another agent.",
        ));
    }
    let now = &agent.facts;
    let model = now.model.as_deref().unwrap_or_default();
    let has_instructions = |text: &ContentRef| text.bytes > 0 || now.instructions.is_some();
    let change = Updated {
        name: asked.name.filter(|name| *name != now.name),
        runtime: asked.runtime.filter(|runtime| *runtime != now.runtime),
        instructions: asked
            .instructions
            .filter(|text| Some(text) != now.instructions.as_ref() && has_instructions(text)),
        model: asked.model.filter(|asked| asked != model),
        command: asked.command.filter(|command| Some(command) != now.command.as_ref()),
        custom_arguments: asked.custom_arguments.filter(|arguments| *arguments != now.custom_arguments),
        max_concurrent_tasks: asked.max_concurrent_tasks.filter(|most| *most != now.max_concurrent_tasks),
    };
    if change == Updated::default() {
        return Ok(Vec::new());
    }
    let next = now.clone().with(&change);
    valid(&next)?;
    if change.runtime.is_some() {
        serves(moves_to.as_ref().map(|home| home.owner), now.owner)?;
        if let Some(other) = moves_to.filter(|home| home.provider != now.provider) {
            return Err(Refusal::conflict(
                "provider_differs",
                format!("the agent is of provider `{}`, that runtime of `{}`", now.provider, other.provider),
                "Choose a runtime of the same provider, or create another agent.",
            ));
        }
    }
    command_fits(&next)?;
    // What an agent was made with once stays; what is given now has to mean something.
    can_be_found(change.command.as_ref())?;
    let further = change.custom_arguments.as_deref().unwrap_or_default();
    means_something(&now.provider, change.model.as_deref(), further)?;
    Ok(vec![AgentEvent::Updated(change)])
}

fn valid(facts: &Created) -> Result<(), Refusal> {
    let name = facts.name.trim();
    if name.is_empty() || name != facts.name || name.len() > NAME_BYTES || name.chars().any(is_steering) {
        return Err(Refusal::invalid(
            "bad_name",
            "an agent's name has 1 to 64 bytes, no control characters and no blanks around it",
            "Choose another name.",
        ));
    }
    if !(1..=50).contains(&facts.max_concurrent_tasks) {
        return Err(Refusal::invalid(
            "bad_max_concurrent_tasks",
            "an agent runs 1 to 50 tasks at once",
            "Choose a number from 1 to 50.",
        ));
    }
    Ok(())
}

/// A runtime serves its owner's agents.
fn serves(runtime_owner: Option<UserId>, agent_owner: UserId) -> Result<(), Refusal> {
    let Some(owner) = runtime_owner else { return Err(Refusal::not_found("runtime")) };
    if owner != agent_owner {
        return Err(Refusal::new(
            RefusalKind::Forbidden,
            "runtime_not_shared",
            "this runtime belongs to another member and serves only that member's agents",
            "Choose a runtime of your own daemon (`multica daemon list`).",
        ));
    }
    Ok(())
}

/// A relative path means another program in each directory: none is started by one.
fn can_be_found(command: Option<&CommandLine>) -> Result<(), Refusal> {
    let Some(program) = command.map(|line| line.program.as_str()) else { return Ok(()) };
    if program.starts_with('/') || !program.contains('/') {
        return Ok(());
    }
    Err(Refusal::invalid(
        "bad_program",
        format!("the program `{program}` is neither an absolute path nor a name to be found on the PATH"),
        "Give its absolute path; a script that lies in each directory is started with `--command sh --arg PATH`.",
    ))
}

/// Provider `command` starts any program: it has no model to choose, and all its arguments are its own.
fn means_something(provider: &str, model: Option<&str>, further: &[String]) -> Result<(), Refusal> {
    let given = match (model.is_some_and(|model| !model.is_empty()), further.is_empty()) {
        (true, _) => "a model",
        (false, false) => "further arguments",
        (false, true) => return Ok(()),
    };
    if provider != COMMAND_PROVIDER {
        return Ok(());
    }
    Err(Refusal::invalid(
        "not_for_command",
        format!("an agent of provider `command` has no use for {given}"),
        "Give the program's own arguments (`--arg`), or choose another provider.",
    ))
}

fn command_fits(facts: &Created) -> Result<(), Refusal> {
    let is_command = facts.provider == COMMAND_PROVIDER;
    let has_program = facts.command.as_ref().is_some_and(|line| !line.program.trim().is_empty());
    if is_command && !has_program {
        return Err(Refusal::invalid(
            "command_missing",
            "an agent of provider `command` needs the program that it starts",
            "Give the program and its arguments.",
        ));
    }
    if !is_command && facts.command.is_some() {
        return Err(Refusal::invalid(
            "command_not_wanted",
            format!("provider `{}` starts its own program", facts.provider),
            "Leave the command out, or choose a runtime of provider `command`.",
        ));
    }
    Ok(())
}
