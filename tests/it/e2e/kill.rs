//! Whatever is killed, wherever it was: the task reaches the right end, the directory is released, what a
//! run wrote for itself is gone.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::installation::{Installation, eventually};

/// The process ids of this installation whose command line holds `word`.
pub(super) fn processes(installation: &Installation, word: &str) -> Vec<i32> {
    let places = [installation.base(), installation.data()].map(|place| place.display().to_string());
    let of_ours = |text: &str| places.iter().any(|place| text.contains(place));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if line.contains(word) && (of_ours(&line) || of_ours(&String::from_utf8_lossy(&environment))) {
            found.push(pid);
        }
    }
    found
}

/// Kills every process of this installation whose command line holds `word`; there is one.
pub(super) fn kill_all(installation: &Installation, word: &str) {
    let found = processes(installation, word);
    assert!(!found.is_empty(), "nothing to kill: {word}");
    found.into_iter().for_each(kill);
}

pub(super) fn kill(pid: i32) {
    let _ = Command::new("kill").args(["-KILL", "--", &pid.to_string()]).status();
}

/// Waits until the task runs and its agent, which is [`WAITS`] or begins like it, waits.
pub(super) fn until_it_waits(installation: &Installation, task: &str) {
    installation.until(task, "running");
    // A task is running a moment before its agent is.
    eventually(Duration::from_secs(60), "the agent", || !processes(installation, WAITED_FOR).is_empty());
}

pub(super) fn assert_clean(directory: &Path) {
    for name in [".multica", ".agent_context", "AGENTS.md", "CLAUDE.md"] {
        assert!(!directory.join(name).exists(), "{name} was left behind");
    }
    assert_eq!(fs::read_to_string(directory.join("mine.txt")).unwrap(), "mine\n");
}

pub(super) fn released(installation: &Installation, task: &str) {
    eventually(Duration::from_secs(60), "the release", || {
        let story = installation.story(task);
        let held = story
            .iter()
            .filter(|kind| *kind == "directory.acquired" || *kind == "directory.promoted")
            .count();
        let let_go = story
            .iter()
            .filter(|kind| *kind == "directory.released" || *kind == "directory.holder_lost")
            .count();
        if held == let_go { Ok(()) } else { Err(format!("{story:#?}\n{}", installation.log())) }
    });
}

/// A run that waits for a file `go`, so that the test decides when it ends.
const WAITS: &str = "while [ ! -e go ]; do sleep 0.05; done; rm -f go; echo done";
/// What its command line is known by.
const WAITED_FOR: &str = "while [ ! -e go ]";

#[test]
fn after_kill_9_of_server_and_daemon_the_run_goes_on_and_its_end_is_recorded() {
    let mut installation = Installation::start("kill-up");
    let directory = installation.directory("game");
    let project = installation.project("Game", &directory);
    installation.agent("dev", WAITS);
    let task = format!("{}#1", installation.issue("Survive", &project, "dev"));
    until_it_waits(&installation, &task);
    installation.kill_up();
    // The agent ends while nobody is there to hear of it.
    fs::write(directory.join("go"), "").unwrap();
    eventually(Duration::from_secs(30), "the agent's end", || {
        if directory.join("go").exists() { Err("it still runs".to_owned()) } else { Ok(()) }
    });
    installation.up();
    installation.until(&task, "completed");
    released(&installation, &task);
    assert_clean(&directory);
    installation.assert_verified();
}

#[test]
fn after_kill_9_of_a_supervisor_its_agent_is_stopped_and_the_task_is_tried_again() {
    let installation = Installation::start("kill-supervisor");
    let directory = installation.directory("game");
    let project = installation.project("Game", &directory);
    installation.agent("dev", WAITS);
    let key = installation.issue("Survive", &project, "dev");
    let task = format!("{key}#1");
    until_it_waits(&installation, &task);
    kill_all(&installation, "__supervise");
    let failed = installation.until(&task, "failed");
    assert_eq!(failed["failure_reason"], "runtime_recovery");
    released(&installation, &task);
    let retry = format!("{key}#2");
    installation.until(&retry, "running");
    fs::write(directory.join("go"), "").unwrap();
    installation.until(&retry, "completed");
    assert_clean(&directory);
    installation.assert_verified();
}

#[test]
fn after_kill_9_of_the_agent_the_task_fails_and_says_by_which_signal() {
    let installation = Installation::start("kill-agent");
    let directory = installation.directory("game");
    let project = installation.project("Game", &directory);
    installation.agent("dev", "echo $$ > agent.pid; while :; do sleep 0.05; done");
    let task = format!("{}#1", installation.issue("Die", &project, "dev"));
    installation.until(&task, "running");
    let pid = eventually(Duration::from_secs(20), "the agent's id", || {
        let text = fs::read_to_string(directory.join("agent.pid")).unwrap_or_default();
        if text.ends_with('\n') { Ok(text.trim().parse::<i32>().unwrap()) } else { Err(text) }
    });
    kill(pid);
    let failed = installation.until(&task, "failed");
    assert_eq!(failed["failure_reason"], "agent_error.process_failure");
    assert!(failed["error"].as_str().unwrap_or_default().contains('9'), "{failed}");
    released(&installation, &task);
    assert_clean(&directory);
    installation.assert_verified();
}

#[test]
fn after_kill_9_of_postgresql_everything_acknowledged_is_there_and_the_run_ends_well() {
    let mut installation = Installation::new("kill-postgres");
    installation.durable();
    installation.up();
    let directory = installation.directory("game");
    let project = installation.project("Game", &directory);
    installation.agent("dev", WAITS);
    let task = format!("{}#1", installation.issue("Survive", &project, "dev"));
    until_it_waits(&installation, &task);
    let before = installation.story(&task);
    kill_all(&installation, "postgres -D");
    fs::write(directory.join("go"), "").unwrap();
    installation.until(&task, "completed");
    let after = installation.story(&task);
    assert_eq!(after[..before.len()], before[..], "what was recorded stays recorded");
    released(&installation, &task);
    assert_clean(&directory);
    installation.assert_verified();
}

#[test]
fn a_clean_stop_ends_every_agent_and_the_next_start_tries_the_task_again() {
    let mut installation = Installation::start("clean-stop");
    let directory = installation.directory("game");
    let project = installation.project("Game", &directory);
    installation.agent("dev", WAITS);
    let key = installation.issue("Interrupted", &project, "dev");
    let task = format!("{key}#1");
    until_it_waits(&installation, &task);
    let parked = format!("{}#1", installation.issue("Waits", &project, "dev"));
    installation.until(&parked, "waiting_local_directory");
    assert!(installation.stop().success(), "{}", installation.log());
    assert_eq!(processes(&installation, WAITED_FOR), Vec::<i32>::new(), "no agent outlives a clean stop");
    assert_clean(&directory);
    installation.up();
    let failed = installation.until(&task, "failed");
    assert_eq!(failed["failure_reason"], "runtime_recovery");
    // The parked one kept its place: it runs before the retry, which queues at the end.
    installation.until(&parked, "running");
    fs::write(directory.join("go"), "").unwrap();
    installation.until(&parked, "completed");
    let retry = format!("{key}#2");
    let running = installation.until(&retry, "running");
    assert_eq!(running["attempt"], 1, "an interruption by a clean stop is no attempt");
    fs::write(directory.join("go"), "").unwrap();
    installation.until(&retry, "completed");
    installation.assert_verified();
}
