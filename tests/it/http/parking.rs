//! One directory, several tasks.

use std::time::Duration;

use multica::kernel::limits::{Limits, Millis};
use serde_json::json;

use super::client::{Scene, Served, limits};
use crate::support::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_task_is_parked_and_promoted_with_the_holders_end() {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("One").await;
    let (second, _) = scene.parked("Two").await;
    let shown = scene.served.get(&format!("/api/tasks/{second}")).await.is(200);
    assert_eq!(shown["waiting"]["holder_name"], "LOCA-1#1");
    assert_eq!(shown["waiting"]["place"], 1);
    let explained = scene.served.get(&format!("/api/tasks/{second}/explain")).await.is(200);
    assert!(!explained["causes"].as_array().unwrap().is_empty(), "{explained:#}");
    for (task, told) in [
        (&first, ["task.directory_entered", "directory.acquired"]),
        (&second, ["task.parked", "directory.queued"]),
    ] {
        let history = scene.served.get(&format!("/api/tasks/{task}/history")).await.is(200);
        let entries = history["entries"].as_array().unwrap();
        assert!(told.iter().all(|kind| entries.iter().any(|entry| entry["type"] == *kind)), "{history:#}");
        assert!(entries.is_sorted_by_key(|entry| entry["position"].as_i64()), "{history:#}");
    }

    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    assert_eq!(scene.status(&second).await, "dispatched");
    let orders = scene.orders().await;
    assert_eq!(orders[0]["body"]["kind"], "promoted");
    assert_eq!(orders[0]["body"]["task"], second.as_str());
    let path = format!("/api/daemon/tasks/{second}/assignment?generation=1");
    assert_eq!(scene.served.get(&path).await.is(200)["directory"], json!(scene.directory()));
    scene.report(&second, 1, 3, "receipt", json!({})).await.is(200);
    assert_eq!(scene.orders().await, Vec::<serde_json::Value>::new());
    assert_eq!(scene.enter(&second, 1, 4).await.is(200)["grant"]["grant"], "acquired");
    scene.report(&second, 1, 5, "start", json!({})).await.is(200);
    scene.report(&second, 1, 6, "complete", json!({"output": "y"})).await.is(200);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_task_is_cancelled_and_leaves_the_queue() {
    let scene = Scene::new().await;
    scene.running("One").await;
    let (second, _) = scene.parked("Two").await;
    let (third, _) = scene.parked("Three").await;
    let cancelled = scene.served.post(&format!("/api/tasks/{second}/cancel"), &json!({})).await.is(200);
    assert_eq!(cancelled["status"], "cancelled");
    let directory = scene.served.get(&format!("/api/directories/{}", scene.directory())).await.is(200);
    assert_eq!(directory["queue"].as_array().unwrap().len(), 1);
    assert_eq!(directory["queue"][0]["task_id"], third.as_str());
    // Again: nothing more happens.
    scene.served.post(&format!("/api/tasks/{second}/cancel"), &json!({})).await.is(200);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_holds_its_directory_until_its_machine_is_done() {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("One").await;
    let (second, _) = scene.parked("Two").await;
    scene.served.post(&format!("/api/tasks/{first}/cancel"), &json!({})).await.is(200);
    assert_eq!(scene.status(&second).await, "waiting_local_directory");
    assert_eq!(scene.orders().await[0]["body"]["kind"], "cancel");
    scene.report(&first, generation, 5, "cancel-received", json!({})).await.is(200);
    scene
        .report(&first, generation, 6, "process-exited", json!({"code": null, "signal": 15, "killed": 0}))
        .await
        .is(200);
    scene.report(&first, generation, 7, "cancel-ack", json!({})).await.is(200);
    assert_eq!(scene.status(&second).await, "dispatched");
    assert_eq!(scene.status(&first).await, "cancelled");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receipts_that_do_not_come_release_the_claim_and_park_the_promotion_again() {
    let short = Limits { claim_receipt: Millis(400), ..limits() };
    let scene = Scene::on(Served::with(short).await).await;
    let task = scene.issue("One").await;
    assert_eq!(scene.claim(1).await[0]["generation"], 1);
    eventually(Duration::from_secs(10), || async { scene.status(&task).await == "queued" }).await;
    let late = scene.report(&task, 1, 1, "receipt", json!({})).await;
    assert_eq!(late.problem(409), "stale_generation");
    assert_eq!(scene.claim(1).await[0]["generation"], 2);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_declared_dead_loses_what_ran_and_keeps_what_waited() {
    let scene = Scene::new().await;
    let (first, _) = scene.running("One").await;
    let (second, _) = scene.parked("Two").await;
    scene.served.post("/api/daemons/machine-1/declare-dead", &json!({})).await.is(200);
    let lost = scene.served.get(&format!("/api/tasks/{first}")).await.is(200);
    assert_eq!(lost["failure_reason"], "runtime_offline");
    assert_eq!(scene.status(&second).await, "waiting_local_directory");
    let runs = scene.served.get("/api/issues/LOCA-1/task-runs").await.is(200);
    assert_eq!(runs[0]["status"], "queued");
    // It comes back: the free directory goes to who waited first.
    let body = json!({"daemon_id": "machine-1", "incarnation": scene.incarnation});
    scene.served.post("/api/daemon/heartbeat", &body).await.is(200);
    eventually(Duration::from_secs(10), || async { scene.status(&second).await == "dispatched" }).await;
    scene.finish().await;
}

/// Who takes a directory away is told whose work that touches, and the waiting task's turn still comes: its machine
/// has to hear that the directory isn't the project's any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_detaches_a_directory_hears_of_the_tasks_that_work_there_and_wait() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let (first, generation) = scene.running("One").await;
    let (second, _) = scene.parked("Two").await;
    let said = served.cli_notes(&["project", "resource", "remove", &scene.project, &scene.resource]).await;
    assert!(
        said.contains("1 of its tasks still at work") && said.contains("1 of its tasks waiting"),
        "{said}"
    );
    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    assert_eq!(scene.status(&second).await, "dispatched");
    let path = format!("/api/daemon/tasks/{second}/assignment?generation=1");
    let assignment = served.get(&path).await.is(200);
    assert_eq!(assignment["directory"], json!(scene.directory()));
    assert_eq!(assignment["project_resources"], json!([]));
    let told = served.cli_notes(&["project", "delete", &scene.project]).await;
    assert!(!told.contains("waiting") && !told.contains("at work"), "{told}");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_a_daemon_that_nobody_knows_is_attached_with_a_warning() {
    let scene = Scene::new().await;
    let body = json!({"resource_type": "local_directory",
        "resource_ref": {"local_path": "/srv/elsewhere", "daemon_id": "nosuch"}});
    let path = format!("/api/projects/{}/resources", scene.project);
    let attached = scene.served.post(&path, &body).await.is(201);
    assert!(attached["warnings"][0].as_str().is_some_and(|said| said.contains("`nosuch`")), "{attached:#}");
    scene.finish().await;
}
