//! A machine comes back within the grace: what it has a record of goes on, what it has none of is ended.

use serde_json::{Value, json};

use super::client::{Scene, registration};

/// Another process of the machine registers, with those claims; none: as a daemon that doesn't say.
async fn comes_back(scene: &mut Scene, claims: Option<&[(&str, u32)]>) -> Value {
    scene.incarnation = uuid::Uuid::now_v7();
    let body = said(scene, claims);
    scene.served.post("/api/daemon/register", &body).await.is(200)
}

fn said(scene: &Scene, claims: Option<&[(&str, u32)]>) -> Value {
    let mut body = registration(&scene.served, scene.machine, scene.incarnation);
    if let Some(claims) = claims {
        let claims = claims.iter().map(|(task, generation)| json!({"task": task, "generation": generation}));
        body["claims"] = claims.collect();
    }
    body
}

async fn task(scene: &Scene, id: &str) -> Value {
    scene.served.get(&format!("/api/tasks/{id}")).await.is(200)
}

/// The tasks that the machine is ordered that kind of thing for.
async fn ordered(scene: &Scene, kind: &str) -> Vec<String> {
    let orders = scene.orders().await;
    let wanted = orders.iter().filter(|order| order["body"]["kind"] == kind);
    wanted.map(|order| order["body"]["task"].as_str().unwrap().to_owned()).collect()
}

/// Claimed and received, not yet in a directory.
async fn received(scene: &Scene, title: &str) -> String {
    let id = scene.issue(title).await;
    assert_eq!(scene.claim(1).await[0]["id"], id.as_str());
    scene.report(&id, 1, 1, "receipt", json!({})).await.is(200);
    id
}

/// B-023: who ran there is ended by name and tried again without losing an attempt, its directory goes to the
/// next, who waits keeps its place, and the machine is told to stop what it may have all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_machine_has_no_record_of_any_more_is_ended_and_tried_again_at_once() {
    let mut scene = Scene::new().await;
    let (first, generation) = scene.running("Runs").await;
    let (second, _) = scene.parked("Waits").await;
    let (third, _) = scene.parked("Waits behind it").await;
    let fourth = received(&scene, "Is on its way").await;
    comes_back(&mut scene, Some(&[])).await;
    for id in [&first, &fourth] {
        let ended = task(&scene, id).await;
        assert_eq!(
            (&ended["status"], &ended["failure_reason"]),
            (&json!("failed"), &json!("runtime_recovery"))
        );
    }
    let runs = scene.served.get("/api/issues/LOCA-1/task-runs").await.is(200);
    assert_eq!((&runs[0]["status"], &runs[0]["retry_of_task_id"]), (&json!("queued"), &json!(first)));
    assert_eq!(runs[0]["attempt"], runs[1]["attempt"], "{runs:#}");
    assert_eq!(scene.status(&second).await, "dispatched");
    assert_eq!(scene.status(&third).await, "waiting_local_directory");
    let mut stop = ordered(&scene, "cancel").await;
    stop.sort_unstable();
    let mut both = vec![first.clone(), fourth.clone()];
    both.sort_unstable();
    assert_eq!(stop, both);
    assert_eq!(ordered(&scene, "promoted").await, [second.as_str()]);
    // What it says later changes nothing.
    scene.report(&first, generation, 9, "complete", json!({"output": "late"})).await.is(200);
    assert_eq!(
        (scene.status(&first).await, scene.status(&second).await),
        ("failed".into(), "dispatched".into())
    );
    // A promotion that nobody has received is ordered again; one that was received is a run like any other.
    comes_back(&mut scene, Some(&[])).await;
    assert_eq!(scene.status(&second).await, "dispatched");
    scene.report(&second, 1, 3, "receipt", json!({})).await.is(200);
    comes_back(&mut scene, Some(&[(&second, 1)])).await;
    assert_eq!(scene.status(&second).await, "dispatched", "its machine knows of it");
    comes_back(&mut scene, Some(&[(&second, 2)])).await;
    assert_eq!(
        (scene.status(&second).await, scene.status(&third).await),
        ("failed".into(), "dispatched".into())
    );
    scene.finish().await;
}

/// A machine that says nothing of its claims, or has them, loses none; nor does a process that registers again:
/// a claim may be on its way to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_first_word_of_a_process_that_lists_its_claims_ends_anything() {
    let mut scene = Scene::new().await;
    let (first, generation) = scene.running("Runs").await;
    comes_back(&mut scene, None).await;
    assert_eq!(scene.status(&first).await, "running", "a public daemon lists nothing");
    comes_back(&mut scene, Some(&[(&first, generation)])).await;
    assert_eq!(scene.status(&first).await, "running");
    let again = said(&scene, Some(&[]));
    scene.served.keyed("register/again", "/api/daemon/register", &again).await.is(200);
    assert_eq!(scene.status(&first).await, "running", "the same process");
    // Sent again under its key, the first word of a new process is heard once.
    scene.incarnation = uuid::Uuid::now_v7();
    let new = said(&scene, Some(&[(&first, generation)]));
    scene.served.keyed("register/new", "/api/daemon/register", &new).await.is(200);
    let second = received(&scene, "Claimed since").await;
    scene.served.keyed("register/new", "/api/daemon/register", &new).await.is(200);
    assert_eq!(
        (scene.status(&first).await, scene.status(&second).await),
        ("running".into(), "dispatched".into())
    );
    scene.finish().await;
}

/// Its waiter on the machine is gone with the records: nobody would ever say that the lock is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waited_for_a_foreign_lock_on_a_machine_that_has_forgotten_it_is_called_again() {
    let mut scene = Scene::new().await;
    let (first, generation) = scene.running("Runs").await;
    let (second, _) = scene.parked("Meets a foreign lock").await;
    scene
        .report(&first, generation, 9, "complete", json!({"output": "x", "directory": scene.directory()}))
        .await
        .is(200);
    scene.report(&second, 1, 3, "receipt", json!({})).await.is(200);
    let lock =
        json!({"directory": scene.directory(), "lock": {"state": "blocked", "pid": 7, "program": "vi"}});
    scene.report(&second, 1, 4, "directory-lock", lock).await.is(200);
    let (third, _) = scene.parked("Waits behind it").await;
    comes_back(&mut scene, Some(&[(&second, 1)])).await;
    assert_eq!(scene.status(&second).await, "waiting_local_directory", "its waiter is there");
    comes_back(&mut scene, Some(&[])).await;
    assert_eq!(scene.status(&second).await, "dispatched");
    assert_eq!(ordered(&scene, "promoted").await, [second.as_str()]);
    assert_eq!(scene.status(&third).await, "waiting_local_directory");
    scene.finish().await;
}
