//! Recorded history is asked what another value of a timer would have changed.

use multica::wire::api;
use serde_json::Value;

use super::client::{Scene, Served};

async fn asked(scene: &Scene, query: &str) -> Vec<api::WhatIf> {
    let answer = scene.served.get(&format!("/api/what-if?{query}")).await.is(200);
    let all: Vec<api::WhatIf> = serde_json::from_value(answer["tasks"].clone()).unwrap();
    assert_eq!(answer["total"], all.len());
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_would_have_expired_is_listed_with_what_is_recorded_instead() {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("Is claimed").await;
    scene.report(&first, generation, 9, "complete", serde_json::json!({"output": "x"})).await.is(200);
    let waits = scene.issue("Still waits").await;
    let all = asked(&scene, "set=queued_ttl%3D1us").await;
    let told: Vec<(String, Option<&str>, &str)> = all
        .iter()
        .map(|one| {
            let recorded = one.recorded.as_ref().map(|recorded| recorded.event_type.as_str());
            (one.task.to_string(), recorded, one.instead.as_str())
        })
        .collect();
    let expired = "fails (queued_expired)";
    assert_eq!(told, [(first, Some("task.claimed"), expired), (waits, None, expired)]);
    assert!(all.iter().all(|one| one.known && one.due > one.since), "{all:#?}");
    assert_eq!(asked(&scene, "set=queued_ttl%3D1h,claim_receipt%3D1h").await, []);
    // What was over by then isn't asked again.
    let later = asked(&scene, "set=queued_ttl%3D1us&since=0s").await;
    assert_eq!(later.len(), 0, "{later:#?}");
    let shown = scene.served.cli(&["what-if", "--set", "queued_ttl=1us", "--since", "1h"]).await;
    assert!(shown.contains("LOCA-1#1") && shown.contains("task.claimed after"), "{shown}");
    assert!(shown.contains("LOCA-2#1") && shown.contains("still waits"), "{shown}");
    let json = scene.served.cli(&["what-if", "--set", "queued_ttl=30m", "--output", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["tasks"], &json["set_ms"]["queued_ttl"]), (&serde_json::json!([]), &1_800_000.into()));
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_log_doesnt_hold_is_refused_by_name() {
    let served = Served::new().await;
    for (set, code, named) in [
        ("idle_watchdog%3D5m", "parameter_not_in_log", "idle_watchdog"),
        ("tool_watchdog%3D5m", "parameter_not_in_log", "tool_watchdog"),
        ("nonsense%3D5m", "unknown_parameter", "nonsense"),
        ("queued_ttl%3D5m,prepare%3D1m", "parameter_not_in_log", "prepare"),
        ("queued_ttl", "invalid_field", "queued_ttl"),
        ("queued_ttl%3Dsoon", "invalid_field", "soon"),
        ("queued_ttl%3D-5m", "invalid_field", "queued_ttl"),
        ("queued_ttl%3D0s", "invalid_field", "queued_ttl"),
        ("queued_ttl%3D1s,queued_ttl%3D2s", "invalid_field", "twice"),
        ("", "invalid_field", "reconnect_grace"),
        ("queued_ttl%3D5m&since=yesterday", "invalid_field", "since"),
    ] {
        let answer = served.get(&format!("/api/what-if?set={set}")).await;
        let told = answer.body.to_string();
        assert_eq!(answer.problem(400), code, "{set}");
        assert!(told.contains(named), "{set}: {told}");
    }
    served.finish().await;
}
