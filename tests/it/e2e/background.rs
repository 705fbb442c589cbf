//! The daemon as a process in the background, and what people watch while it works.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use super::installation::{Installation, eventually};

/// A second profile for the same server: its daemon is a process of its own.
fn second_profile(installation: &Installation) {
    let folder = installation.profile("second");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(installation.profile("local").join("config.json"), folder.join("config.json")).unwrap();
}

fn start(installation: &Installation, more: &[&str]) -> std::process::Output {
    let root = installation.base().join("second-work").display().to_string();
    let arguments =
        ["--profile", "second", "daemon", "start", "--daemon-id", "second", "--workspaces-root", &root];
    installation.cli(&[&arguments[..], more].concat())
}

#[test]
fn a_daemon_in_the_background_works_is_looked_at_and_stops() {
    let installation = Installation::start("background");
    second_profile(&installation);
    let second = |verb: &[&str]| installation.json(&[&["--profile", "second", "daemon"], verb].concat());
    assert_eq!(second(&["status"])["status"], "stopped");

    let started = start(&installation, &["--debug"]);
    let said = String::from_utf8_lossy(&started.stdout).into_owned();
    assert!(started.status.success() && said.contains("runs (pid"), "{said}");
    let status = second(&["status"]);
    assert_eq!((&status["status"], &status["daemon_id"]), (&"running".into(), &"second".into()), "{status}");
    assert!(!start(&installation, &[]).status.success(), "there is one already");

    let mut agent =
        vec!["agent", "create", "--name", "dev", "--provider", "command", "--daemon-id", "second"];
    agent.extend(["--command", "sh", "--arg=-c", "--arg=echo first; sleep 1; echo last"]);
    installation.json(&agent);
    let issue = installation.json(&["issue", "create", "--title", "Do it", "--assignee", "dev"]);
    let task = format!("{}#1", issue["identifier"].as_str().unwrap());
    // Ends by itself, when the task does.
    let followed = installation.text(&["task", "logs", "-f", &task]);
    assert!(followed.contains("first") && followed.contains("last"), "{followed}");
    assert_eq!(installation.until(&task, "completed")["daemon_id"], "second");

    let log = installation.text(&["--profile", "second", "daemon", "logs"]);
    assert!(log.contains("claimed") && log.contains("DEBUG"), "{log}");
    assert_eq!(second(&["stop"])["stopped"], true);
    assert_eq!(second(&["stop"])["stopped"], false);
    assert_eq!(second(&["status"])["status"], "stopped");
    let daemons = installation.json(&["daemon", "list"]).to_string();
    assert!(daemons.contains("\"second\""), "{daemons}");
}

#[test]
fn a_daemon_that_the_server_refuses_says_so_where_it_was_started() {
    let mut installation = Installation::start("background-refused");
    second_profile(&installation);
    installation.set("MULTICA_TOKEN", "mul_nobody-s");
    let refused = start(&installation, &[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("refuses") && said.contains("Next: "), "{said}");
    let log = installation.text(&["--profile", "second", "daemon", "logs"]);
    assert!(log.contains("refuses"), "{log}");
}

#[test]
fn the_feed_is_followed_as_things_happen() {
    let installation = Installation::start("follow");
    let out = installation.base().join("feed.out");
    let mut follower = installation
        .command()
        .args(["feed", "-f", "--type", "project.created", "--output", "json"])
        .stdin(std::process::Stdio::null())
        .stdout(fs::File::create(&out).unwrap())
        .spawn()
        .unwrap();
    let entries = || -> Vec<Value> {
        let text = fs::read_to_string(&out).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    for n in 1..=2 {
        installation.json(&["project", "create", "--title", &format!("Project {n}")]);
        eventually(Duration::from_secs(20), "the entry", || {
            let seen = entries();
            if seen.len() == n { Ok(()) } else { Err(format!("{seen:?}")) }
        });
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert!(entries().iter().all(|entry| entry["type"] == "project.created"));
}
