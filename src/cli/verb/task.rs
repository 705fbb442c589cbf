//! `multica task` and `multica feed`.

use std::borrow::Borrow;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::error::CliError;
use crate::cli::output::{escaped, line, note, read, short};
use crate::cli::session::{Session, pick};
use crate::cli::story;
use crate::cli::verb::replay::{self, Steps};
use crate::client::api::{Call, segment};
use crate::client::feed::{Feed, FeedItem};
use crate::domain::task::Status;
use crate::kernel::text::last_lines;
use crate::wire::api::{Directory, Message, Stranded, Task};
use crate::wire::feed::Entry;

/// Entries asked for at once when all are wanted.
const PAGE: u32 = 1_000;

/// The verbs. A task is KEY-n#run, its id, or a unique head or tail of the id.
#[derive(Debug, Subcommand)]
pub enum TaskVerb {
    /// Lists the tasks that aren't over.
    List(List),
    /// Shows a task.
    #[command(visible_alias = "get")]
    Show {
        /// KEY-n#run, or the id or a part of it.
        task: String,
    },
    /// Says why a task is where it is, and what would change that.
    Explain {
        /// KEY-n#run, or the id or a part of it.
        task: String,
    },
    /// Lists tasks that wait longer than is usual for their kind, and why.
    Stranded,
    /// Tells a task's whole story, in order.
    History {
        /// KEY-n#run, or the id or a part of it.
        task: String,
    },
    /// Goes through a task's story with the rules of this build: its state after each event, and where they
    /// would decide otherwise.
    Replay {
        /// KEY-n#run, or the id or a part of it.
        task: String,
        #[command(flatten)]
        steps: Steps,
    },
    /// Writes a task's history into a file that `multica replay` opens anywhere: no texts, no private paths.
    Export {
        /// KEY-n#run, or the id or a part of it.
        task: String,
        /// Where to; standard output when it isn't said. What is there stays.
        #[arg(long, value_name = "PATH")]
        file: Option<PathBuf>,
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
    /// Only those with a status; also several, with commas between them.
    #[arg(long, value_delimiter = ',', value_parser = statuses())]
    status: Vec<String>,
}

/// The statuses of tasks, for help and completion.
fn statuses() -> PossibleValuesParser {
    PossibleValuesParser::new(Status::ALL.map(Status::name))
}

/// `multica feed`.
#[derive(Debug, Args)]
pub struct FeedArgs {
    /// Goes on as things happen.
    #[arg(short, long)]
    follow: bool,
    /// Everything, from the beginning.
    #[arg(long, conflicts_with_all = ["after", "limit"])]
    all: bool,
    /// What comes after that position, instead of the newest.
    #[arg(long, value_name = "N")]
    after: Option<i64>,
    /// At most so many before it follows.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Only about a project, by title or id.
    #[arg(long)]
    project: Option<String>,
    /// Only about an agent, by name or id.
    #[arg(long)]
    agent: Option<String>,
    /// Only about a task: KEY-n#run, or the id or a part of it.
    #[arg(long)]
    task: Option<String>,
    /// Only about a directory, by label or id.
    #[arg(long)]
    directory: Option<String>,
    /// Only events of a type (`task.started`) or of a family (`task`).
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
}

pub async fn run(session: &Session, verb: TaskVerb) -> Result<(), CliError> {
    match verb {
        TaskVerb::List(args) => list(session, args).await,
        TaskVerb::Show { task } => show(session, &task).await,
        TaskVerb::Explain { task } => explain(session, &task).await,
        TaskVerb::Stranded => stranded(session).await,
        TaskVerb::History { task } => {
            let answer = session.get(&format!("/api/tasks/{}/history", segment(&task))).await?;
            if session.out.is_json() {
                return session.out.json(&answer);
            }
            line(&story::told(&story::entries(&answer)))
        }
        TaskVerb::Replay { task, steps } => replay::of_task(session, &task, &steps).await,
        TaskVerb::Export { task, file } => replay::export(session, &task, file.as_deref()).await,
        TaskVerb::Logs { task, follow } => logs(session, &task, follow).await,
        TaskVerb::Cancel { task } => {
            let path = format!("/api/tasks/{}/cancel", segment(&task));
            let answer = session.call(Call::post(&path, &json!({}))?).await?;
            let task: Task = read(&answer)?;
            if matches!(task.status.as_str(), "completed" | "failed") {
                return Err(match task.stopping_since {
                    Some(_) => CliError::Stopping { task: task.name, status: task.status },
                    None => CliError::Over { task: task.name, status: task.status },
                });
            }
            session.out.done(&answer, &format!("{} is {}.", task.name, task.status))
        }
    }
}

async fn list(session: &Session, args: List) -> Result<(), CliError> {
    let project = match &args.project {
        Some(reference) => Some(session.project(reference).await?.id.to_string()),
        None => None,
    };
    let agent = match &args.agent {
        Some(reference) => Some(session.agent_ever(reference).await?.id.to_string()),
        None => None,
    };
    let status = (!args.status.is_empty()).then(|| args.status.join(","));
    let active = (!args.all && status.is_none()).then_some("true");
    let call = Call::get("/api/tasks")
        .query_some("active", active)
        .query_some("status", status.as_deref())
        .query_some("project_id", project.as_deref())
        .query_some("agent_id", agent.as_deref());
    let answer = session.call(call).await?;
    let tasks: Vec<Task> = read(&answer["tasks"])?;
    let rows = tasks
        .into_iter()
        .map(|task| {
            let (waits_for, created) = (waiting(&task), session.out.since(task.created_at));
            vec![short(&task.id.to_string()), task.name, task.agent_name, task.status, waits_for, created]
        })
        .collect();
    let headers = ["id", "task", "agent", "status", "waits for", "created"];
    session.out.list(&answer, &headers, rows, "No task is under way. `--all` also shows those that are over.")
}

async fn stranded(session: &Session) -> Result<(), CliError> {
    let answer = session.get("/api/stranded-tasks").await?;
    let all: Vec<Stranded> = read(&answer["tasks"])?;
    let rows = all
        .into_iter()
        .map(|one| {
            let because = one.explanation.causes.last().map(|cause| cause.sentence.clone());
            vec![
                one.explanation.name,
                one.explanation.status,
                story::span(i64::try_from(one.waited_s).unwrap_or(i64::MAX)),
                story::span(i64::try_from(one.usual_s).unwrap_or(i64::MAX)),
                because.unwrap_or(one.explanation.sentence),
            ]
        })
        .collect();
    let headers = ["task", "status", "waits", "usual", "because"];
    session.out.list(&answer, &headers, rows, "No task waits longer than is usual for its kind.")
}

fn waiting(task: &Task) -> String {
    let Some(waiting) = &task.waiting else { return String::new() };
    let mut told = waiting.label.clone();
    if let Some(holder) = &waiting.holder_name {
        told.push_str(&format!(", held by {holder}"));
    }
    if waiting.because == "foreign_lock" {
        let who = waiting.locked_by.as_deref().unwrap_or("another program");
        told.push_str(&format!(", locked by {who}"));
    }
    if waiting.place > 0 {
        told.push_str(&format!(" (place {})", waiting.place));
    }
    told
}

async fn show(session: &Session, reference: &str) -> Result<(), CliError> {
    let answer = session.get(&format!("/api/tasks/{}", segment(reference))).await?;
    let task: Task = read(&answer)?;
    let since = |at| session.out.since(at);
    let next = task.failure.as_ref().map(|failure| failure.next_step.clone());
    session.out.fields(
        &answer,
        &[
            ("TASK", task.name.clone()),
            ("ID", task.id.to_string()),
            ("STATUS", task.status.clone()),
            ("AGENT", task.agent_name.clone()),
            ("PROVIDER", task.provider.clone()),
            ("ISSUE", task.issue_key.clone()),
            ("DAEMON", task.daemon_id.clone()),
            ("ATTEMPT", format!("{} of {}", task.attempt, task.max_attempts)),
            ("WAITS FOR", waiting(&task)),
            ("BRANCH", task.branch_name.clone().unwrap_or_default()),
            ("QUEUED", since(task.queued_at)),
            ("PARKED", since(task.parked_at)),
            ("STARTED", since(task.started_at)),
            ("ENDED", since(task.completed_at)),
            ("STOPPING", since(task.stopping_since)),
            ("FAILURE", failure(&task)),
            ("ERROR", error(session, &task)),
            ("NEXT", next.unwrap_or_default()),
            ("RESULT", task.result.map(|result| result.output).unwrap_or_default()),
        ],
    )
}

/// The stable code, with its words where this server knows them.
fn failure(task: &Task) -> String {
    let code = task.failure_reason.clone().unwrap_or_default();
    match &task.failure {
        Some(failure) => format!("{code}: {}", failure.sentence),
        None => code,
    }
}

/// The last lines of what went wrong, and where the rest is.
fn error(session: &Session, task: &Task) -> String {
    let limits = &session.limits;
    let (mut shown, more) = last_lines(
        task.error.as_deref().unwrap_or_default(),
        limits.excerpt_lines,
        limits.excerpt_line_bytes,
    );
    if more {
        shown.push_str(&format!("\n(all of it: multica task logs {})", task.name));
    }
    shown
}

async fn explain(session: &Session, reference: &str) -> Result<(), CliError> {
    let answer = session.get(&format!("/api/tasks/{}/explain", segment(reference))).await?;
    if session.out.is_json() {
        return session.out.json(&answer);
    }
    line(&story::explained(&session.out, &read(&answer)?))
}

async fn logs(session: &Session, reference: &str, follow: bool) -> Result<(), CliError> {
    let base = format!("/api/tasks/{}", segment(reference));
    let path = format!("{base}/messages");
    let api = session.api()?;
    let mut since = 0;
    loop {
        // Asked before the messages: what a task said before it ended is then always among them.
        let over = !follow || is_over(&api.get(&base).await?);
        let answer: Value =
            session.patiently("reading", api.call(Call::get(&path).query("since", since))).await?;
        let messages: Vec<Message> = read(&answer)?;
        for (message, json) in messages.iter().zip(answer.as_array().into_iter().flatten()) {
            since = since.max(message.said.seq);
            let written =
                if session.out.is_json() { escaped(&json.to_string()) } else { story::message(message) };
            line(&written)?;
        }
        if over && messages.is_empty() {
            if since == 0 && !session.out.is_json() {
                let task: Task = api.get(&base).await?;
                if let Some(gone) = task.transcript_gone {
                    note(&format!("{} (event {}).", gone.sentence.trim_end_matches('.'), gone.position));
                }
            }
            return Ok(());
        }
        if !over && messages.is_empty() {
            tokio::time::sleep(session.limits.transcript_flush.duration()).await;
        }
    }
}

fn is_over(task: &Task) -> bool {
    matches!(task.status.as_str(), "completed" | "failed" | "cancelled")
}

pub async fn feed(session: &Session, args: FeedArgs) -> Result<(), CliError> {
    let filters = filters(session, &args).await?;
    let mut printed = Printed { session, day: String::new(), who: 0 };
    let mut after = args.after;
    if args.all {
        after = Some(everything(&mut printed, &filters).await?);
    } else {
        let answer = session.call(page(&filters, after, args.limit)).await?;
        let entries = story::entries(&answer);
        printed.told(&entries)?;
        // The newest are the end; after a position they are only the beginning of what came.
        let most = usize::try_from(args.limit).unwrap_or(usize::MAX);
        if let (Some(_), Some(last), false) = (args.after, entries.last(), args.follow)
            && entries.len() >= most
        {
            note(&format!("There may be more: the same with `--after {}`, or `--all`.", last.position));
        }
        after = answer["position"].as_i64().or_else(|| entries.last().map(|entry| entry.position)).or(after);
    }
    if !args.follow {
        return Ok(());
    }
    if !session.out.is_json() {
        note("Waiting for what happens next; Ctrl-C ends it.");
    }
    let mut feed = Feed::new(session.api()?, after, filters);
    loop {
        if let FeedItem::Entry(entry) = feed.next().await? {
            printed.told(std::slice::from_ref(&entry))?;
        }
    }
}

/// The filters as the server takes them: names become ids, and what isn't there is said.
async fn filters(session: &Session, args: &FeedArgs) -> Result<Vec<(&'static str, String)>, CliError> {
    let mut filters = Vec::new();
    if let Some(project) = &args.project {
        filters.push(("project", session.project(project).await?.id.to_string()));
    }
    if let Some(agent) = &args.agent {
        filters.push(("agent", session.agent_ever(agent).await?.id.to_string()));
    }
    if let Some(task) = &args.task {
        let found: Task = read(&session.get(&format!("/api/tasks/{}", segment(task))).await?)?;
        filters.push(("task", found.id.to_string()));
    }
    if let Some(directory) = &args.directory {
        let all = session.get("/api/directories").await?;
        let found = pick(read::<Vec<Directory>>(&all["directories"])?, directory)?;
        filters.push(("directory", found.id.to_string()));
    }
    filters.extend(args.kind.clone().map(|kind| ("type", kind)));
    Ok(filters)
}

type Filters = [(&'static str, String)];

/// The entries after a position, or the newest where none is named.
fn page<'a>(filters: &'a Filters, after: Option<i64>, limit: u32) -> Call<'a> {
    let mut call = Call::get("/api/feed");
    call = match after {
        Some(after) => call.query("after", after).query("limit", limit),
        None => call.query("last", limit),
    };
    filters.iter().fold(call, |call, (name, value)| call.query(name, value))
}

/// Prints the feed from its beginning; says how far it went.
async fn everything(printed: &mut Printed<'_>, filters: &Filters) -> Result<i64, CliError> {
    let mut after = 0;
    loop {
        let answer = printed.session.call(page(filters, Some(after), PAGE)).await?;
        let entries = story::entries(&answer);
        printed.told(&entries)?;
        let reached = answer["position"].as_i64().unwrap_or(after);
        if entries.is_empty() || reached <= after {
            return Ok(reached.max(after));
        }
        after = reached;
    }
}

/// A feed on its way to the terminal.
struct Printed<'a> {
    session: &'a Session,
    /// The day of the last line.
    day: String,
    /// How much room actors' names have: what the longest so far took.
    who: usize,
}

impl Printed<'_> {
    /// Prints entries, and a heading where another day begins.
    fn told(&mut self, entries: &[impl Borrow<Entry>]) -> Result<(), CliError> {
        let names = entries.iter().map(|entry| story::actor(entry.borrow()).chars().count());
        self.who = names.max().unwrap_or_default().max(self.who);
        for entry in entries {
            let entry: &Entry = entry.borrow();
            if self.session.out.is_json() {
                let json = serde_json::to_string(entry).map_err(|e| CliError::Output(e.into()))?;
                line(&escaped(&json))?;
                continue;
            }
            if let Some(heading) = story::another_day(&mut self.day, entry) {
                line(&heading)?;
            }
            line(&story::feed_line(entry, self.who))?;
        }
        Ok(())
    }
}
