//! `multica up` itself: its address, its token, its place.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use super::installation::Installation;
use super::starts::assert_nothing_left;

fn config(installation: &Installation) -> Value {
    let text = fs::read_to_string(installation.profile("local").join("config.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn port(installation: &Installation) -> u16 {
    config(installation)["server_url"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap()
}

fn tokens_issued(installation: &Installation) -> usize {
    let asked = ["feed", "--after", "0", "--type", "workspace.token_issued", "--output", "json"];
    installation.text(&asked).lines().count()
}

fn put(path: &Path, name: &str, value: Value) {
    let mut config: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    config[name] = value;
    fs::write(path, config.to_string()).unwrap();
}

/// It hangs up on everybody, until the test ends.
fn another_program_listens_at(port: u16) {
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || taken.incoming().for_each(drop));
}

#[test]
fn an_installation_keeps_its_port_and_replaces_a_token_that_no_longer_works() {
    let mut installation = Installation::start("up");
    let first = port(&installation);
    let project = installation.json(&["project", "create", "--title", "Game"]);
    assert_eq!(tokens_issued(&installation), 1);

    // A second one of the same profile is refused and disturbs nobody.
    let data = installation.base().join("data").display().to_string();
    let second = installation.cli(&["up", "--data-dir", &data]);
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("error:") && said.contains("Next:"), "{said}");
    assert_eq!(port(&installation), first, "the running one's address was overwritten");
    installation.json(&["project", "list"]);
    let elsewhere = installation.base().join("elsewhere").display().to_string();
    let before = config(&installation);
    let second = installation.cli(&["up", "--data-dir", &elsewhere]);
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("runs already (pid ") && said.contains("--profile"), "{said}");
    assert_eq!(config(&installation), before, "the running one's profile was overwritten");
    assert!(!Path::new(&elsewhere).exists());

    // Its daemon isn't stopped alone, which would end the rest of it; its log is found.
    let stopped = installation.cli(&["daemon", "stop", "--now"]);
    assert!(!stopped.status.success());
    let said = String::from_utf8_lossy(&stopped.stderr);
    assert!(said.contains("part of `multica up`") && said.contains("kill -INT "), "{said}");
    assert!(installation.text(&["daemon", "logs"]).contains("the server is ready"));

    // No agent gets to where the database is; the workspace can be named by its slug.
    let project_of_data =
        installation.json(&["--workspace-id", "local", "project", "create", "--title", "Data"]);
    let id = project_of_data["id"].as_str().unwrap();
    let attach = ["project", "resource", "add", id, "--type", "local_directory", "--local-path", &data];
    let refused = installation.cli(&attach);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("daemon"), "{refused:?}");
    assert!(!refused.status.success());

    // The same address again, the same things there, no further token.
    assert!(installation.stop().success());
    let log = installation.log();
    assert!(log.contains("Stopping; nothing runs.") && log.contains("Stopped after "), "{log}");
    installation.up();
    assert_eq!(port(&installation), first);
    assert!(installation.json(&["project", "list"]).to_string().contains(project["id"].as_str().unwrap()));
    assert_eq!(tokens_issued(&installation), 1);

    // A closed terminal stops it the same way: no database is left behind.
    assert!(installation.stop_by("HUP").success());
    assert!(installation.log().matches("Stopped after ").count() == 2, "{}", installation.log());
    assert_nothing_left(&installation);

    // A token that isn't known any more is replaced, and the log says so; a taken port gives the next free.
    let path = installation.profile("local").join("config.json");
    put(&path, "token", json!("mul_0000000000000000000000000000000000000000000"));
    put(&path, "mine", json!({"kept": true}));
    another_program_listens_at(first);
    installation.up();
    assert_ne!(port(&installation), first);
    assert_eq!(tokens_issued(&installation), 2);
    assert_eq!(config(&installation)["mine"]["kept"], true, "a key of somebody else's is gone");
    assert!(installation.json(&["project", "list"]).to_string().contains(project["id"].as_str().unwrap()));
    assert!(installation.log().contains(&format!("Port {first} is in use by another program")));
    installation.assert_verified();
}
