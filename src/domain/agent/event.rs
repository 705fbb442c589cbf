//! What can happen to an agent.

use serde::{Deserialize, Serialize};

use crate::domain::ContentRef;
use crate::kernel::ids::{RuntimeId, UserId};

/// How a `command` agent gets its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PromptVia {
    /// On standard input, then end of file.
    #[default]
    Stdin,
    /// As the last argument; standard input is empty.
    Argument,
    /// Not at all: the program does the same for every issue, and reads the context files if it likes.
    None,
}

/// What provider `command` starts. No shell takes part.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CommandLine {
    /// Absolute, or found on the directory owner's PATH.
    pub program: String,
    /// Arguments before the prompt.
    pub arguments: Vec<String>,
    /// How the prompt is given.
    pub prompt: PromptVia,
}

/// What happened to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum AgentEvent {
    /// It was created.
    Created(Created),
    /// Something about it changed; absent fields kept their value.
    Updated(Updated),
    /// It takes no more tasks.
    Archived(Archived),
}

/// See [`AgentEvent::Created`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Created {
    /// Its name, unique in the workspace without regard to case.
    pub name: String,
    /// The runtime its tasks run on.
    pub runtime: RuntimeId,
    /// The runtime's provider: claude, codex, opencode, command.
    pub provider: String,
    /// Standing instructions.
    pub instructions: Option<ContentRef>,
    /// The model asked for, where the provider has a choice.
    pub model: Option<String>,
    /// For provider `command`: what is started.
    pub command: Option<CommandLine>,
    /// Further arguments for the provider's CLI.
    pub custom_arguments: Vec<String>,
    /// Tasks it runs at once, 1 to 50.
    pub max_concurrent_tasks: u32,
    /// The member it belongs to.
    pub owner: UserId,
}

/// See [`AgentEvent::Updated`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Updated {
    /// The new name.
    pub name: Option<String>,
    /// The new runtime, of the same provider.
    pub runtime: Option<RuntimeId>,
    /// The new standing instructions; an empty text for none.
    pub instructions: Option<ContentRef>,
    /// The new model; empty for the provider's own choice.
    pub model: Option<String>,
    /// What is started now, whole.
    pub command: Option<CommandLine>,
    /// All further arguments for the provider's CLI.
    pub custom_arguments: Option<Vec<String>>,
    /// Tasks it runs at once now.
    pub max_concurrent_tasks: Option<u32>,
}

/// See [`AgentEvent::Archived`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Archived {}
