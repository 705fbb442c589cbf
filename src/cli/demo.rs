//! The demo: four issues for two agents in one throw-away directory, driven over the API like anybody's.
//!
//! One task runs, the others park behind it; one is cancelled while parked, one fails, two complete. The
//! outcome is checked against that, and the log against itself, so that the last line can be believed.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::api::{Api, Call, segment};
use crate::client::error::ClientError;
use crate::client::feed::{Feed, FeedItem};
use crate::wire::api::{Issue, Project, Task};

/// What the demo needs to know.
#[derive(Debug, Clone)]
pub struct Demo<'a> {
    /// The throw-away repository.
    pub repository: &'a Path,
    /// The daemon that runs on this machine.
    pub daemon_id: &'a str,
    /// Whether a person looks: bars instead of lines.
    pub live: bool,
    /// The whole demo has this long.
    pub limit: Duration,
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Tasks that completed.
    pub completed: usize,
    /// Tasks that failed.
    pub failed: usize,
    /// Tasks that were cancelled.
    pub cancelled: usize,
    /// The one to look into, as people name it.
    pub failed_task: String,
    /// Events in the log.
    pub events: i64,
    /// What the verification found wrong.
    pub findings: Vec<String>,
}

impl Outcome {
    /// Whether all four ended as they should and the log is right.
    #[must_use]
    pub fn is_as_it_should_be(&self) -> bool {
        (self.completed, self.failed, self.cancelled) == (2, 1, 1) && self.findings.is_empty()
    }

    /// The demo's last line.
    #[must_use]
    pub fn line(&self) -> String {
        let verified = if self.findings.is_empty() { "verified" } else { "NOT verified" };
        let Self { completed, failed, cancelled, events, .. } = self;
        format!(
            "demo: {completed} completed, {failed} failed, {cancelled} cancelled, {events} events, {verified}"
        )
    }
}

/// Why the demo could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The server refused or can't be reached.
    #[error("the demo's call was not accepted")]
    Call(#[from] ClientError),
    /// An answer lacks a field.
    #[error("an answer has no `{field}`")]
    Answer {
        /// The field.
        field: &'static str,
    },
    /// It took too long.
    #[error("the demo didn't come to {what} within {seconds} seconds")]
    TooLong {
        /// What was waited for.
        what: &'static str,
        /// How long.
        seconds: u64,
    },
}

/// What both agents run: it reads the issue on standard input and does what its title says.
const SCRIPT: &str = r#"
issue=$(cat)
case "$issue" in
*"broken check"*)
  echo "Running the check."
  echo "check: 1 of 3 assertions failed" >&2
  exit 3 ;;
*"Count"*)
  echo "Counting the words of greeting.txt."
  wc -w < greeting.txt > words.txt
  echo "Wrote words.txt: $(cat words.txt) words." ;;
*)
  echo "Writing greeting.txt."
  printf 'Hello from an agent.\n' > greeting.txt
  : "${MULTICA_DEMO_PACE:=3}"
  sleep "$MULTICA_DEMO_PACE"
  echo "Done: greeting.txt is there." ;;
esac
"#;

const ISSUES: [(&str, &str, &str); 4] = [
    ("Write the greeting", "writer", "Put a greeting into greeting.txt."),
    ("Count the words", "checker", "Count the words of greeting.txt into words.txt."),
    ("Paint the shed", "writer", "Nobody needs this any more: it is cancelled while it waits."),
    ("Run the broken check", "checker", "The check fails, and the task says why."),
];

/// Runs the demo.
///
/// # Errors
/// [`DemoError`]; that a task ended otherwise than it should is an [`Outcome`].
pub async fn run(api: &Api, demo: &Demo<'_>) -> Result<Outcome, DemoError> {
    let screen = Screen::new(demo.live);
    let feed = tokio::spawn(screen.clone().follow(api.clone()));
    let outcome = tokio::time::timeout(demo.limit, play(api, demo, &screen)).await;
    feed.abort();
    screen.finish();
    outcome.map_err(|_| DemoError::TooLong { what: "its end", seconds: demo.limit.as_secs() })?
}

async fn play(api: &Api, demo: &Demo<'_>, screen: &Screen) -> Result<Outcome, DemoError> {
    // With the daemon there, it looks at the directory that is attached.
    let runtime = command_runtime(api, demo.daemon_id).await?;
    let project: Project = api
        .post(
            "/api/projects",
            &json!({
                "title": "Demo",
                "resources": [{
                    "resource_type": "local_directory",
                    "resource_ref": {
                        "local_path": demo.repository,
                        "daemon_id": demo.daemon_id,
                        "execution_mode": "in_place",
                        "label": "greetings",
                    },
                }],
            }),
        )
        .await?;
    let mut agents = BTreeMap::new();
    for name in ["writer", "checker"] {
        let command = json!({"program": "sh", "arguments": ["-c", SCRIPT], "prompt": "stdin"});
        let body = json!({"name": name, "runtime_id": runtime, "command": command});
        agents.insert(name, text(&api.post::<Value>("/api/agents", &body).await?, "id")?);
    }
    let mut keys = Vec::new();
    for (index, (title, agent, description)) in ISSUES.into_iter().enumerate() {
        let body = json!({
            "title": title, "description": description, "project_id": project.id,
            "assignee_type": "agent", "assignee_id": agents.get(agent),
        });
        keys.push(api.post::<Issue>("/api/issues", &body).await?.identifier);
        if index == 0 {
            // The first has the directory before the others come, so that they have something to wait for.
            tasks_when(api, screen, |tasks| tasks.iter().any(|task| task.status == "running")).await?;
        }
    }
    tasks_when(api, screen, |tasks| tasks.iter().filter(|task| is_parked(task)).count() == 3).await?;
    let doomed = format!("{}#1", keys[2]);
    api.post::<Task>(&format!("/api/tasks/{}/cancel", segment(&doomed)), &json!({})).await?;
    let tasks =
        tasks_when(api, screen, |tasks| tasks.len() == ISSUES.len() && tasks.iter().all(is_over)).await?;
    let verified = api.post::<Value>("/api/verify", &json!({})).await?;
    let count = |wanted: &str| tasks.iter().filter(|task| task.status == wanted).count();
    let findings = verified["findings"].as_array().ok_or(DemoError::Answer { field: "findings" })?;
    Ok(Outcome {
        completed: count("completed"),
        failed: count("failed"),
        cancelled: count("cancelled"),
        failed_task: format!("{}#1", keys[3]),
        events: verified["up_to"].as_i64().ok_or(DemoError::Answer { field: "up_to" })?,
        findings: findings
            .iter()
            .map(|finding| finding["sentence"].as_str().unwrap_or_default().to_owned())
            .collect(),
    })
}

/// The daemon's runtime for provider `command`; the daemon may still be registering.
async fn command_runtime(api: &Api, daemon: &str) -> Result<String, DemoError> {
    loop {
        let runtimes = api.get::<Value>("/api/runtimes").await?;
        let ours = runtimes.as_array().into_iter().flatten().find(|runtime| {
            runtime["daemon_id"] == daemon
                && runtime["provider"] == "command"
                && runtime["status"] == "online"
        });
        if let Some(runtime) = ours {
            return text(runtime, "id");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Between two looks at a fact.
const POLL: Duration = Duration::from_millis(100);

/// `GET /api/tasks`.
#[derive(Deserialize)]
struct Listed {
    tasks: Vec<Task>,
}

async fn tasks_when(
    api: &Api,
    screen: &Screen,
    fact: impl Fn(&[Task]) -> bool,
) -> Result<Vec<Task>, DemoError> {
    loop {
        let Listed { tasks } = api.call(Call::get("/api/tasks").query("limit", 50)).await?;
        screen.show(&tasks);
        if fact(&tasks) {
            return Ok(tasks);
        }
        tokio::time::sleep(POLL).await;
    }
}

fn text(value: &Value, field: &'static str) -> Result<String, DemoError> {
    value[field].as_str().map(ToOwned::to_owned).ok_or(DemoError::Answer { field })
}

fn is_parked(task: &Task) -> bool {
    task.status == "waiting_local_directory"
}

fn is_over(task: &Task) -> bool {
    matches!(task.status.as_str(), "completed" | "failed" | "cancelled")
}

/// Shows tasks as bars on a terminal; elsewhere the feed's lines are enough.
#[derive(Clone)]
struct Screen {
    bars: Option<MultiProgress>,
    rows: std::sync::Arc<std::sync::Mutex<BTreeMap<String, ProgressBar>>>,
}

impl Screen {
    fn new(live: bool) -> Self {
        Self { bars: live.then(MultiProgress::new), rows: std::sync::Arc::default() }
    }

    fn say(&self, line: &str) {
        match &self.bars {
            Some(bars) => drop(bars.println(line)),
            // Nobody may read it any more; the demo goes on to its end.
            None => drop(writeln!(anstream::stdout(), "{line}")),
        }
    }

    async fn follow(self, api: Api) {
        let mut feed = Feed::new(api, Some(0), Vec::new());
        while let Ok(item) = feed.next().await {
            if let FeedItem::Entry(entry) = item {
                let clock = entry.recorded_at.get(11..19).unwrap_or_default();
                self.say(&format!("  {clock}  {}", entry.text));
            }
        }
    }

    fn show(&self, tasks: &[Task]) {
        let Some(bars) = &self.bars else { return };
        let Ok(mut rows) = self.rows.lock() else { return };
        let mut tasks: Vec<&Task> = tasks.iter().collect();
        tasks.sort_by(|one, other| one.name.cmp(&other.name));
        for task in tasks {
            let name = &task.name;
            let bar = rows.entry(name.clone()).or_insert_with(|| {
                let bar = bars.add(ProgressBar::new_spinner());
                bar.enable_steady_tick(POLL);
                bar
            });
            bar.set_style(style(&task.status));
            bar.set_prefix(format!("{name:<10} {:<8}", task.agent_name));
            bar.set_message(message(task));
            if is_over(task) && !bar.is_finished() {
                bar.abandon();
            }
        }
    }

    fn finish(&self) {
        let Ok(rows) = self.rows.lock() else { return };
        for bar in rows.values().filter(|bar| !bar.is_finished()) {
            bar.abandon();
        }
    }
}

fn message(task: &Task) -> String {
    let holder = task.waiting.as_ref().and_then(|waiting| waiting.holder_name.as_ref());
    match (task.status.as_str(), holder) {
        ("waiting_local_directory", Some(holder)) => format!("parked: {holder} has the directory"),
        ("waiting_local_directory", None) => "parked".to_owned(),
        ("failed", _) => format!("failed: {}", task.failure_reason.as_deref().unwrap_or_default()),
        (other, _) => other.to_owned(),
    }
}

fn style(status: &str) -> ProgressStyle {
    let template = match status {
        "completed" => "{prefix:.bold} {msg:.green}",
        "failed" => "{prefix:.bold} {msg:.red}",
        "cancelled" => "{prefix:.bold} {msg:.dim}",
        "waiting_local_directory" => "{prefix:.bold} {msg:.yellow}",
        _ => "{prefix:.bold} {spinner:.cyan} {msg}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
