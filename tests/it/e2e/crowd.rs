//! Many tasks, few directories, several daemons: never two in one directory, first come first served.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::installation::{Installation, eventually, signal};

const TASKS: usize = 50;
const DIRECTORIES: usize = 5;
const DAEMONS: usize = 3;

/// Exclusive creation: a second one at the same time would fail, and its task with it. The first of each
/// directory stays until all have come, so that there are queues.
const SCRIPT: &str = "set -C; : > .taken || exit 9; while [ ! -e ../go ]; do sleep 0.1; done; rm .taken";

/// A daemon beside the one of `multica up`; stopped when dropped.
pub(super) struct ExtraDaemon(Child);

impl ExtraDaemon {
    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    /// As `kill -9` does.
    pub(super) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for ExtraDaemon {
    fn drop(&mut self) {
        if self.0.try_wait().ok().flatten().is_none() {
            signal(i32::try_from(self.0.id()).unwrap(), "TERM");
        }
        let _ = self.0.wait();
    }
}

/// Starts a daemon with a profile of its own, and that name.
pub(super) fn extra_daemon(installation: &Installation, name: &str) -> ExtraDaemon {
    let profile = installation.profile(name);
    fs::create_dir_all(&profile).unwrap();
    fs::copy(installation.profile("local").join("config.json"), profile.join("config.json")).unwrap();
    let log = installation.base().join(format!("{name}.log"));
    let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
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

/// Waits until the server sees that daemon.
pub(super) fn online(installation: &Installation, name: &str) {
    eventually(Duration::from_secs(60), "the second machine", || {
        let all = installation.daemons()?;
        let there = all["daemons"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["daemon_id"] == name && one["status"] == "online"));
        if there { Ok(()) } else { Err(all.to_string()) }
    });
}

#[test]
fn fifty_tasks_on_five_directories_by_three_daemons_never_meet() {
    let installation = Installation::start("crowd");
    let names: Vec<String> = (1..DAEMONS).map(|n| format!("extra{n}")).collect();
    let extra: Vec<ExtraDaemon> = names.iter().map(|name| extra_daemon(&installation, name)).collect();
    let daemons = eventually(Duration::from_secs(90), "three daemons", || {
        let list = installation.daemons()?;
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
                "project",
                "resource",
                "add",
                &id,
                "--type",
                "local_directory",
                "--local-path",
                &path,
                "--daemon-id",
                daemon,
            ]);
        }
        projects.push(id);
    }
    let mut agents = Vec::new();
    for (n, daemon) in daemons.iter().enumerate() {
        let name = format!("agent{n}");
        let script = format!("--arg={SCRIPT}");
        let agent = installation.json(&[
            "agent",
            "create",
            "--name",
            &name,
            "--provider",
            "command",
            "--daemon-id",
            daemon,
            "--command",
            "sh",
            "--arg=-c",
            &script,
            "--max-concurrent-tasks",
            "50",
        ]);
        agents.push(agent["id"].clone());
    }
    for n in 0..TASKS {
        let issue = json!({"title": format!("Task {n}"), "project_id": projects[n % DIRECTORIES],
            "assignee_type": "agent", "assignee_id": agents[n % DAEMONS]});
        installation.call("POST", "/api/issues", &issue).unwrap();
    }
    let of_status = |wanted: &str| {
        let list = installation.call("GET", "/api/tasks?limit=200", &Value::Null)?;
        let tasks = list["tasks"].as_array().cloned().unwrap_or_default();
        let found: Vec<Value> = tasks.iter().filter(|task| task["status"] == wanted).cloned().collect();
        Ok::<_, String>((found, tasks))
    };
    eventually(Duration::from_secs(60), "that all but one of each directory wait", || {
        let (waiting, tasks) = of_status("waiting_local_directory")?;
        if waiting.len() == TASKS - DIRECTORIES { Ok(()) } else { Err(format!("{tasks:?}")) }
    });
    fs::write(installation.base().join("code/go"), "").unwrap();
    let tasks = eventually(Duration::from_secs(180), "the end of all tasks", || {
        let list = installation.call("GET", "/api/tasks?limit=200", &Value::Null)?;
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

/// Every event of the log, page by page.
fn whole_feed(installation: &Installation) -> Vec<Value> {
    let mut entries: Vec<Value> = Vec::new();
    loop {
        let after = entries.last().map_or(0, |entry| entry["position"].as_i64().unwrap()).to_string();
        let page = installation.text(&["feed", "--after", &after, "--limit", "500", "--output", "json"]);
        let page: Vec<Value> = page.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        if page.is_empty() {
            return entries;
        }
        entries.extend(page);
    }
}

fn assert_first_come_first_served(installation: &Installation) {
    let mut arrived: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut promoted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut inside: BTreeMap<String, String> = BTreeMap::new();
    // On a machine with too much to do a promotion may be taken back for want of a receipt: such a task
    // keeps its place, the next goes on, and it stands in neither order.
    let mut taken_back: BTreeSet<String> = BTreeSet::new();
    for entry in whole_feed(installation) {
        let kind = entry["type"].as_str().unwrap();
        if !kind.starts_with("directory.") {
            continue;
        }
        let directory = entry["stream"]["id"].as_str().unwrap().to_owned();
        let task = entry["links"].as_array().unwrap().iter().find(|link| link["rel"] == "task").unwrap();
        let task = task["id"].as_str().unwrap().to_owned();
        match kind {
            "directory.acquired" | "directory.promoted" => {
                let other = inside.insert(directory.clone(), task.clone());
                assert_eq!(other, None, "two hold one directory by the log");
            }
            "directory.queued" if inside.get(&directory) == Some(&task) => {
                inside.remove(&directory);
                taken_back.insert(task);
                continue;
            }
            "directory.released" => assert_eq!(inside.remove(&directory), Some(task.clone())),
            _ => {}
        }
        match kind {
            "directory.queued" => arrived.entry(directory).or_default().push(task),
            "directory.promoted" => promoted.entry(directory).or_default().push(task),
            _ => {}
        }
    }
    assert_eq!(inside, BTreeMap::new(), "a directory is still held");
    assert_eq!(arrived.len(), DIRECTORIES, "each directory had a queue");
    for order in arrived.values_mut().chain(promoted.values_mut()) {
        order.retain(|task| !taken_back.contains(task));
    }
    assert_eq!(arrived, promoted, "in each directory the order of arrival is the order of promotion");
}
