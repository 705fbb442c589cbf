//! Tasks that wait longer than is usual for their kind are listed with their cause.

use std::time::Duration;

use multica::kernel::limits::{Limits, Millis};
use multica::wire::api;
use serde_json::Value;

use super::client::{Scene, Served, limits};
use crate::support::eventually;

const PATIENCE: Duration = Duration::from_secs(20);

async fn stranded(scene: &Scene) -> Vec<api::Stranded> {
    let answer = scene.served.get("/api/stranded-tasks").await.is(200);
    serde_json::from_value(answer["tasks"].clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_unusually_long_is_listed_with_its_cause_and_leaves_the_list_again() {
    let quick = Limits { stranded_parked: Millis(300), ..limits() };
    let scene = Scene::on(Served::with(quick).await).await;
    let (first, generation) = scene.running("Holds it").await;
    let (parked, _) = scene.parked("Waits").await;
    let queued = scene.issue("Waits as is usual").await;
    eventually(PATIENCE, || async { !stranded(&scene).await.is_empty() }).await;
    let all = stranded(&scene).await;
    let names: Vec<String> = all.iter().map(|one| one.explanation.task_id.to_string()).collect();
    assert_eq!(names, std::slice::from_ref(&parked), "{all:#?}; {queued} and {first} wait as is usual");
    let told = &all[0];
    assert!(told.explanation.causes.iter().any(|cause| cause.sentence.contains("LOCA-1#1")), "{told:#?}");
    let shown = scene.served.cli(&["task", "stranded"]).await;
    assert!(shown.contains("LOCA-2#1") && shown.contains("BECAUSE") && shown.contains("LOCA-1#1"), "{shown}");

    scene.report(&first, generation, 9, "complete", serde_json::json!({"output": "x"})).await.is(200);
    eventually(PATIENCE, || async { scene.status(&parked).await == "dispatched" }).await;
    assert_eq!(stranded(&scene).await, []);
    let json = scene.served.cli(&["task", "stranded", "--output", "json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["earlier"], 1, "one task tells what is usual: {json:#}");
    scene.finish().await;
}
