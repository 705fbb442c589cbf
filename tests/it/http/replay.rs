//! A task's history leaves its server and is gone through elsewhere.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::client::Scene;

/// The program with no home, no profile, no server.
fn offline(words: &[&str], folder: &std::path::Path) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_multica"))
        .args(words)
        .env_clear()
        .env("HOME", folder)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_s_history_opens_without_its_server_and_is_decided_the_same_again() {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("The secret door").await;
    let (parked, _) = scene.parked("Paint it").await;
    let done = json!({"output": "All doors are open now.", "work_dir": "/srv/private/place"});
    scene.report(&first, generation, 9, "complete", done).await.is(200);
    assert_eq!(scene.status(&parked).await, "dispatched");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("LOCA-1.jsonl");
    let path = file.display().to_string();
    let told = scene.served.cli(&["task", "export", "LOCA-1#1", "--file", &path]).await;
    assert!(told.contains("multica replay"), "{told}");
    let bundle = std::fs::read_to_string(&file).unwrap();
    for private in ["/srv/private/place", "All doors", "The secret door", "/srv/game", &scene.served.token] {
        assert!(!bundle.contains(private), "{private} left with the bundle:\n{bundle}");
    }
    // What is there is not written over.
    let (code, said) = scene.served.cli_refused(&["task", "export", "LOCA-1#1", "--file", &path]).await;
    assert!(code == 1 && said.contains("File exists"), "{code} {said}");

    let (fine, shown, summary) = offline(&["replay", &path], folder.path());
    assert!(fine, "{summary}");
    for wanted in ["→ queued", "→ dispatched, claim 1", "→ held", "→ running", "→ completed"] {
        assert!(shown.contains(wanted), "{wanted} in\n{shown}");
    }
    assert!(!shown.contains("today:") && summary.contains("decides the same"), "{shown}{summary}");
    // The parked one's events in the same directory are folded, not told.
    assert!(!shown.contains("LOCA-2#1 waits"), "{shown}");
    let online = scene.served.cli(&["task", "replay", "LOCA-1#1"]).await;
    assert_eq!(online, shown);

    // The other task's story: it waited behind the first.
    let other = scene.served.cli(&["task", "replay", "LOCA-2#1", "--output", "json"]).await;
    let other: Value = serde_json::from_str(&other).unwrap();
    assert_eq!(other["counts"]["otherwise"], 0, "{other:#}");
    let states: Vec<&str> =
        other["steps"].as_array().unwrap().iter().filter_map(|step| step["state"].as_str()).collect();
    assert!(states.iter().any(|state| state.contains("waits for its directory")), "{states:?}");
    assert!(states.contains(&"held, 1 waits"), "{states:?}");

    // Up to a position only.
    let until = other["steps"][1]["position"].to_string();
    let part = scene.served.cli(&["task", "replay", "LOCA-2#1", "--until", &until]).await;
    assert!(part.contains("→ ") && !part.contains("waits for its directory"), "{part}");

    // History that these rules wouldn't have written is named; what is no bundle is refused.
    let forged = bundle.replacen("\"type\":\"task.started\"", "\"type\":\"task.claim_received\"", 1);
    std::fs::write(folder.path().join("forged"), forged).unwrap();
    let (fine, shown, summary) = offline(&["replay", "forged"], folder.path());
    assert!(fine && shown.contains("today: ") && summary.contains("otherwise"), "{shown}{summary}");
    let cut = &bundle[..bundle.len() - 20];
    for (name, text, said) in [
        ("cut", cut, "line"),
        ("none", "hello\n", "no bundle"),
        ("newer", r#"{"format":"multica.bundle","version":9}"#, "version 9"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
        let (fine, _, error) = offline(&["replay", name], folder.path());
        assert!(!fine && error.contains(said) && error.contains("Next:"), "{name}: {error}");
    }
    let (fine, _, error) = offline(&["replay", "not-there"], folder.path());
    assert!(!fine && error.contains("not-there"), "{error}");
    scene.finish().await;
}
