//! A task is stranded, and who looks into it finds out why: from `explain` over `replay` to a file that a
//! colleague opens.

use std::time::Duration;

use super::crowd::{extra_daemon, online};
use super::installation::{Installation, binary, eventually};

#[test]
fn a_task_stranded_by_a_daemon_killed_while_it_prepares_is_explained_replayed_and_exported() {
    // A machine is given up after a second of silence; it may come back for two minutes.
    let mut installation = Installation::new("stranded");
    let limits = r#"{"heartbeat":200,"unreachable":1000,"reconnect_grace":120000,"sweep":100,"drain":3000}"#;
    installation.set("MULTICA_LIMITS", limits);
    let point = installation.base().join("point");
    installation.set("MULTICA_FAILPOINT", &format!("@{}", point.display()));
    installation.up();
    let mut far = extra_daemon(&installation, "far");
    online(&installation, "far");

    // Its agent works in a directory of that machine.
    let directory = installation.directory("game");
    let project = installation.json(&["project", "create", "--title", "Game"]);
    let project = project["id"].as_str().unwrap().to_owned();
    let path = directory.display().to_string();
    let attach = ["project", "resource", "add", &project, "--type", "local_directory", "--local-path", &path];
    installation.json(&[&attach[..], &["--daemon-id", "far"]].concat());
    let agent = ["agent", "create", "--name", "dev", "--provider", "command", "--command", "sh"];
    installation.json(&[&agent[..], &["--arg=-c", "--arg=cat", "--daemon-id", "far"]].concat());

    // It is killed with its supervisor while it gets the directory ready.
    std::fs::write(&point, "locked:1:stop").unwrap();
    let task = format!("{}#1", installation.issue("Fix the door", &project, "dev"));
    let supervisor = eventually(Duration::from_secs(60), "the step", || {
        let hit = std::fs::read_to_string(installation.base().join("point.hit")).unwrap_or_default();
        hit.strip_suffix('\n').and_then(|pid| pid.parse::<i32>().ok()).ok_or_else(|| installation.log())
    });
    far.kill();
    super::kill::kill(supervisor);

    // Nothing moves. Why?
    let said = eventually(Duration::from_secs(60), "the cause", || {
        let said = installation.text(&["task", "explain", &task]);
        if said.contains("isn't there") && said.contains("multica daemon start") {
            Ok(said)
        } else {
            Err(said)
        }
    });
    assert!(!said.to_lowercase().contains("unknown"), "{said}");
    assert!(
        !said.contains("file system"),
        "a machine that isn't there says nothing of its file system: {said}"
    );

    // How did it get there? Each step with its state, as this build decides it.
    let replayed = installation.text(&["task", "replay", &task]);
    for wanted in ["→ queued", "→ dispatched, claim 1 of far", "→ held"] {
        assert!(replayed.contains(wanted), "{wanted} in\n{replayed}");
    }
    assert!(!replayed.contains("→ running") && !replayed.contains("today:"), "{replayed}");

    // A colleague opens the file, without this server.
    let file = installation.base().join("stranded.jsonl").display().to_string();
    installation.json(&["task", "export", &task, "--file", &file]);
    assert!(installation.stop().success());
    let opened = std::process::Command::new(binary())
        .args(["replay", &file])
        .env_clear()
        .env("HOME", installation.base().join("nowhere"))
        .output()
        .unwrap();
    assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
    let opened = String::from_utf8_lossy(&opened.stdout);
    let half = replayed.lines().count() / 2;
    assert!(opened.lines().take(half).eq(replayed.lines().take(half)), "{opened}\n---\n{replayed}");
    let exported = std::fs::read_to_string(&file).unwrap();
    assert!(!exported.contains(&path), "the machine's paths stay there: {exported}");
}
