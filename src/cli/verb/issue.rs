//! `multica issue`.

use std::collections::BTreeMap;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cli::error::{CliError, UsageError};
use crate::cli::output::{read, text};
use crate::cli::session::Session;
use crate::client::api::{Call, segment};
use crate::client::http::method::PUT;
use crate::domain::issue::state::STATUSES;
use crate::kernel::text::written;
use crate::wire::api::{Agent, Comment, Issue, Member, Task};

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
        #[arg(long, value_parser = statuses())]
        status: Option<String>,
    },
    /// Shows an issue and its tasks.
    #[command(visible_alias = "show")]
    Get {
        /// KEY-n, or the id.
        issue: String,
    },
    /// Sets the status.
    Status {
        /// KEY-n, or the id.
        issue: String,
        /// The new one.
        #[arg(value_parser = statuses())]
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

/// The statuses of issues, for help and completion.
fn statuses() -> PossibleValuesParser {
    PossibleValuesParser::new(STATUSES)
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
    #[arg(long, value_parser = statuses())]
    status: Option<String>,
}

/// The verbs of comments.
#[derive(Debug, Subcommand)]
pub enum CommentVerb {
    /// Adds a comment. It starts nothing: the issue's next task is given all comments (`multica issue rerun`).
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
            let issue: Issue = read(&answer)?;
            session.out.done(&answer, &format!("{} is {}.", issue.identifier, issue.status))
        }
        IssueVerb::Assign { issue, to, .. } => assign(session, &issue, to).await,
        IssueVerb::Rerun { issue } => {
            let path = format!("/api/issues/{}/rerun", segment(&issue));
            let answer = session.call(Call::post(&path, &json!({}))?).await?;
            let task: Task = read(&answer)?;
            session.out.done(&answer, &format!("Queued {}.", task.name))
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
        body["project_id"] = json!(session.project(project).await?.id);
    }
    if let Some(agent) = &create.assignee {
        body["assignee_type"] = Value::from("agent");
        body["assignee_id"] = json!(session.agent(agent).await?.id);
    }
    let made = session.call(Call::post("/api/issues", &body)?).await?;
    let issue: Issue = read(&made)?;
    session.out.done(&made, &format!("Created {}: {}", issue.identifier, issue.title))
}

async fn list(session: &Session, project: Option<String>, status: Option<String>) -> Result<(), CliError> {
    let project = match project {
        Some(reference) => Some(session.project(&reference).await?.id.to_string()),
        None => None,
    };
    let call = Call::get("/api/issues")
        .query_some("project_id", project.as_deref())
        .query_some("status", status.as_deref());
    let answer = session.call(call).await?;
    if session.out.is_json() {
        return session.out.json(&answer);
    }
    let issues: Vec<Issue> = read(&answer["issues"])?;
    let names = Names::load(session, issues.first()).await?;
    let last = last_tasks(session, issues.first()).await?;
    let rows = issues
        .into_iter()
        .map(|issue| {
            let (assignee, changed) = (names.assignee(&issue), session.out.since(issue.updated_at));
            let task = last.get(&issue.id.0).cloned().unwrap_or_default();
            vec![issue.identifier, issue.title, issue.status, issue.priority, assignee, task, changed]
        })
        .collect();
    let headers = ["key", "title", "status", "priority", "assignee", "last task", "changed"];
    session.out.list(&answer, &headers, rows, "No issue yet: `multica issue create --title T`.")
}

/// What the newest task of each issue is: an issue's own status is set by people and agents.
async fn last_tasks(session: &Session, issue: Option<&Issue>) -> Result<BTreeMap<Uuid, String>, CliError> {
    let mut last = BTreeMap::new();
    if issue.is_none() {
        return Ok(last);
    }
    let answer = session.call(Call::get("/api/tasks").query("limit", 1_000)).await?;
    let tasks: Vec<Task> = read(&answer["tasks"])?;
    for task in tasks {
        // Newest first.
        let run = task.name.rsplit_once('#').map_or("", |(_, run)| run);
        last.entry(task.issue_id.0).or_insert_with(|| format!("#{run} {}", task.status));
    }
    Ok(last)
}

async fn get(session: &Session, reference: &str) -> Result<(), CliError> {
    let base = format!("/api/issues/{}", segment(reference));
    let mut whole = session.get(&base).await?;
    let issue: Issue = read(&whole)?;
    let runs = session.get(&format!("{base}/task-runs")).await?;
    let tasks: Vec<Task> = read(&runs)?;
    whole["task_runs"] = runs;
    let names = Names::load(session, Some(&issue)).await?;
    let project = match issue.project_id {
        Some(id) => project_title(session, id.0).await,
        None => String::new(),
    };
    let since = |at| session.out.since(at);
    let line = |task: &Task| format!("{}  {}  {}", task.name, task.status, since(task.created_at));
    session.out.fields(
        &whole,
        &[
            ("KEY", issue.identifier.clone()),
            ("ID", issue.id.to_string()),
            ("TITLE", issue.title.clone()),
            ("STATUS", issue.status.clone()),
            ("PRIORITY", issue.priority.clone()),
            ("ASSIGNEE", names.assignee(&issue)),
            ("PROJECT", project),
            ("DESCRIPTION", issue.description.clone().unwrap_or_default()),
            ("TASKS", tasks.iter().map(line).collect::<Vec<_>>().join("\n")),
            ("CREATED", since(issue.created_at)),
        ],
    )
}

/// What people call a project; its id where that can't be read, as of one that is deleted.
async fn project_title(session: &Session, id: Uuid) -> String {
    match session.get(&format!("/api/projects/{id}")).await {
        Ok(project) => text(&project, "title"),
        Err(_) => id.to_string(),
    }
}

/// What agents and members are called.
struct Names(BTreeMap<Uuid, String>);

impl Names {
    /// Those of an issue's workspace; none where there is no issue to name them for.
    async fn load(session: &Session, issue: Option<&Issue>) -> Result<Self, CliError> {
        let Some(issue) = issue else { return Ok(Self(BTreeMap::new())) };
        let agents = session.call(Call::get("/api/agents").query("include_archived", true)).await?;
        let members = session.get(&format!("/api/workspaces/{}/members", issue.workspace_id)).await?;
        let agents = read::<Vec<Agent>>(&agents)?.into_iter().map(|agent| (agent.id.0, agent.name));
        let members = read::<Vec<Member>>(&members)?.into_iter().map(|member| (member.id.0, member.name));
        Ok(Self(agents.chain(members).collect()))
    }

    fn of(&self, id: Uuid, kind: &str) -> String {
        self.0.get(&id).cloned().unwrap_or_else(|| kind.to_owned())
    }

    fn assignee(&self, issue: &Issue) -> String {
        let kind = issue.assignee_type.as_deref().unwrap_or_default();
        issue.assignee_id.map(|id| self.of(id, kind)).unwrap_or_default()
    }
}

async fn assign(session: &Session, issue: &str, to: Option<String>) -> Result<(), CliError> {
    let Some(reference) = to else {
        let answer = put(session, issue, &json!({"assignee_type": null, "assignee_id": null})).await?;
        let issue: Issue = read(&answer)?;
        return session.out.done(&answer, &format!("{} has no assignee now.", issue.identifier));
    };
    let agent = session.agent(&reference).await?;
    let body = json!({"assignee_type": "agent", "assignee_id": agent.id});
    let answer = put(session, issue, &body).await?;
    let issue: Issue = read(&answer)?;
    session.out.done(&answer, &format!("{} is {}'s.", issue.identifier, agent.name))
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
            let base = format!("/api/issues/{}", segment(&issue));
            let answer = session.get(&format!("{base}/comments")).await?;
            let comments: Vec<Comment> = read(&answer)?;
            let about: Issue = read(&session.get(&base).await?)?;
            let names = Names::load(session, comments.first().map(|_| &about)).await?;
            let rows = comments
                .into_iter()
                .map(|comment| {
                    let author = names.of(comment.author_id, &comment.author_type);
                    vec![session.out.since(comment.created_at), author, comment.content]
                })
                .collect();
            session.out.list(&answer, &["when", "author", "content"], rows, "No comment yet.")
        }
    }
}

async fn stdin_text(session: &Session) -> Result<String, CliError> {
    use tokio::io::AsyncReadExt;
    let mut bytes = Vec::new();
    // One character more than the server takes: it says so, and a stream without end isn't read for ever.
    let most = session.limits.content_bytes.saturating_add(char::MAX.len_utf8());
    let bound = u64::try_from(most).unwrap_or(u64::MAX);
    tokio::io::stdin().take(bound).read_to_end(&mut bytes).await.map_err(CliError::Output)?;
    let text = written(&bytes, most).map_err(|unkept| CliError::Usage(UsageError::Unkept(unkept)))?;
    if text.trim().is_empty() { Err(CliError::Usage(UsageError::Text)) } else { Ok(text.to_owned()) }
}
