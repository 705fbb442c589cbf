//! Everything that can die is killed at every step that a run in place writes down, and the server hears of
//! the right end: M of the acceptance cases, B-021, D-037.
//!
//! A representative part always, all of it with `MULTICA_TEST_LONG=1` (`bin/test --long`).

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::crowd::{ExtraDaemon, extra_daemon};
use super::installation::{Installation, eventually, signal};
use super::kill::{assert_clean, kill, processes};

/// The steps of a run in place of an agent without a brief file, in order.
const STEPS: [&str; 24] = [
    "claimed",
    "began",
    "laid-out",
    "locked",
    "manifest",
    "prepare-plan",
    "sidecar-directory",
    "sidecar-file",
    "prepared",
    "start-reported",
    "spawning",
    "spawned",
    "process-started",
    "tree-emptied",
    "exited",
    "verdict",
    "finalize-plan",
    "finalize-step",
    "remove-file",
    "remove-directory",
    "sidecars-removed",
    "report-file",
    "terminal-reported",
    "ended",
];

fn steps(some: &'static [&'static str]) -> &'static [&'static str] {
    if std::env::var("MULTICA_TEST_LONG").is_ok_and(|long| long == "1") { &STEPS } else { some }
}

struct Steps {
    installation: Installation,
    directory: PathBuf,
    project: String,
    agent: Value,
}

impl Steps {
    fn start(name: &str) -> Self {
        let mut installation = Installation::new(name);
        installation.durable();
        let point = installation.base().join("point").display().to_string();
        installation.set("MULTICA_FAILPOINT", &format!("@{point}"));
        installation.up();
        let directory = installation.directory("game");
        let project = installation.project("Game", &directory);
        let agent = json!(installation.agent("dev", "cat > /dev/null; echo done"));
        Self { installation, directory, project, agent }
    }

    /// The next supervisor that passes the point is killed there, or stopped.
    fn arm(&self, point: &str) {
        let base = self.installation.base();
        let _ = fs::remove_file(base.join("point.hit"));
        fs::write(base.join("point.new"), point).unwrap();
        fs::rename(base.join("point.new"), base.join("point")).unwrap();
    }

    /// The process that got there.
    fn hit(&self, point: &str) -> i32 {
        eventually(Duration::from_secs(60), &format!("the step {point}"), || {
            let text = fs::read_to_string(self.installation.base().join("point.hit")).unwrap_or_default();
            text.strip_suffix('\n').and_then(|pid| pid.parse().ok()).ok_or_else(|| self.installation.log())
        })
    }

    fn issue(&self, title: &str) -> String {
        let body = json!({"title": title, "project_id": self.project, "assignee_type": "agent",
            "assignee_id": self.agent});
        let issue = self.installation.call("POST", "/api/issues", &body).unwrap();
        issue["identifier"].as_str().unwrap().to_owned()
    }

    /// The last run has completed, those before were interrupted; the directory is free and as it was.
    fn ends_well(&self, key: &str, step: &str) {
        let runs = eventually(Duration::from_secs(120), &format!("{key} after {step}"), || {
            let runs =
                self.installation.call("GET", &format!("/api/issues/{key}/task-runs"), &Value::Null)?;
            let all = runs.as_array().cloned().unwrap_or_default();
            let over = all.iter().all(|run| !run["completed_at"].is_null());
            let completed = all.first().is_some_and(|run| run["status"] == "completed");
            if over && completed { Ok(all) } else { Err(format!("{runs:#}\n{}", self.installation.log())) }
        });
        for earlier in &runs[1..] {
            assert_eq!(earlier["failure_reason"], "runtime_recovery", "{step}: {earlier:#}");
        }
        assert!(runs.len() <= 2, "{step}: once is enough: {runs:#?}");
        eventually(Duration::from_secs(90), &format!("the release after {step}"), || {
            let all = self.installation.call("GET", "/api/directories", &Value::Null)?;
            let free = all["directories"].as_array().is_some_and(|directories| {
                directories.iter().all(|one| one["holder"].is_null() && one["queue"] == json!([]))
            });
            if free { Ok(()) } else { Err(all.to_string()) }
        });
        assert_clean(&self.directory);
    }
}

#[test]
fn a_supervisor_killed_at_any_step_costs_at_most_one_run() {
    let steps_of = Steps::start("steps-supervisor");
    let some = &["locked", "sidecar-file", "process-started", "verdict", "remove-file", "terminal-reported"];
    for step in steps(some) {
        steps_of.arm(&format!("{step}:1"));
        let key = steps_of.issue(step);
        steps_of.hit(step);
        steps_of.ends_well(&key, step);
    }
    steps_of.installation.assert_verified();
}

#[test]
fn server_and_daemon_killed_at_any_step_of_a_run_cost_nothing() {
    let mut steps_of = Steps::start("steps-up");
    for step in steps(&["sidecar-file", "terminal-reported"]) {
        steps_of.arm(&format!("{step}:1:stop"));
        let key = steps_of.issue(step);
        let supervisor = steps_of.hit(step);
        steps_of.installation.kill_up();
        signal(supervisor, "CONT");
        steps_of.installation.up();
        steps_of.ends_well(&key, step);
    }
    steps_of.installation.assert_verified();
}

#[test]
fn postgresql_killed_at_any_step_of_a_run_costs_nothing() {
    let steps_of = Steps::start("steps-postgres");
    for step in steps(&["process-started", "ended"]) {
        steps_of.arm(&format!("{step}:1:stop"));
        let key = steps_of.issue(step);
        let supervisor = steps_of.hit(step);
        for pid in processes(&steps_of.installation, "postgres -D") {
            kill(pid);
        }
        signal(supervisor, "CONT");
        steps_of.ends_well(&key, step);
    }
    steps_of.installation.assert_verified();
}

#[test]
fn a_daemon_killed_alone_at_any_step_of_a_run_costs_nothing() {
    let mut steps_of = Steps::start("steps-daemon");
    let installation = &steps_of.installation;
    let mut daemon: ExtraDaemon = extra_daemon(installation, "far");
    eventually(Duration::from_secs(90), "the second daemon", || {
        let list = installation.daemons()?;
        let online = list["daemons"].as_array().is_some_and(|all| {
            all.iter().any(|daemon| daemon["daemon_id"] == "far" && daemon["status"] == "online")
        });
        if online { Ok(()) } else { Err(list.to_string()) }
    });
    let path = steps_of.directory.display().to_string();
    installation.json(&[
        "project",
        "resource",
        "add",
        &steps_of.project,
        "--type",
        "local_directory",
        "--local-path",
        &path,
        "--daemon-id",
        "far",
    ]);
    let agent = installation.json(&[
        "agent",
        "create",
        "--name",
        "far",
        "--provider",
        "command",
        "--daemon-id",
        "far",
        "--command",
        "sh",
        "--arg=-c",
        "--arg=cat > /dev/null; echo done",
    ]);
    steps_of.agent = agent["id"].clone();
    for step in steps(&["began", "exited"]) {
        steps_of.arm(&format!("{step}:1:stop"));
        let key = steps_of.issue(step);
        let supervisor = steps_of.hit(step);
        daemon.kill();
        signal(supervisor, "CONT");
        daemon = extra_daemon(&steps_of.installation, "far");
        steps_of.ends_well(&key, step);
    }
    steps_of.installation.assert_verified();
}

#[test]
fn an_agent_killed_while_its_supervisor_looks_away_fails_by_its_signal() {
    let mut steps_of = Steps::start("steps-agent");
    let script = "echo $$ > agent.tmp; mv agent.tmp agent.pid; while :; do sleep 0.05; done";
    steps_of.agent = json!(steps_of.installation.agent("victim", script));
    for step in ["spawned", "process-started"] {
        steps_of.arm(&format!("{step}:1:stop"));
        let task = format!("{}#1", steps_of.issue(step));
        let supervisor = steps_of.hit(step);
        let file = steps_of.directory.join("agent.pid");
        let agent = eventually(Duration::from_secs(20), "the agent", || {
            let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
            text.trim().parse::<i32>().map_err(|error| error.to_string())
        });
        kill(agent);
        signal(supervisor, "CONT");
        let failed = steps_of.installation.until(&task, "failed");
        assert_eq!(failed["failure_reason"], "agent_error.process_failure", "{step}: {failed}");
        fs::remove_file(&file).unwrap();
        super::kill::released(&steps_of.installation, &task);
        assert_clean(&steps_of.directory);
    }
    steps_of.installation.assert_verified();
}
