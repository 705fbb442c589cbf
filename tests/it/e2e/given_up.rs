//! A machine is given up while its agent works on, and comes back; and one directory under two paths.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::crowd::{extra_daemon, online};
use super::installation::{Installation, eventually, signal};

/// Exclusive: a second one beside it would fail. Each leaves its process id.
const SCRIPT: &str = "set -C; : > .taken || exit 9; echo $$ >> ../agents; trap 'rm -f .taken; exit 1' TERM; \
    while [ ! -e ../go ]; do sleep 0.05; done; rm .taken";

fn agents(installation: &Installation) -> Vec<i32> {
    let noted = fs::read_to_string(installation.base().join("code/agents")).unwrap_or_default();
    noted.lines().filter_map(|line| line.parse().ok()).collect()
}

fn lives(pid: i32) -> bool {
    fs::exists(format!("/proc/{pid}/exe")).unwrap_or_default()
}

#[test]
fn a_machine_that_was_given_up_stops_its_agent_before_the_next_one_works_there() {
    let installation = Installation::start("given-up");
    let far = extra_daemon(&installation, "far");
    online(&installation, "far");
    let directory = installation.directory("game");
    let project = installation.json(&["project", "create", "--title", "Game"]);
    let project = project["id"].as_str().unwrap().to_owned();
    let path = directory.display().to_string();
    let attach = ["project", "resource", "add", &project, "--type", "local_directory", "--local-path", &path];
    installation.json(&[&attach[..], &["--daemon-id", "far"]].concat());
    let agent = ["agent", "create", "--name", "dev", "--provider", "command", "--command", "sh"];
    installation.json(&[&agent[..], &["--arg=-c", "--arg", SCRIPT, "--daemon-id", "far"]].concat());
    let key = installation.issue("Work on", &project, "dev");
    let (first, second) = (format!("{key}#1"), format!("{key}#2"));
    installation.until(&first, "running");
    let stale = eventually(Duration::from_secs(20), "the agent", || {
        agents(&installation).first().copied().ok_or_else(|| installation.log())
    });

    // Its daemon hears nothing for a while, the agent works on, and somebody gives the machine up.
    let daemon = i32::try_from(far.id()).unwrap();
    signal(daemon, "STOP");
    installation.text(&["daemon", "declare-dead", "far"]);
    assert_eq!(installation.until(&first, "failed")["failure_reason"], "runtime_offline");
    assert!(lives(stale), "nothing can stop it yet");
    let said = installation.text(&["task", "explain", &first]);
    assert!(said.contains("was told to stop what it left"), "{said}");

    signal(daemon, "CONT");
    installation.until(&second, "running");
    eventually(Duration::from_secs(30), "the second agent", || {
        if agents(&installation).len() == 2 { Ok(()) } else { Err(installation.log()) }
    });
    assert!(!lives(stale), "the stale agent is stopped first");
    fs::write(installation.base().join("code/go"), "").unwrap();
    installation.until(&second, "completed");
    let story = installation.story(&first);
    let ending = ["task.cancel_requested", "task.failed", "task.cancel_received", "task.cancel_acknowledged"];
    let told: Vec<&str> = story.iter().map(String::as_str).filter(|kind| ending.contains(kind)).collect();
    assert_eq!(told, ending, "{story:?}");
    installation.assert_verified();
    drop(far);
}

#[test]
fn tasks_that_come_by_a_bind_mount_wait_in_the_directory_s_own_queue() {
    let installation = Installation::start("mounted");
    let directory = installation.directory("game");
    let mount = installation.directory("mount");
    let Some(_mounted) = Mounted::bind(&directory, &mount) else {
        eprintln!("this account or system can't bind mount: nothing to see here");
        return;
    };
    let straight = installation.project("Straight", &directory);
    let around = installation.project("Around", &mount);
    installation.agent("dev", SCRIPT);
    let first = format!("{}#1", installation.issue("First", &straight, "dev"));
    installation.until(&first, "running");
    let second = format!("{}#1", installation.issue("Second", &around, "dev"));
    installation.until(&second, "waiting_local_directory");
    let third = format!("{}#1", installation.issue("Third", &straight, "dev"));
    installation.until(&third, "waiting_local_directory");
    let waits = installation.task(&second);
    assert_eq!(waits["waiting"]["holder_name"], first.as_str(), "{waits:#}");
    assert_eq!(installation.task(&third)["waiting"]["place"], 2);
    fs::write(installation.base().join("code/go"), "").unwrap();
    for task in [&first, &second, &third] {
        installation.until(task, "completed");
    }
    let shown = installation.json(&["directory", "list"]);
    assert_eq!(shown["directories"].as_array().map(Vec::len), Some(1), "{shown:#}");
    installation.assert_verified();
}

/// A bind mount, until it is dropped.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn bind(from: &std::path::Path, to: &std::path::Path) -> Option<Self> {
        let done = Command::new("mount").arg("--bind").args([from, to]).output().ok()?;
        done.status.success().then(|| Self(to.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
