//! `multica task` and `multica feed`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::issue::task_name;
use crate::cli::error::CliError;
use crate::cli::output::{escaped, items, line, note, patiently, short, text};
use crate::cli::session::Session;
use crate::cli::story;
use crate::client::api::{Call, segment};
use crate::client::feed::{Feed, FeedItem};

/// The verbs. A task is KEY-n#run, its id, or a unique head or tail of the id.
#[derive(Debug, Subcommand)]
pub enum TaskVerb {
    /// Lists the tasks that aren't over.
    List(List),
    /// Shows a task.
    Show {
        /// KEY-n#run, or the id or a part of it.
        task: String,
    },
    /// Says why a task is where it is, and what would change that.
    Explain {
        /// KEY-n#run, or the id or a part of it.
        task: String,
    },
    /// Tells a task's whole story, in order.
    History {
        /// KEY-n#run, or the id or a part of it.
        task: String,
    },
    /// Prints what the agent said and did.
    Logs {
        /// KEY-n#run, or the id or a part of it.
        task: String,
        /// Goes on until the task is over.
        #[arg(short, long)]
        follow: bool,
    },
    /// Cancels a task.
    Cancel {
        /// KEY-n#run, or the id or a part of it.
        task: String,
    },
}

/// `task list`.
#[derive(Debug, Args)]
pub struct List {
    /// Also those that are over.
    #[arg(long)]
    all: bool,
    /// Only those of a project.
    #[arg(long)]
    project: Option<String>,
    /// Only those of an agent.
    #[arg(long)]
    agent: Option<String>,
    /// Only those with a status.
    #[arg(long)]
    status: Option<String>,
}

/// `multica feed`.
#[derive(Debug, Args)]
pub struct FeedArgs {
    /// Goes on as things happen.
    #[arg(short, long)]
    follow: bool,
    /// Only what comes after that position.
    #[arg(long, value_name = "N")]
    after: Option<i64>,
    /// At most so many at once.
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Only about a project (id).
    #[arg(long)]
    project: Option<String>,
    /// Only about an agent (id).
    #[arg(long)]
    agent: Option<String>,
    /// Only about a task (id).
    #[arg(long)]
    task: Option<String>,
    /// Only about a directory (id).
    #[arg(long)]
    directory: Option<String>,
    /// Only events of a type.
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
}

pub async fn run(session: &Session, verb: TaskVerb) -> Result<(), CliError> {
    match verb {
        TaskVerb::List(args) => list(session, args).await,
        TaskVerb::Show { task } => show(session, &task).await,
        TaskVerb::Explain { task } => explain(session, &task).await,
        TaskVerb::History { task } => {
            let answer = session.get(&format!("/api/tasks/{}/history", segment(&task))).await?;
            if session.out.is_json() {
                return session.out.json(&answer);
            }
            line(&story::told(&story::entries(&answer)))
        }
        TaskVerb::Logs { task, follow } => logs(session, &task, follow).await,
        TaskVerb::Cancel { task } => {
            let path = format!("/api/tasks/{}/cancel", segment(&task));
            let answer = session.call(Call::post(&path, &json!({}))?).await?;
            session.out.done(&answer, &format!("{} is {}.", task_name(&answer), text(&answer, "status")))
        }
    }
}

async fn list(session: &Session, args: List) -> Result<(), CliError> {
    let project = match &args.project {
        Some(reference) => Some(text(&session.project(reference).await?, "id")),
        None => None,
    };
    let agent = match &args.agent {
        Some(reference) => Some(text(&session.agent(reference).await?, "id")),
        None => None,
    };
    let active = (!args.all && args.status.is_none()).then_some("true");
    let call = Call::get("/api/tasks")
        .query_some("active", active)
        .query_some("status", args.status.as_deref())
        .query_some("project_id", project.as_deref())
        .query_some("agent_id", agent.as_deref());
    let answer = session.call(call).await?;
    let rows = items(&answer, "tasks")
        .iter()
        .map(|t| {
            vec![
                short(&text(t, "id")),
                text(t, "name"),
                text(t, "agent_name"),
                text(t, "status"),
                waiting(t),
                session.out.ago(&text(t, "created_at")),
            ]
        })
        .collect();
    let headers = ["id", "task", "agent", "status", "waits for", "created"];
    session.out.list(&answer, &headers, rows, "No task is under way. `--all` also shows those that are over.")
}

fn waiting(task: &Value) -> String {
    if !task["waiting"].is_object() {
        return String::new();
    }
    let (label, holder) = (text(task, "waiting.label"), text(task, "waiting.holder_name"));
    let place = text(task, "waiting.place");
    let mut told = label;
    if !holder.is_empty() {
        told.push_str(&format!(", held by {holder}"));
    }
    if !place.is_empty() {
        told.push_str(&format!(" (place {place})"));
    }
    told
}

async fn show(session: &Session, reference: &str) -> Result<(), CliError> {
    let task = session.get(&format!("/api/tasks/{}", segment(reference))).await?;
    let ago = |key: &str| session.out.ago(&text(&task, key));
    session.out.fields(
        &task,
        &[
            ("TASK", text(&task, "name")),
            ("ID", text(&task, "id")),
            ("STATUS", text(&task, "status")),
            ("AGENT", text(&task, "agent_name")),
            ("PROVIDER", text(&task, "provider")),
            ("ISSUE", text(&task, "issue_key")),
            ("DAEMON", text(&task, "daemon_id")),
            ("ATTEMPT", format!("{} of {}", text(&task, "attempt"), text(&task, "max_attempts"))),
            ("WAITS FOR", waiting(&task)),
            ("WORK DIR", text(&task, "work_dir")),
            ("BRANCH", text(&task, "branch_name")),
            ("QUEUED", ago("queued_at")),
            ("PARKED", ago("parked_at")),
            ("STARTED", ago("started_at")),
            ("ENDED", ago("completed_at")),
            ("FAILURE", failure(&task)),
            ("ERROR", text(&task, "error")),
            ("NEXT", text(&task, "failure.next_step")),
            ("RESULT", result_text(&task)),
        ],
    )
}

/// The stable code, with its words where this server knows them.
fn failure(task: &Value) -> String {
    let (code, sentence) = (text(task, "failure_reason"), text(task, "failure.sentence"));
    if sentence.is_empty() { code } else { format!("{code}: {sentence}") }
}

fn result_text(task: &Value) -> String {
    let output = text(task, "result.output");
    if output.is_empty() { text(task, "result") } else { output }
}

async fn explain(session: &Session, reference: &str) -> Result<(), CliError> {
    let answer = session.get(&format!("/api/tasks/{}/explain", segment(reference))).await?;
    if session.out.is_json() {
        return session.out.json(&answer);
    }
    line(&story::explained(&session.out, &answer))
}

async fn logs(session: &Session, reference: &str, follow: bool) -> Result<(), CliError> {
    let base = format!("/api/tasks/{}", segment(reference));
    let path = format!("{base}/messages");
    let api = session.api()?;
    let mut since = 0;
    loop {
        // Asked before the messages: what a task said before it ended is then always among them.
        let over = !follow || is_over(&api.get::<Value>(&base).await?);
        let answer: Value = patiently("reading", api.call(Call::get(&path).query("since", since))).await?;
        let messages = items(&answer, "messages");
        for message in messages {
            since = since.max(message["seq"].as_i64().unwrap_or(since));
            let written =
                if session.out.is_json() { escaped(&message.to_string()) } else { story::message(message) };
            line(&written)?;
        }
        if over && messages.is_empty() {
            return Ok(());
        }
        if !over && messages.is_empty() {
            tokio::time::sleep(session.limits.transcript_flush.duration()).await;
        }
    }
}

fn is_over(task: &Value) -> bool {
    matches!(text(task, "status").as_str(), "completed" | "failed" | "cancelled")
}

pub async fn feed(session: &Session, args: FeedArgs) -> Result<(), CliError> {
    let filters: Vec<(&'static str, String)> = [
        ("project", args.project),
        ("agent", args.agent),
        ("task", args.task),
        ("directory", args.directory),
        ("type", args.kind),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect();
    let mut call = Call::get("/api/feed").query("limit", args.limit);
    if let Some(after) = args.after {
        call = call.query("after", after);
    }
    for (name, value) in &filters {
        call = call.query(name, value);
    }
    let answer = session.call(call).await?;
    let entries = story::entries(&answer);
    for entry in &entries {
        let written = if session.out.is_json() {
            escaped(&serde_json::to_string(entry).map_err(|e| CliError::Output(e.into()))?)
        } else {
            story::feed_line(entry)
        };
        line(&written)?;
    }
    if !args.follow {
        return Ok(());
    }
    let after = answer["position"].as_i64().or_else(|| entries.last().map(|e| e.position)).or(args.after);
    if !session.out.is_json() {
        note("Waiting for what happens next; Ctrl-C ends it.");
    }
    let mut feed = Feed::new(session.api()?, after, filters);
    loop {
        if let FeedItem::Entry(entry) = feed.next().await? {
            let written = if session.out.is_json() {
                escaped(&serde_json::to_string(&entry).map_err(|e| CliError::Output(e.into()))?)
            } else {
                story::feed_line(&entry)
            };
            line(&written)?;
        }
    }
}
