//! Many tasks, few directories, several daemons: never two in one directory, first come first served.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::installation::{Installation, eventually, signal};

const TASKS: usize = 50;
const DIRECTORIES: usize = 5;
const DAEMONS: usize = 3;

/// Exclusive creation: a second one at the same time would fail, and its task with it.
const SCRIPT: &str = "set -C; : > .taken || exit 9; sleep 0.02; rm .taken";

struct ExtraDaemon(Child);

impl Drop for ExtraDaemon {
    fn drop(&mut self) {
        if self.0.try_wait().ok().flatten().is_none() {
            signal(i32::try_from(self.0.id()).unwrap(), "TERM");
        }
        let _ = self.0.wait();
    }
}

fn extra_daemon(installation: &Installation, name: &str) -> ExtraDaemon {
    let profile = installation.profile(name);
    fs::create_dir_all(&profile).unwrap();
    fs::copy(installation.profile("local").join("config.json"), profile.join("config.json")).unwrap();
    let log = fs::File::create(installation.base().join(format!("{name}.log"))).unwrap();
    let child = installation
        .command()
        .args(["--profile", name, "daemon", "start", "--foreground", "--daemon-id", name])
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    ExtraDaemon(child)
}

#[test]
fn fifty_tasks_on_five_directories_by_three_daemons_never_meet() {
    let installation = Installation::start("crowd");
    let names: Vec<String> = (1..DAEMONS).map(|n| format!("extra{n}")).collect();
    let extra: Vec<ExtraDaemon> = names.iter().map(|name| extra_daemon(&installation, name)).collect();
    let daemons = eventually(Duration::from_secs(30), "three daemons", || {
        let list = installation.try_json(&["daemon", "list"])?;
        let all: Vec<Value> = list["daemons"].as_array().cloned().unwrap_or_default();
        let online: Vec<String> = all
            .iter()
            .filter(|daemon| daemon["status"] == "online")
            .map(|daemon| daemon["daemon_id"].as_str().unwrap().to_owned())
            .collect();
        if online.len() == DAEMONS { Ok(online) } else { Err(list.to_string()) }
    });
    let directories: Vec<_> = (0..DIRECTORIES).map(|n| installation.directory(&format!("d{n}"))).collect();
    // The same real directory is attached for each daemon: their tasks share one queue.
    let mut projects = Vec::new();
    for (n, directory) in directories.iter().enumerate() {
        let project = installation.json(&["project", "create", "--title", &format!("P{n}")]);
        let id = project["id"].as_str().unwrap().to_owned();
        let path = directory.display().to_string();
        for daemon in &daemons {
            installation.json(&[
                "project", "resource", "add", &id, "--type", "local_directory", "--local-path", &path, "--daemon-id",
                daemon,
            ]);
        }
        projects.push(id);
    }
    for (n, daemon) in daemons.iter().enumerate() {
        let name = format!("agent{n}");
        let script = format!("--arg={SCRIPT}");
        installation.json(&[
            "agent", "create", "--name", &name, "--provider", "command", "--daemon-id", daemon, "--command", "sh",
            "--arg=-c", &script, "--max-concurrent-tasks", "50",
        ]);
    }
    for n in 0..TASKS {
        installation.issue(&format!("Task {n}"), &projects[n % DIRECTORIES], &format!("agent{}", n % DAEMONS));
    }
    let tasks = eventually(Duration::from_secs(180), "the end of all tasks", || {
        let list = installation.try_json(&["task", "list", "--all"])?;
        let tasks = list["tasks"].as_array().cloned().unwrap_or_default();
        let over = tasks.iter().filter(|task| !task["completed_at"].is_null()).count();
        if over == TASKS { Ok(tasks) } else { Err(format!("{over} of {} are over", tasks.len())) }
    });
    let ended: BTreeMap<&str, usize> = tasks.iter().fold(BTreeMap::new(), |mut counts, task| {
        *counts.entry(task["status"].as_str().unwrap()).or_default() += 1;
        counts
    });
    assert_eq!(ended, BTreeMap::from([("completed", TASKS)]), "two met, or one was lost");
    assert_first_come_first_served(&installation);
    installation.assert_verified();
    drop(extra);
}

fn assert_first_come_first_served(installation: &Installation) {
    let feed = installation.json(&["feed", "--after", "0"]);
    let mut arrived: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut promoted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in feed["entries"].as_array().unwrap() {
        let into = match entry["type"].as_str().unwrap() {
            "directory.queued" => &mut arrived,
            "directory.promoted" => &mut promoted,
            _ => continue,
        };
        let task = entry["links"].as_array().unwrap().iter().find(|link| link["rel"] == "task").unwrap();
        let queue = into.entry(entry["stream"]["id"].as_str().unwrap().to_owned()).or_default();
        queue.push(task["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(arrived.len(), DIRECTORIES, "each directory had a queue");
    assert_eq!(arrived, promoted, "in each directory the order of arrival is the order of promotion");
}
