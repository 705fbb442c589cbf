//! `multica up` itself: its address, its token, its place.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use super::installation::Installation;

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

    // The same address again, the same things there, no further token.
    assert!(installation.stop().success());
    installation.up();
    assert_eq!(port(&installation), first);
    assert_eq!(installation.json(&["project", "list"])[0]["id"], project["id"]);
    assert_eq!(tokens_issued(&installation), 1);

    // A token that isn't known any more is replaced, and the log says so; a taken port gives the next free.
    assert!(installation.stop().success());
    let path = installation.profile("local").join("config.json");
    put(&path, "token", json!("mul_0000000000000000000000000000000000000000000"));
    put(&path, "mine", json!({"kept": true}));
    let taken = TcpListener::bind(("127.0.0.1", first)).unwrap();
    installation.up();
    assert_ne!(port(&installation), first);
    assert_eq!(tokens_issued(&installation), 2);
    assert_eq!(config(&installation)["mine"]["kept"], true, "a key of somebody else's is gone");
    assert_eq!(installation.json(&["project", "list"])[0]["id"], project["id"]);
    drop(taken);
    installation.assert_verified();
}
