//! Claude Code, Codex and opencode themselves, through server, daemon and supervisor, in a real directory;
//! only the model behind them is scripted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use multica::agent::Provider;
use serde_json::{Value, json};

use super::installation::{Installation, eventually};
use crate::agents::{Model, cli, configure, variables};

/// What the agent's shell does: keeps what it finds, works, and reports with the run's own token.
const WORK: &str = "cp $BRIEF during.md && cp .multica/project/resources.json during.json \
    && env | grep -e ^MULTICA_ -e ^CLAUDE -e ^TMPDIR > during.env; echo worked >> work.txt; \
    key=$(sed -n 's/^# \\([^:]*\\):.*/\\1/p' .agent_context/issue_context.md); \
    echo \"done by $MULTICA_AGENT_NAME\" | multica issue comment add $key --content-stdin \
    && multica issue status $key in_review && echo reported";

/// A project in one directory, with one real agent.
struct World {
    installation: Installation,
    _model: Model,
    provider: Provider,
    directory: PathBuf,
    project: String,
    agent: Value,
}

impl World {
    fn new(name: &str, provider: Provider, model: Model) -> Self {
        let mut installation = Installation::new(name);
        let home = installation.base().join("home");
        let folder = cli(provider).parent().unwrap().display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        configure(&home, &model.url, "request_max_retries = 0\nstream_max_retries = 0\n");
        installation.set("PATH", &format!("{folder}:{path}"));
        for (variable, value) in variables(&model.url) {
            installation.set(variable, &value);
        }
        // A coding agent that started the daemon is nothing to its own agents.
        installation.set("CLAUDECODE", "1");
        installation.set("CLAUDE_CODE_ENTRYPOINT", "cli");
        installation.up();
        let directory = installation.directory("game");
        fs::write(directory.join(brief(provider)), "# Mine\nkeep\n").unwrap();
        let project = installation.project("Game", &directory);
        let agent = eventually(Duration::from_secs(30), "the provider's runtime", || {
            installation.try_json(&["agent", "create", "--name", "dev", "--provider", provider.id()])
        });
        Self { installation, _model: model, provider, directory, project, agent }
    }

    /// An issue whose text holds the script that the model plays; returns its first task.
    fn issue(&self, script: &Value) -> (String, String) {
        let text = format!("Do it.\n\nscript: {script}\n");
        let arguments =
            ["issue", "create", "--title", "Mend the door", "--assignee", "dev", "--description", &text];
        let issue = self.installation.json(&[&arguments[..], &["--project", &self.project]].concat());
        let key = issue["identifier"].as_str().unwrap().to_owned();
        let task = format!("{key}#1");
        (key, task)
    }

    /// Waits until the task is over, whatever way.
    fn over(&self, task: &str, status: &str) -> Value {
        let seen = eventually(Duration::from_mins(2), &format!("{task}'s end"), || {
            let seen = self.installation.try_task(task)?;
            let over =
                ["completed", "failed", "cancelled"].map(|status| seen["status"] == status).contains(&true);
            if over { Ok(seen) } else { Err(seen.to_string()) }
        });
        let said = || self.installation.text(&["task", "logs", task]);
        assert_eq!(seen["status"], status, "{seen}\n{}\n{}", said(), self.installation.log());
        seen
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.directory.join(file)).unwrap_or_default()
    }

    fn messages(&self, task: &str) -> Vec<Value> {
        let output = self.installation.cli(&["task", "logs", task, "--output", "json"]);
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn brief(provider: Provider) -> &'static str {
    provider.brief_file().expect("a brief file")
}

fn a_real_agent_works_reports_and_goes_on_where_it_was(provider: Provider) {
    let world = World::new(provider.id(), provider, Model::scripted());
    let work = WORK.replace("$BRIEF", brief(provider));
    let (key, task) = world.issue(&json!([{"shell": work}, {"text": "Mended."}]));
    let done = world.over(&task, "completed");
    assert_eq!(done["result"]["output"], "Mended.");
    assert_eq!(world.read("work.txt"), "worked\n");
    assert!(done["usage"][0]["input_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{}", done["usage"]);

    let messages = world.messages(&task);
    let find = |kind: &str| messages.iter().find(|message| message["type"] == kind);
    assert!(
        find("tool_use").is_some_and(|message| message["input"].to_string().contains("work.txt")),
        "{messages:#?}"
    );
    let result = find("tool_result").map(|message| message["output"].to_string()).unwrap_or_default();
    assert!(result.contains("reported"), "{result}");
    assert!(messages.iter().any(|message| message["type"] == "text" && message["content"] == "Mended."));

    world.saw_its_context();
    world.reported(&key);
    let story = world.installation.story(&task);
    assert!(story.iter().any(|kind| kind == "task.session_pinned"), "{story:#?}");

    world.installation.json(&["issue", "rerun", &key]);
    let again = world.over(&format!("{key}#2"), "completed");
    assert_eq!(world.read("work.txt"), "worked\nworked\n");
    let session = done["session_id"].as_str().unwrap_or_default();
    assert!(!session.is_empty() && again["session_id"] == session, "{session} {}", again["session_id"]);
    world.installation.assert_verified();
}

impl World {
    /// The context was there for the agent, and is gone.
    fn saw_its_context(&self) {
        assert!(self.read("during.md").starts_with("# Mine\nkeep\n"));
        assert!(self.read("during.md").contains("multica issue comment add"), "{}", self.read("during.md"));
        let resources: Value = serde_json::from_str(&self.read("during.json")).unwrap();
        assert_eq!(resources["project_title"], "Game");
        assert_eq!(resources["resources"][0]["resource_type"], "local_directory");
        let environment = self.read("during.env");
        for wanted in
            ["MULTICA_DAEMON_PORT=", "MULTICA_TASK_SLOT=0", "MULTICA_AGENT_NAME=dev", "MULTICA_TOKEN=mat_"]
        {
            assert!(environment.contains(wanted), "{wanted} is missing in {environment}");
        }
        for foreign in ["CLAUDE_CODE_ENTRYPOINT=cli\n", "MULTICA_LIMITS", "MULTICA_TEST"] {
            assert!(!environment.contains(foreign), "{foreign} in {environment}");
        }
        let mut left: Vec<String> = fs::read_dir(&self.directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| !name.starts_with("during."))
            .collect();
        left.sort();
        assert_eq!(left, [brief(self.provider), "mine.txt", "work.txt"]);
        assert_eq!(self.read(brief(self.provider)), "# Mine\nkeep\n");
    }

    /// What the agent said stands in the issue under its own name.
    fn reported(&self, key: &str) {
        let comments = self.installation.json(&["issue", "comment", "list", key]);
        let comment = comments.to_string();
        let list = comments.as_array().or_else(|| comments["comments"].as_array()).unwrap();
        assert_eq!(list.len(), 1, "{comment}");
        assert_eq!(list[0]["author_type"], "agent", "{comment}");
        assert_eq!(list[0]["author_id"], self.agent["id"], "{comment}");
        assert_eq!(list[0]["content"].as_str().map(str::trim), Some("done by dev"));
        assert_eq!(self.installation.json(&["issue", "get", key])["status"], "in_review");
    }
}

fn a_cancelled_agent_is_gone_with_its_shell(provider: Provider) {
    let world = World::new(&format!("{}-cancel", provider.id()), provider, Model::scripted());
    let shell = "echo $$ > shell.pid; trap '' TERM; \
                 setsid sh -c 'echo $$ > child.pid; exec sleep 300' & sleep 300; true";
    let (_, task) = world.issue(&json!([{"shell": shell}, {"text": "Never."}]));
    let pids = eventually(Duration::from_mins(1), "the agent's shell", || {
        let pids = [world.read("shell.pid"), world.read("child.pid")];
        if pids.iter().all(|pid| pid.ends_with('\n')) { Ok(pids) } else { Err(world.installation.log()) }
    });
    let mark = format!("MULTICA_TASK_ID={}", world.installation.task(&task)["id"].as_str().unwrap());
    assert!(!marked(&mark).is_empty(), "the agent itself is among the run's processes");
    world.installation.json(&["task", "cancel", &task]);
    eventually(Duration::from_secs(20), "the release", || {
        let story = world.installation.story(&task);
        if story.iter().any(|kind| kind == "directory.released") {
            Ok(())
        } else {
            Err(format!("{story:#?}"))
        }
    });
    for pid in pids {
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "process {pid} lives on");
    }
    assert_eq!(marked(&mark), Vec::<i32>::new());
    world.over(&task, "cancelled");
    assert_eq!(world.read(brief(provider)), "# Mine\nkeep\n");
    world.installation.assert_verified();
}

/// The processes that have that in their environment.
fn marked(mark: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    })
    .collect()
}

#[test]
fn claude_works_reports_and_goes_on_where_it_was() {
    a_real_agent_works_reports_and_goes_on_where_it_was(Provider::Claude);
}

#[test]
fn codex_works_reports_and_goes_on_where_it_was() {
    a_real_agent_works_reports_and_goes_on_where_it_was(Provider::Codex);
}

#[test]
fn opencode_works_reports_and_goes_on_where_it_was() {
    a_real_agent_works_reports_and_goes_on_where_it_was(Provider::Opencode);
}

#[test]
fn cancelled_claude_is_gone_with_its_shell() {
    a_cancelled_agent_is_gone_with_its_shell(Provider::Claude);
}

#[test]
fn cancelled_codex_is_gone_with_its_shell() {
    a_cancelled_agent_is_gone_with_its_shell(Provider::Codex);
}

#[test]
fn cancelled_opencode_is_gone_with_its_shell() {
    a_cancelled_agent_is_gone_with_its_shell(Provider::Opencode);
}

#[test]
fn an_overloaded_model_service_fails_the_task_by_that_name() {
    for provider in [Provider::Claude, Provider::Codex] {
        let world = World::new(&format!("{}-overload", provider.id()), provider, Model::scripted());
        let (_, task) = world.issue(&json!([{"error": 529}]));
        let failed = world.over(&task, "failed");
        assert_eq!(failed["failure_reason"], "agent_error.provider_capacity_or_rate_limit", "{failed}");
        assert_eq!(world.read(brief(provider)), "# Mine\nkeep\n");
    }
}

#[test]
fn refused_credentials_fail_the_task_by_that_name() {
    let world = World::new("opencode-refused", Provider::Opencode, Model::refusing());
    let (_, task) = world.issue(&json!([{"text": "Never."}]));
    let failed = world.over(&task, "failed");
    assert_eq!(failed["failure_reason"], "agent_error.provider_auth_or_access", "{failed}");
}
