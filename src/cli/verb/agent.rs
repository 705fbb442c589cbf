//! `multica agent`.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use crate::cli::error::{CliError, UsageError};
use crate::cli::output::{read, short};
use crate::cli::session::Session;
use crate::client::api::Call;
use crate::client::http::method::PUT;
use crate::domain::agent::{CommandLine, PromptVia};
use crate::wire::api::{Agent, PlacedRuntime};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum AgentVerb {
    /// Creates an agent.
    Create(Create),
    /// Lists the agents.
    List,
    /// Shows an agent.
    #[command(visible_alias = "show")]
    Get {
        /// Id, four or more characters of it, or the name.
        agent: String,
    },
    /// Changes an agent; what it has claimed already goes on as it was.
    Update(Box<Update>),
    /// Lets an agent take no more tasks.
    Archive {
        /// Id, four or more characters of it, or the name.
        agent: String,
    },
}

/// What an agent is made of, beside its name and its place.
#[derive(Debug, Args)]
pub struct Making {
    /// The program of provider command: an absolute path, or a name to be found on the PATH.
    #[arg(long, value_name = "PROGRAM")]
    command: Option<String>,
    /// An argument of the program; may be given again.
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// How the program gets its prompt.
    #[arg(long, value_enum)]
    prompt: Option<Prompt>,
    /// A further argument for the program of another provider; may be given again.
    #[arg(long = "custom-arg", value_name = "ARG", allow_hyphen_values = true)]
    custom_arguments: Vec<String>,
    /// The model, where the provider has a choice; empty for the provider's own.
    #[arg(long)]
    model: Option<String>,
    /// Standing instructions; empty for none.
    #[arg(long)]
    instructions: Option<String>,
    /// Tasks it runs at once.
    #[arg(long, value_name = "N")]
    max_concurrent_tasks: Option<u32>,
}

/// `agent create`.
#[derive(Debug, Args)]
pub struct Create {
    /// Its name.
    #[arg(long)]
    name: String,
    /// Whose agent it is; command is for any program.
    #[arg(long, value_parser = ["claude", "codex", "opencode", "command"])]
    provider: String,
    /// The daemon on whose machine it runs; any that has the provider otherwise.
    #[arg(long, value_name = "ID")]
    daemon_id: Option<String>,
    #[command(flatten)]
    making: Making,
}

/// `agent update`: what isn't given stays.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").required(true).multiple(true).args(CHANGES))]
pub struct Update {
    /// Id, four or more characters of it, or the name.
    agent: String,
    /// Its new name.
    #[arg(long)]
    name: Option<String>,
    /// The daemon on whose machine it runs from now on.
    #[arg(long, value_name = "ID")]
    daemon_id: Option<String>,
    #[command(flatten)]
    making: Making,
    /// Takes all arguments of the program away.
    #[arg(long, conflicts_with = "arguments")]
    no_args: bool,
    /// Takes all further arguments away.
    #[arg(long, conflicts_with = "custom_arguments")]
    no_custom_args: bool,
}

/// What there is to change: one of them at least.
const CHANGES: [&str; 11] = [
    "name",
    "daemon_id",
    "command",
    "arguments",
    "no_args",
    "prompt",
    "custom_arguments",
    "no_custom_args",
    "model",
    "instructions",
    "max_concurrent_tasks",
];

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Prompt {
    /// On standard input.
    Stdin,
    /// As the last argument.
    Argument,
    /// Not at all: for a program that does the same for every issue, as `make` does.
    None,
}

impl From<Prompt> for PromptVia {
    fn from(prompt: Prompt) -> Self {
        match prompt {
            Prompt::Stdin => Self::Stdin,
            Prompt::Argument => Self::Argument,
            Prompt::None => Self::None,
        }
    }
}

impl Making {
    /// What is given, but for the command line.
    fn members(&self) -> Map<String, Value> {
        let arguments = (!self.custom_arguments.is_empty()).then(|| json!(self.custom_arguments));
        let members = [
            ("model", self.model.clone().map(Value::from)),
            ("instructions", self.instructions.clone().map(Value::from)),
            ("custom_args", arguments),
            ("max_concurrent_tasks", self.max_concurrent_tasks.map(Value::from)),
        ];
        members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }

    /// Whether a part of a command line is given.
    fn has_command(&self) -> bool {
        self.command.is_some() || !self.arguments.is_empty() || self.prompt.is_some()
    }

    /// The command line of a new agent.
    fn command_line(&self, provider: &str) -> Result<Option<CommandLine>, CliError> {
        match (&self.command, provider) {
            (Some(program), "command") => Ok(Some(CommandLine {
                program: program.clone(),
                arguments: self.arguments.clone(),
                prompt: self.prompt.map(PromptVia::from).unwrap_or_default(),
            })),
            (None, "command") => Err(CliError::Usage(UsageError::Command)),
            _ if self.has_command() => Err(CliError::Usage(UsageError::NotCommand)),
            _ => Ok(None),
        }
    }
}

impl Update {
    /// The agent's command line with what is given in its place; none where nothing is.
    fn command_line(&self, agent: &Agent) -> Result<Option<CommandLine>, CliError> {
        if !self.making.has_command() && !self.no_args {
            return Ok(None);
        }
        let Some(now) = agent.command.clone() else {
            return Err(CliError::Usage(UsageError::NoProgram(agent.name.clone())));
        };
        let given = !self.making.arguments.is_empty() || self.no_args;
        Ok(Some(CommandLine {
            program: self.making.command.clone().unwrap_or(now.program),
            arguments: if given { self.making.arguments.clone() } else { now.arguments },
            prompt: self.making.prompt.map_or(now.prompt, PromptVia::from),
        }))
    }
}

pub async fn run(session: &Session, verb: AgentVerb) -> Result<(), CliError> {
    match verb {
        AgentVerb::Create(create) => run_create(session, create).await,
        AgentVerb::List => list(session).await,
        AgentVerb::Get { agent } => get(session, &agent).await,
        AgentVerb::Update(update) => run_update(session, *update).await,
        AgentVerb::Archive { agent } => {
            let found = session.agent(&agent).await?;
            let path = format!("/api/agents/{}/archive", found.id);
            let answer = session.call(Call::post(&path, &json!({}))?).await?;
            session.out.done(&answer, &format!("Archived {}: it takes no more tasks.", found.name))
        }
    }
}

async fn run_create(session: &Session, create: Create) -> Result<(), CliError> {
    let command = create.making.command_line(&create.provider)?;
    let runtime = runtime(session, &create.provider, create.daemon_id.as_deref()).await?;
    let mut body = create.making.members();
    body.insert("name".to_owned(), Value::from(create.name));
    body.insert("runtime_id".to_owned(), json!(runtime.id));
    body.extend(command.map(|line| ("command".to_owned(), json!(line))));
    let made = session.call(Call::post("/api/agents", &Value::Object(body))?).await?;
    let agent: Agent = read(&made)?;
    session.out.done(&made, &format!("Created agent {} ({}).", agent.name, agent.id))
}

async fn run_update(session: &Session, update: Update) -> Result<(), CliError> {
    let found = session.agent(&update.agent).await?;
    let command = update.command_line(&found)?;
    let mut body = update.making.members();
    if let Some(daemon) = &update.daemon_id {
        let runtime = runtime(session, &found.provider, Some(daemon)).await?;
        body.insert("runtime_id".to_owned(), json!(runtime.id));
    }
    if update.no_custom_args {
        body.insert("custom_args".to_owned(), json!([]));
    }
    body.extend(update.name.map(|name| ("name".to_owned(), Value::from(name))));
    body.extend(command.map(|line| ("command".to_owned(), json!(line))));
    let path = format!("/api/agents/{}", found.id);
    let answer = session.call(Call::write(PUT, &path, &Value::Object(body))?).await?;
    let agent: Agent = read(&answer)?;
    let sentence = if agent.updated_at == found.updated_at {
        format!("{} is so already.", agent.name)
    } else {
        format!("Changed {}. Tasks claimed from now on see it.", agent.name)
    };
    session.out.done(&answer, &sentence)
}

/// The runtime of a provider: on the daemon asked for, else one that is online.
async fn runtime(session: &Session, provider: &str, daemon: Option<&str>) -> Result<PlacedRuntime, CliError> {
    let all: Vec<PlacedRuntime> = read(&session.get("/api/runtimes").await?)?;
    let here = |runtime: &&PlacedRuntime| daemon.is_none_or(|daemon| runtime.daemon_id == daemon);
    let mut found: Vec<String> = all.iter().filter(here).map(|runtime| runtime.provider.clone()).collect();
    found.sort_unstable();
    found.dedup();
    if let (Some(daemon), true) = (daemon, found.is_empty()) {
        let mut known: Vec<String> = all.into_iter().map(|runtime| runtime.daemon_id).collect();
        known.sort_unstable();
        known.dedup();
        return Err(CliError::NoSuchDaemon { daemon: daemon.to_owned(), known });
    }
    let fits = |runtime: &PlacedRuntime| {
        runtime.provider == provider && daemon.is_none_or(|daemon| runtime.daemon_id == daemon)
    };
    all.into_iter().filter(fits).min_by_key(|runtime| runtime.status != "online").ok_or_else(|| {
        CliError::NoRuntime { provider: provider.to_owned(), daemon: daemon.map(str::to_owned), found }
    })
}

async fn list(session: &Session) -> Result<(), CliError> {
    let answer = session.get("/api/agents").await?;
    let rows = read::<Vec<Agent>>(&answer)?
        .into_iter()
        .map(|agent| {
            let (id, most) = (short(&agent.id.to_string()), agent.max_concurrent_tasks.to_string());
            vec![id, agent.name, agent.provider, agent.status, agent.model.unwrap_or_default(), most]
        })
        .collect();
    let headers = ["id", "name", "provider", "status", "model", "at once"];
    session.out.list(&answer, &headers, rows, "No agent yet: `multica agent create --name N --provider P`.")
}

async fn get(session: &Session, reference: &str) -> Result<(), CliError> {
    let found = session.agent(reference).await?;
    let answer = session.get(&format!("/api/agents/{}", found.id)).await?;
    let agent: Agent = read(&answer)?;
    let words = |words: &[String]| if words.is_empty() { String::new() } else { json!(words).to_string() };
    let (program, arguments) =
        agent.command.map(|line| (line.program, words(&line.arguments))).unwrap_or_default();
    session.out.fields(
        &answer,
        &[
            ("ID", agent.id.to_string()),
            ("NAME", agent.name),
            ("PROVIDER", agent.provider),
            ("RUNTIME", agent.runtime_id.to_string()),
            ("STATUS", agent.status),
            ("MODEL", agent.model.unwrap_or_default()),
            ("PROGRAM", program),
            ("ARGUMENTS", arguments),
            ("FURTHER ARGUMENTS", words(&agent.custom_args)),
            ("AT ONCE", agent.max_concurrent_tasks.to_string()),
            ("INSTRUCTIONS", agent.instructions),
            ("CREATED", session.out.since(agent.created_at)),
            ("ARCHIVED", session.out.since(agent.archived_at)),
        ],
    )
}
