//! Webhooks of a whole installation that is killed in the middle of a delivery.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::installation::{Installation, eventually};
use crate::support::receiver::{Receiver, Reply};

#[test]
fn after_kill_9_in_the_middle_of_a_delivery_it_is_sent_again_under_its_id_and_in_order() {
    let mut installation = Installation::new("webhooks");
    installation.set("MULTICA_WEBHOOK_TO", "127.0.0.1");
    installation.up();
    let receiver = Receiver::new();
    let url = receiver.url();
    let words = ["webhook", "create", "--name", "chat", "--url", &url, "--type", "issue"];
    assert!(installation.text(&words).trim().starts_with("whsec_"));
    let directory = installation.directory("game");
    let project = installation.project("Game", &directory);
    receiver.answers(|_| Reply::Hang);
    installation.text(&["issue", "create", "--title", "Survive", "--project", &project]);
    eventually(Duration::from_secs(30), "a delivery in the middle", || !receiver.got().is_empty());
    let first = receiver.got()[0].clone();
    // What comes later of the same issue waits behind it.
    let comments = format!("/api/issues/{}/comments", first.stream());
    installation.call("POST", &comments, &serde_json::json!({"content": "Are you there?"})).unwrap();
    installation.kill_up();
    // While nobody is there, nothing comes; what the dead server had sent may have been taken.
    receiver.answers(|_| Reply::Status(200));
    receiver.let_go();
    let key = first.stream();
    installation.up();
    installation.text(&["issue", "create", "--title", "And after", "--project", &project]);
    eventually(Duration::from_secs(60), "everything", || {
        let got = receiver.got();
        let again = got.iter().skip(1).any(|one| one.id() == first.id());
        let other = got.iter().any(|one| one.stream() != key);
        let shown = installation.try_json(&["webhook", "show", "chat"])?;
        let done = again && other && shown["progress"]["waiting"] == 0;
        if done { Ok(()) } else { Err(format!("{again} {other} {shown}\n{}", installation.log())) }
    });
    let got = receiver.got();
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for one in &got {
        seen.insert(one.id());
        let before = last.entry(one.stream()).or_default();
        assert!(one.position() >= *before, "{} after {before}", one.position());
        *before = one.position();
    }
    // All that happened, each under an id of its own.
    let feed = installation.call("GET", "/api/feed?limit=1000&type=issue", &serde_json::Value::Null).unwrap();
    assert_eq!(seen.len(), feed["entries"].as_array().unwrap().len(), "{feed}");
    installation.assert_verified();
}
