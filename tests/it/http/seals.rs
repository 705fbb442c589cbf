//! Seals outside the database, made by hand and by the server, and what a verification makes of them.

use std::time::Duration;

use multica::domain::operation::OperationEvent;
use multica::domain::{Event, Family, StreamKey};
use multica::kernel::limits::{Limits, Millis};
use multica::seal::Place;
use multica::store::read;
use serde_json::json;

use super::client::{Served, limits};
use crate::support::eventually;

async fn sealed(served: &Served) -> Vec<(i64, i64)> {
    let stream = StreamKey::new(Family::Operation, multica::domain::operation::STREAM);
    let events = read::stream(&served.app.store, stream).await.unwrap();
    let of_seals = events.iter().filter_map(|event| match &event.event {
        Event::Operation(OperationEvent::Sealed(sealed)) => Some((sealed.up_to, event.position.unwrap())),
        _ => None,
    });
    of_seals.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seal_is_kept_where_it_is_asked_for_and_a_verification_holds_the_log_against_it() {
    let served = Served::new().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seals");
    let place = format!("file:{}", path.display());
    let (_, said) = served.cli_refused(&["seal"]).await;
    assert!(said.contains("--to file:PATH"), "{said}");
    let (_, said) = served.cli_refused(&["verify", "--seals", &place]).await;
    assert!(said.contains("can't be read"), "{said}");
    let said = served.cli(&["seal", "--to", &place]).await;
    assert!(said.starts_with("Sealed at position ") && said.contains(&place), "{said}");
    let (_, said) = served.cli_refused(&["seal", "--to", "bogus"]).await;
    assert!(said.contains("file:PATH"), "{said}");
    let repository = folder.path().join("repository");
    std::fs::create_dir(&repository).unwrap();
    let init = std::process::Command::new("git").args(["init", "--quiet"]).arg(&repository).status();
    assert!(init.unwrap().success());
    served.cli(&["seal", "--to", &format!("git:{}", repository.display())]).await;
    let events = sealed(&served).await;
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|(up_to, position)| up_to < position), "{events:?}");
    let shown =
        served.cli(&["verify", "--seals", &place, "--seals", &repository.display().to_string()]).await;
    assert!(shown.contains(" 2 seals,"), "{shown}");
    // Another hash in the file is another log.
    let kept = std::fs::read_to_string(&path).unwrap();
    let (start, _) = kept.split_once("\"block\":\"").unwrap();
    let (_, end) = kept.split_once("\",\"sealed_at\"").unwrap();
    std::fs::write(&path, format!("{start}\"block\":\"{}\",\"sealed_at\"{end}", "00".repeat(32))).unwrap();
    let words = ["verify", "--seals", &place, "--output", "json"];
    let mut command = assert_cmd::Command::cargo_bin("multica").unwrap();
    command.env_clear().env("HOME", folder.path()).env("MULTICA_TOKEN", &served.token);
    command.args(words).args(["--server-url", &format!("http://{}", served.address)]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(!output.status.success());
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = answer["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{answer}");
    assert_eq!(
        (&findings[0]["code"], &findings[0]["position"]),
        (&json!("seal_broken"), &json!(events[0].0))
    );
    // Seals of another installation say nothing about this one.
    std::fs::write(&path, kept.replace("\"installation\":\"", "\"installation\":\"other-")).unwrap();
    let (_, said) = served.cli_refused(&["verify", "--seals", &place]).await;
    assert!(said.contains("no seal of this installation"), "{said}");
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_sealed_is_not_recorded_as_sealed() {
    let served = Served::new().await;
    let forged = json!({"put": {"position": 1, "block": "00".repeat(32), "place": "file"}});
    assert_eq!(served.post("/api/seals", &forged).await.problem(409), "seal_unknown");
    let seal = served.get("/api/seal").await.is(200);
    let put = json!({"put": {"position": seal["position"], "block": seal["block"], "place": "file"}});
    let done = served.post("/api/seals", &put).await.is(200);
    assert_eq!(done["position"], seal["position"]);
    assert_eq!(sealed(&served).await.len(), 1);
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_seals_by_itself_as_its_log_grows_and_not_because_it_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seals");
    let often = Limits { seal_events: 1, seal_retry: Millis(50), ..limits() };
    let served = Served::sealing(vec![Place::File(path.clone())], often).await;
    let lines = || std::fs::read_to_string(&path).unwrap_or_default().lines().count();
    for n in 0..3 {
        let project = served.post("/api/projects", &json!({"title": format!("Project {n}")})).await;
        let position: i64 = project.header("x-multica-position").unwrap().parse().unwrap();
        eventually(Duration::from_secs(20), || async {
            sealed(&served).await.last().is_some_and(|(up_to, _)| *up_to >= position)
        })
        .await;
    }
    let verified = served.post("/api/verify", &json!({})).await.is(200);
    assert_eq!(verified["findings"], json!([]));
    assert!(verified["seals"].as_u64().unwrap() >= 3, "its own are looked at: {verified}");
    let all = sealed(&served).await;
    assert!(lines() >= all.len(), "a seal lies there before the event says so");
    for pair in all.windows(2) {
        let (from, to) = (pair[0].0, pair[1].0);
        let told = all.iter().filter(|(_, position)| (from + 1..=to).contains(position)).count();
        assert!(to - from > told as i64, "something else happened in between: {all:?}");
    }
    served.cli(&["seal"]).await;
    served.finish().await;
}
