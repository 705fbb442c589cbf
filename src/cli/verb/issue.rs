//! `multica issue`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::error::{CliError, UsageError};
use crate::cli::output::{items, text};
use crate::cli::session::Session;
use crate::client::api::{Call, segment};
use crate::client::http::method::PUT;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum IssueVerb {
    /// Creates an issue; with an agent as assignee, its first task starts.
    Create(Create),
    /// Lists the issues.
    List {
        /// Only those of a project.
        #[arg(long)]
        project: Option<String>,
        /// Only those with a status.
        #[arg(long)]
        status: Option<String>,
    },
    /// Shows an issue and its tasks.
    Get {
        /// KEY-n, or the id.
        issue: String,
    },
    /// Sets the status.
    Status {
        /// KEY-n, or the id.
        issue: String,
        /// backlog, todo, in_progress, in_review, done, blocked, cancelled.
        status: String,
    },
    /// Sets the assignee; an agent starts on it.
    Assign {
        /// KEY-n, or the id.
        issue: String,
        /// The agent, by name or id.
        #[arg(long, value_name = "AGENT", required_unless_present = "unassign")]
        to: Option<String>,
        /// Takes the assignee away.
        #[arg(long, conflicts_with = "to")]
        unassign: bool,
    },
    /// Starts a fresh task of the assignee.
    Rerun {
        /// KEY-n, or the id.
        issue: String,
    },
    /// Comments.
    #[command(subcommand)]
    Comment(CommentVerb),
}

/// `issue create`.
#[derive(Debug, Args)]
pub struct Create {
    /// What is to be done, in a line.
    #[arg(long)]
    title: String,
    /// What is to be done, in full.
    #[arg(long)]
    description: Option<String>,
    /// Reads the description from standard input.
    #[arg(long, conflicts_with = "description")]
    description_stdin: bool,
    /// The project.
    #[arg(long)]
    project: Option<String>,
    /// The agent that is to do it, by name or id.
    #[arg(long, value_name = "AGENT")]
    assignee: Option<String>,
    /// none, low, medium, high, urgent.
    #[arg(long)]
    priority: Option<String>,
    /// todo unless said otherwise; backlog starts nothing.
    #[arg(long)]
    status: Option<String>,
}

/// The verbs of comments.
#[derive(Debug, Subcommand)]
pub enum CommentVerb {
    /// Adds a comment; the assigned agent reads it.
    Add {
        /// KEY-n, or the id.
        issue: String,
        /// The text.
        #[arg(long, required_unless_present = "content_stdin")]
        content: Option<String>,
        /// Reads the text from standard input.
        #[arg(long, conflicts_with = "content")]
        content_stdin: bool,
    },
    /// Lists the comments, oldest first.
    List {
        /// KEY-n, or the id.
        issue: String,
    },
}

pub async fn run(session: &Session, verb: IssueVerb) -> Result<(), CliError> {
    match verb {
        IssueVerb::Create(create) => run_create(session, create).await,
        IssueVerb::List { project, status } => list(session, project, status).await,
        IssueVerb::Get { issue } => get(session, &issue).await,
        IssueVerb::Status { issue, status } => {
            let answer = put(session, &issue, &json!({"status": status})).await?;
            session
                .out
                .done(&answer, &format!("{} is {}.", text(&answer, "identifier"), text(&answer, "status")))
        }
        IssueVerb::Assign { issue, to, .. } => assign(session, &issue, to).await,
        IssueVerb::Rerun { issue } => {
            let path = format!("/api/issues/{}/rerun", segment(&issue));
            let task = session.call(Call::post(&path, &json!({}))?).await?;
            session.out.done(&task, &format!("Queued {}.", task_name(&task)))
        }
        IssueVerb::Comment(verb) => comment(session, verb).await,
    }
}

async fn run_create(session: &Session, create: Create) -> Result<(), CliError> {
    let mut body = json!({"title": create.title});
    let description =
        if create.description_stdin { Some(stdin_text(session).await?) } else { create.description };
    let plain = [("description", description), ("priority", create.priority), ("status", create.status)];
    for (key, value) in plain {
        if let Some(value) = value {
            body[key] = Value::from(value);
        }
    }
    if let Some(project) = &create.project {
        body["project_id"] = Value::from(text(&session.project(project).await?, "id"));
    }
    if let Some(agent) = &create.assignee {
        body["assignee_type"] = Value::from("agent");
        body["assignee_id"] = Value::from(text(&session.agent(agent).await?, "id"));
    }
    let made = session.call(Call::post("/api/issues", &body)?).await?;
    let sentence = format!("Created {}: {}", text(&made, "identifier"), text(&made, "title"));
    session.out.done(&made, &sentence)
}

async fn list(session: &Session, project: Option<String>, status: Option<String>) -> Result<(), CliError> {
    let project = match project {
        Some(reference) => Some(text(&session.project(&reference).await?, "id")),
        None => None,
    };
    let call = Call::get("/api/issues")
        .query_some("project_id", project.as_deref())
        .query_some("status", status.as_deref());
    let answer = session.call(call).await?;
    if session.out.is_json() {
        return session.out.json(&answer);
    }
    let agents = session.get("/api/agents").await?;
    let name = |issue: &Value| {
        let id = text(issue, "assignee_id");
        let agent = items(&agents, "agents").iter().find(|agent| text(agent, "id") == id);
        agent.map_or_else(|| text(issue, "assignee_type"), |agent| text(agent, "name"))
    };
    let rows = items(&answer, "issues")
        .iter()
        .map(|i| {
            vec![
                text(i, "identifier"),
                text(i, "title"),
                text(i, "status"),
                text(i, "priority"),
                name(i),
                session.out.ago(&text(i, "updated_at")),
            ]
        })
        .collect();
    let headers = ["key", "title", "status", "priority", "assignee", "changed"];
    session.out.list(&answer, &headers, rows, "No issue yet: `multica issue create --title T`.")
}

async fn get(session: &Session, issue: &str) -> Result<(), CliError> {
    let base = format!("/api/issues/{}", segment(issue));
    let found = session.get(&base).await?;
    let runs = session.get(&format!("{base}/task-runs")).await?;
    let lines: Vec<String> = items(&runs, "tasks")
        .iter()
        .map(|t| {
            format!("{}  {}  {}", task_name(t), text(t, "status"), session.out.ago(&text(t, "created_at")))
        })
        .collect();
    let mut whole = found.clone();
    whole["task_runs"] = runs.clone();
    session.out.fields(
        &whole,
        &[
            ("KEY", text(&found, "identifier")),
            ("ID", text(&found, "id")),
            ("TITLE", text(&found, "title")),
            ("STATUS", text(&found, "status")),
            ("PRIORITY", text(&found, "priority")),
            ("ASSIGNEE", text(&found, "assignee_name")),
            ("PROJECT", text(&found, "project_id")),
            ("DESCRIPTION", text(&found, "description")),
            ("TASKS", lines.join("\n")),
            ("CREATED", session.out.ago(&text(&found, "created_at"))),
        ],
    )
}

async fn assign(session: &Session, issue: &str, to: Option<String>) -> Result<(), CliError> {
    let Some(reference) = to else {
        let answer = put(session, issue, &json!({"assignee_type": null, "assignee_id": null})).await?;
        return session.out.done(&answer, &format!("{} has no assignee now.", text(&answer, "identifier")));
    };
    let agent = session.agent(&reference).await?;
    let body = json!({"assignee_type": "agent", "assignee_id": text(&agent, "id")});
    let answer = put(session, issue, &body).await?;
    session.out.done(&answer, &format!("{} is {}'s.", text(&answer, "identifier"), text(&agent, "name")))
}

async fn put(session: &Session, issue: &str, body: &Value) -> Result<Value, CliError> {
    session.call(Call::write(PUT, &format!("/api/issues/{}", segment(issue)), body)?).await
}

async fn comment(session: &Session, verb: CommentVerb) -> Result<(), CliError> {
    match verb {
        CommentVerb::Add { issue, content, content_stdin } => {
            let content =
                if content_stdin { stdin_text(session).await? } else { content.unwrap_or_default() };
            if content.trim().is_empty() {
                return Err(CliError::Usage(UsageError::Text));
            }
            let path = format!("/api/issues/{}/comments", segment(&issue));
            let made = session.call(Call::post(&path, &json!({"content": content}))?).await?;
            session.out.done(&made, &format!("Commented on {issue}."))
        }
        CommentVerb::List { issue } => {
            let answer = session.get(&format!("/api/issues/{}/comments", segment(&issue))).await?;
            let rows = items(&answer, "comments")
                .iter()
                .map(|c| {
                    let name = text(c, "author_name");
                    let author = if name.is_empty() { text(c, "author_type") } else { name };
                    vec![session.out.ago(&text(c, "created_at")), author, text(c, "content")]
                })
                .collect();
            session.out.list(&answer, &["when", "author", "content"], rows, "No comment yet.")
        }
    }
}

/// People's name of a task, or its id where the server gives none.
pub fn task_name(task: &Value) -> String {
    let name = text(task, "name");
    if name.is_empty() { text(task, "id") } else { name }
}

async fn stdin_text(session: &Session) -> Result<String, CliError> {
    use tokio::io::AsyncReadExt;
    let mut bytes = Vec::new();
    // One byte more than the server takes: it says so, and a stream without end isn't read for ever.
    let most = u64::try_from(session.limits.content_bytes).unwrap_or(u64::MAX).saturating_add(1);
    tokio::io::stdin().take(most).read_to_end(&mut bytes).await.map_err(CliError::Output)?;
    let text = crate::kernel::text::lossy(&bytes);
    if text.trim().is_empty() { Err(CliError::Usage(UsageError::Text)) } else { Ok(text) }
}
