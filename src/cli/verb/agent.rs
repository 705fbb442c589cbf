//! `multica agent`.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::cli::error::{CliError, UsageError};
use crate::cli::output::{items, short, text};
use crate::cli::session::Session;
use crate::client::api::{Call, segment};

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
    /// Lets an agent take no more tasks.
    Archive {
        /// Id, four or more characters of it, or the name.
        agent: String,
    },
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
    /// The program of provider command.
    #[arg(long, value_name = "PROGRAM")]
    command: Option<String>,
    /// An argument of the program; may be given again.
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// How the program gets its prompt.
    #[arg(long, value_enum)]
    prompt: Option<Prompt>,
    /// The model, where the provider has a choice.
    #[arg(long)]
    model: Option<String>,
    /// Standing instructions.
    #[arg(long)]
    instructions: Option<String>,
    /// Tasks it runs at once.
    #[arg(long, value_name = "N")]
    max_concurrent_tasks: Option<u32>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Prompt {
    /// On standard input.
    Stdin,
    /// As the last argument.
    Argument,
    /// Not at all: for a program that does the same for every issue, as `make` does.
    None,
}

pub async fn run(session: &Session, verb: AgentVerb) -> Result<(), CliError> {
    match verb {
        AgentVerb::Create(create) => run_create(session, create).await,
        AgentVerb::List => list(session).await,
        AgentVerb::Get { agent } => get(session, &agent).await,
        AgentVerb::Archive { agent } => {
            let found = session.agent(&agent).await?;
            let path = format!("/api/agents/{}/archive", segment(&text(&found, "id")));
            let answer = session.call(Call::post(&path, &json!({}))?).await?;
            session.out.done(&answer, &format!("Archived {}: it takes no more tasks.", text(&found, "name")))
        }
    }
}

async fn run_create(session: &Session, create: Create) -> Result<(), CliError> {
    let command = command_line(&create)?;
    let runtime = runtime(session, &create.provider, create.daemon_id.as_deref()).await?;
    let mut body = json!({"name": create.name, "runtime_id": text(&runtime, "id")});
    let extra = [
        ("model", create.model.map(Value::from)),
        ("instructions", create.instructions.map(Value::from)),
        ("max_concurrent_tasks", create.max_concurrent_tasks.map(Value::from)),
        ("command", command),
    ];
    for (key, value) in extra {
        if let Some(value) = value {
            body[key] = value;
        }
    }
    let made = session.call(Call::post("/api/agents", &body)?).await?;
    let sentence = format!("Created agent {} ({}).", text(&made, "name"), text(&made, "id"));
    session.out.done(&made, &sentence)
}

fn command_line(create: &Create) -> Result<Option<Value>, CliError> {
    let prompt = match create.prompt {
        Some(Prompt::Argument) => "argument",
        Some(Prompt::None) => "none",
        Some(Prompt::Stdin) | None => "stdin",
    };
    match (&create.command, create.provider.as_str()) {
        (Some(program), "command") => {
            Ok(Some(json!({"program": program, "arguments": create.arguments, "prompt": prompt})))
        }
        (None, "command") => Err(CliError::Usage(UsageError::Command)),
        (None, _) if create.arguments.is_empty() && create.prompt.is_none() => Ok(None),
        _ => Err(CliError::Usage(UsageError::NotCommand)),
    }
}

/// The runtime of a provider: on the daemon asked for, else one that is online.
async fn runtime(session: &Session, provider: &str, daemon: Option<&str>) -> Result<Value, CliError> {
    let answer = session.get("/api/runtimes").await?;
    let all = items(&answer, "runtimes");
    let fits =
        |r: &&Value| text(r, "provider") == provider && daemon.is_none_or(|d| text(r, "daemon_id") == d);
    let mut candidates: Vec<&Value> = all.iter().filter(fits).collect();
    candidates.sort_by_key(|r| text(r, "status") != "online");
    candidates.first().map(|found| (*found).clone()).ok_or_else(|| {
        let mut found: Vec<String> = all.iter().map(|r| text(r, "provider")).collect();
        found.sort_unstable();
        found.dedup();
        CliError::NoRuntime { provider: provider.to_owned(), daemon: daemon.map(str::to_owned), found }
    })
}

async fn list(session: &Session) -> Result<(), CliError> {
    let answer = session.get("/api/agents").await?;
    let rows = items(&answer, "agents")
        .iter()
        .map(|a| {
            vec![
                short(&text(a, "id")),
                text(a, "name"),
                text(a, "provider"),
                text(a, "status"),
                text(a, "model"),
                text(a, "max_concurrent_tasks"),
            ]
        })
        .collect();
    let headers = ["id", "name", "provider", "status", "model", "at once"];
    session.out.list(&answer, &headers, rows, "No agent yet: `multica agent create --name N --provider P`.")
}

async fn get(session: &Session, reference: &str) -> Result<(), CliError> {
    let found = session.agent(reference).await?;
    let agent = session.get(&format!("/api/agents/{}", segment(&text(&found, "id")))).await?;
    session.out.fields(
        &agent,
        &[
            ("ID", text(&agent, "id")),
            ("NAME", text(&agent, "name")),
            ("PROVIDER", text(&agent, "provider")),
            ("RUNTIME", text(&agent, "runtime_id")),
            ("STATUS", text(&agent, "status")),
            ("MODEL", text(&agent, "model")),
            ("PROGRAM", text(&agent, "command.program")),
            ("ARGUMENTS", text(&agent, "command.arguments")),
            ("AT ONCE", text(&agent, "max_concurrent_tasks")),
            ("INSTRUCTIONS", text(&agent, "instructions")),
            ("ARCHIVED", text(&agent, "archived_at")),
        ],
    )
}
