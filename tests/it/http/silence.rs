//! A machine falls silent: shown, waited for, given up, taken back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use multica::kernel::limits::{Limits, Millis};
use serde_json::{Value, json};

use super::client::{Scene, Served, limits, raw};
use crate::support::eventually;
use crate::support::waiting::pace;

const OTHER: &str = "machine-1-again";

/// A second daemon on the same machine, with an agent of its own; it beats until it is dropped.
struct Other {
    runtime: String,
    agent: String,
    incarnation: uuid::Uuid,
    beats: Arc<AtomicBool>,
}

impl Drop for Other {
    fn drop(&mut self) {
        self.beats.store(false, Ordering::Relaxed);
    }
}

async fn other(scene: &Scene) -> Other {
    let incarnation = uuid::Uuid::now_v7();
    let mut registration = super::client::registration(&scene.served, scene.machine, incarnation);
    registration["daemon_id"] = json!(OTHER);
    let registered = scene.served.post("/api/daemon/register", &registration).await.is(200);
    let runtime = registered["runtimes"][0]["id"].as_str().unwrap().to_owned();
    let agent = json!({"name": "Other", "runtime_id": runtime, "max_concurrent_tasks": 2,
        "command": {"program": "/bin/sh", "arguments": ["-c", "cat"]}});
    let agent = scene.served.post("/api/agents", &agent).await.is(201)["id"].as_str().unwrap().to_owned();
    let beats = Arc::new(AtomicBool::new(true));
    let (going, address) = (Arc::clone(&beats), scene.served.address);
    let bearer = format!("Bearer {}", scene.served.token);
    tokio::spawn(async move {
        let body = json!({"daemon_id": OTHER, "incarnation": incarnation}).to_string();
        while going.load(Ordering::Relaxed) {
            let headers = [("Authorization", bearer.as_str())];
            raw(address, "POST", "/api/daemon/heartbeat", &headers, body.as_bytes()).await;
            pace(Duration::from_millis(100)).await;
        }
    });
    Other { runtime, agent, incarnation, beats }
}

async fn parked_of(scene: &Scene, other: &Other) -> String {
    let body = json!({"title": "On the other daemon", "project_id": scene.project,
        "assignee_type": "agent", "assignee_id": other.agent});
    let task = scene.served.post("/api/issues", &body).await.is(201)["task_id"].as_str().unwrap().to_owned();
    let body = json!({"daemon_id": OTHER, "runtime_ids": [other.runtime], "max_tasks": 1,
        "incarnation": other.incarnation, "wait_ms": 0});
    let claimed = scene.served.post("/api/daemon/tasks/claim", &body).await.is(200);
    assert_eq!(claimed["tasks"][0]["id"], task.as_str());
    scene.report(&task, 1, 1, "receipt", json!({})).await.is(200);
    assert_eq!(scene.enter(&task, 1, 2).await.is(200)["status"], "waiting_local_directory");
    task
}

async fn standing(scene: &Scene) -> Value {
    let daemons = scene.served.get("/api/daemons").await.is(200);
    let all = daemons["daemons"].as_array().unwrap();
    all.iter().find(|daemon| daemon["daemon_id"] == super::client::DAEMON).unwrap().clone()
}

async fn story(scene: &Scene, task: &str) -> Vec<String> {
    let history = scene.served.get(&format!("/api/tasks/{task}/history")).await.is(200);
    let entries = history["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["type"].as_str().unwrap().to_owned()).collect()
}

/// Its last heartbeat came that much earlier.
async fn silent_for(scene: &Scene, span: &str) {
    let earlier = format!(
        "update es.heartbeats set last_seen = last_seen - interval '{span}' where daemon = '{}'",
        super::client::DAEMON
    );
    scene.served.db.superuser().await.batch_execute(&earlier).await.unwrap();
}

/// Long enough for a slow machine not to be taken for a silent one, short enough to wait for.
fn patience() -> Limits {
    Limits { unreachable: Millis(4_000), reconnect_grace: Millis(600_000), ..limits() }
}

async fn beat(scene: &Scene) {
    let body = json!({"daemon_id": super::client::DAEMON, "incarnation": scene.incarnation});
    scene.served.post("/api/daemon/heartbeat", &body).await.is(200);
}

/// B-017, B-023, D-041: unreachable first; at the end of the grace what ran is lost by name, the directory
/// goes to the next who can take it, what waited keeps its place, and what the machine says later is kept
/// beside the outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_machine_is_shown_then_given_up_and_its_late_word_changes_nothing() {
    let scene = Scene::on(Served::with(patience()).await).await;
    let other = other(&scene).await;
    let (first, generation) = scene.running("Runs").await;
    let (second, _) = scene.parked("Waits on the silent one").await;
    let third = parked_of(&scene, &other).await;
    silent_for(&scene, "1 minute").await;
    eventually(Duration::from_secs(20), || async { standing(&scene).await["status"] == "unreachable" }).await;
    assert_eq!(scene.status(&first).await, "running", "it may come back");
    silent_for(&scene, "20 minutes").await;
    eventually(Duration::from_secs(20), || async { scene.status(&first).await == "failed" }).await;
    let lost = scene.served.get(&format!("/api/tasks/{first}")).await.is(200);
    assert_eq!(lost["failure_reason"], "runtime_offline");
    assert!(story(&scene, &first).await.contains(&"directory.holder_lost".to_owned()));
    // In the same append: who can take it has it, who can't keeps its place.
    assert_eq!(scene.status(&third).await, "dispatched");
    assert_eq!(scene.status(&second).await, "waiting_local_directory");
    let runs = scene.served.get("/api/issues/LOCA-1/task-runs").await.is(200);
    assert_eq!((&runs[0]["status"], &runs[0]["retry_of_task_id"]), (&json!("queued"), &json!(first)));
    // The machine is back and says how its run ended: the first end stays.
    beat(&scene).await;
    assert_eq!(standing(&scene).await["status"], "online");
    scene.report(&first, generation, 9, "complete", json!({"output": "late"})).await.is(200);
    assert_eq!(scene.status(&first).await, "failed");
    assert!(story(&scene, &first).await.contains(&"task.late_report_recorded".to_owned()));
    assert_eq!(scene.status(&third).await, "dispatched", "its late release frees nobody else's directory");
    scene.report(&third, 1, 3, "receipt", json!({})).await.is(200);
    scene.report(&third, 1, 4, "start", json!({})).await.is(200);
    beat(&scene).await;
    scene.report(&third, 1, 5, "complete", json!({"output": "x"})).await.is(200);
    assert_eq!(scene.status(&second).await, "dispatched", "it kept its place before the retry");
    drop(other);
    scene.finish().await;
}

/// B-017: a machine that comes back within the grace goes on as if nothing had been.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_comes_back_in_time_loses_nothing() {
    let scene = Scene::on(Served::with(patience()).await).await;
    let (first, generation) = scene.running("Runs").await;
    let (second, _) = scene.parked("Waits").await;
    silent_for(&scene, "1 minute").await;
    eventually(Duration::from_secs(20), || async {
        standing(&scene).await["runtimes"][0]["status"] == "offline"
    })
    .await;
    assert_eq!(standing(&scene).await["status"], "unreachable");
    beat(&scene).await;
    assert_eq!(standing(&scene).await["status"], "online");
    assert_eq!(scene.status(&first).await, "running");
    assert_eq!(scene.status(&second).await, "waiting_local_directory");
    beat(&scene).await;
    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    assert_eq!(scene.status(&second).await, "dispatched");
    // Both stories tell why nothing went on for a while; of other times they tell nothing.
    for task in [&first, &second] {
        let told = story(&scene, task).await;
        let place = |event: &str| told.iter().position(|known| known == event);
        let (went, came) = (place("daemon.runtime_went_offline"), place("daemon.runtime_came_back"));
        assert!(went.is_some() && went < came, "{told:?}");
        assert_eq!(place("daemon.registered"), None, "{told:?}");
    }
    let history = scene.served.get(&format!("/api/tasks/{first}/history")).await.is(200);
    assert!(history.to_string().contains("went offline, last seen"), "{history:#}");
    scene.finish().await;
}

/// A machine that was given up gets nothing to do before it has said that it is back: nobody would miss it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_was_given_up_gets_no_task_before_it_beats_again() {
    let scene = Scene::new().await;
    let said = scene.served.cli(&["daemon", "declare-dead", "machine-1"]).await;
    assert!(said.contains("machine-1 is given up; nothing ran there"), "{said}");
    let (code, said) = scene.served.cli_refused(&["daemon", "declare-dead", "nosuch"]).await;
    assert!(code == 4 && said.contains("nosuch"), "{code}: {said}");
    let task = scene.issue("Waits for a machine").await;
    assert_eq!(scene.claim(1).await, Vec::<Value>::new());
    beat(&scene).await;
    assert_eq!(scene.claim(1).await[0]["id"], task.as_str());
    scene.finish().await;
}
