//! One directory, several tasks.

use std::time::Duration;

use multica::kernel::limits::{Limits, Millis};
use serde_json::json;

use super::client::{Scene, Served, limits, registration};
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

/// B-023: it may only have been out of reach, and its agent at work all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_was_given_up_is_told_to_stop_what_it_left() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let (lost, generation) = scene.running("One").await;
    served.post("/api/daemons/machine-1/declare-dead", &json!({})).await.is(200);
    assert_eq!(scene.status(&lost).await, "failed");
    let orders = scene.orders().await;
    let told = orders.iter().find(|order| order["body"]["kind"] == "cancel").expect("an order");
    assert_eq!((&told["body"]["task"], &told["body"]["generation"]), (&json!(lost), &json!(generation)));

    // Until it answers, everybody who looks is told so.
    let directory = served.get(&format!("/api/directories/{}", scene.directory())).await.is(200);
    assert_eq!(directory["holder"], json!(null));
    assert_eq!(directory["stopping"][0]["name"], "LOCA-1#1");
    assert!(served.cli(&["directory", "show", "game"]).await.contains("LOCA-1#1  given up"));
    assert!(served.cli(&["directory", "list"]).await.contains("free, LOCA-1#1 is being stopped"));
    let shown = served.get(&format!("/api/tasks/{lost}")).await.is(200);
    assert!(
        shown["failure"]["next_step"].as_str().unwrap().starts_with("Start its daemon again;"),
        "{shown:#}"
    );
    let explained = served.get(&format!("/api/tasks/{lost}/explain")).await.is(200);
    assert!(explained["causes"].to_string().contains("was told to stop what it left"), "{explained:#}");
    let (_, said) = served.cli_refused(&["task", "cancel", "LOCA-1#1"]).await;
    assert!(said.contains("its machine is told to stop what is left of it"), "{said}");
    assert!(served.get(&format!("/api/tasks/{lost}")).await.is(200)["stopping_since"].is_string());

    // It was done by itself before the order came: its last word answers it as well.
    scene.report(&lost, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    let after = scene.orders().await;
    assert!(after.iter().all(|order| order["body"]["kind"] != "cancel"), "{after:?}");
    let directory = served.get(&format!("/api/directories/{}", scene.directory())).await.is(200);
    assert_eq!(directory["stopping"], json!([]));
    let explained = served.get(&format!("/api/tasks/{lost}/explain")).await.is(200);
    assert!(!explained["causes"].to_string().contains("was told to stop"), "{explained:#}");
    let (_, said) = served.cli_refused(&["task", "cancel", "LOCA-1#1"]).await;
    assert!(said.contains("there is nothing left to cancel"), "{said}");
    scene.finish().await;
}

/// Its grant was confirmed: it may be at work, and nobody else gets in before it was stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_that_was_confirmed_is_lost_with_its_machine_and_told_to_stop() {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("One").await;
    let (second, _) = scene.parked("Two").await;
    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    scene.report(&second, 1, 3, "receipt", json!({})).await.is(200);
    scene.served.post("/api/daemons/machine-1/declare-dead", &json!({})).await.is(200);
    let lost = scene.served.get(&format!("/api/tasks/{second}")).await.is(200);
    assert_eq!((&lost["status"], &lost["failure_reason"]), (&json!("failed"), &json!("runtime_offline")));
    assert!(lost["retried_by"].is_string() && lost["stopping_since"].is_string(), "{lost:#}");
    let orders = scene.orders().await;
    let stop = |order: &serde_json::Value| {
        order["body"]["kind"] == "cancel" && order["body"]["task"] == second.as_str()
    };
    assert!(orders.iter().any(stop), "{orders:#?}");
    let refused = scene.report(&second, 1, 4, "start", json!({})).await.is(200);
    assert_eq!(refused["status"], "failed", "it hears that it is over");
    scene.finish().await;
}

/// Who waits for a foreign lock is the holder; without its machine nobody tries the lock, and the next goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_waits_for_a_foreign_lock_goes_back_in_line_when_its_machine_is_given_up() {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("One").await;
    let (second, _) = scene.parked("Two").await;
    let (third, _) = scene.parked("Three").await;
    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    scene.report(&second, 1, 3, "receipt", json!({})).await.is(200);
    let lock =
        json!({"directory": scene.directory(), "lock": {"state": "blocked", "pid": 7, "program": "vi"}});
    scene.report(&second, 1, 4, "directory-lock", lock).await.is(200);
    scene.served.post("/api/daemons/machine-1/declare-dead", &json!({})).await.is(200);
    let directory = scene.served.get(&format!("/api/directories/{}", scene.directory())).await.is(200);
    assert_eq!(directory["holder"], json!(null));
    let line: Vec<_> = directory["queue"].as_array().unwrap().iter().map(|one| &one["task_id"]).collect();
    assert_eq!(line, [&json!(second), &json!(third)], "at its old place");
    let explained = scene.served.get(&format!("/api/tasks/{second}/explain")).await.is(200);
    assert!(!explained.to_string().contains("vi (process 7)"), "{explained:#}");
    assert!(explained["commands"].to_string().contains("multica daemon start"), "{explained:#}");
    // The machine is back: it is called again.
    let body = json!({"daemon_id": "machine-1", "incarnation": scene.incarnation});
    scene.served.post("/api/daemon/heartbeat", &body).await.is(200);
    eventually(Duration::from_secs(10), || async { scene.status(&second).await == "dispatched" }).await;
    assert_eq!(scene.status(&third).await, "waiting_local_directory");
    scene.finish().await;
}

///
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_another_path_of_a_taken_directory_one_waits_in_its_queue() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let claimed = async |title: &str| {
        let task = scene.issue(title).await;
        assert_eq!(scene.claim(1).await[0]["id"], task.as_str());
        scene.report(&task, 1, 1, "receipt", json!({})).await.is(200);
        task
    };
    let (first, generation) = scene.running("One").await;
    let second = claimed("Two").await;
    let answer = scene.enter_by("/mnt/game", "b", &second, 1, 2).await.is(200);
    assert_eq!(answer["grant"], json!({"grant": "queued", "place": 1}));
    let third = claimed("Three").await;
    assert_eq!(scene.enter(&third, 1, 2).await.is(200)["grant"]["place"], 2);
    // Asked again, it still waits there.
    assert_eq!(scene.enter_by("/mnt/game", "b", &second, 1, 3).await.is(200)["grant"]["place"], 1);
    // Device and inode of another boot say nothing.
    let fourth = claimed("Four").await;
    let elsewhere = scene.enter_by("/mnt/old", "before", &fourth, 1, 2).await.is(200);
    assert_eq!(elsewhere["grant"]["grant"], "acquired");
    scene.report(&fourth, 1, 3, "start", json!({})).await.is(200);
    scene.report(&fourth, 1, 4, "complete", json!({"output": "w"})).await.is(200);

    // First come, first served; its machine is told which directory that is by any path.
    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    assert_eq!(scene.status(&second).await, "dispatched");
    let path = format!("/api/daemon/tasks/{second}/assignment?generation=1");
    let assignment = served.get(&path).await.is(200);
    assert_eq!(assignment["directory"], json!(scene.directory()));
    assert_eq!(assignment["directory_identity"], json!({"boot_id": "b", "device": 1, "inode": 2}));
    scene.report(&second, 1, 4, "receipt", json!({})).await.is(200);
    let shown = served.get(&format!("/api/directories/{}", scene.directory())).await.is(200);
    assert_eq!(shown["holder"]["task_id"], second.as_str());
    assert_eq!(shown["path"], "/srv/game", "it keeps the path of who came first");
    scene.report(&second, 1, 5, "start", json!({})).await.is(200);
    scene.report(&second, 1, 6, "complete", json!({"output": "y"})).await.is(200);
    assert_eq!(scene.status(&third).await, "dispatched");

    // While nobody has it, the next one by that path takes the path's own, and whoever looks at either of
    // them sees the same holder.
    scene.report(&third, 1, 3, "receipt", json!({})).await.is(200);
    scene.report(&third, 1, 4, "start", json!({})).await.is(200);
    scene.report(&third, 1, 5, "complete", json!({"output": "z"})).await.is(200);
    let fifth = claimed("Five").await;
    assert_eq!(scene.enter_by("/mnt/game", "b", &fifth, 1, 2).await.is(200)["grant"]["grant"], "acquired");
    let listed = served.get("/api/directories").await.is(200);
    let of = |label: &str, path: &str| {
        let all = listed["directories"].as_array().unwrap().iter();
        all.clone().find(|one| one["path"] == path).unwrap_or_else(|| panic!("{label}: {listed:#}")).clone()
    };
    let (own, other) = (of("mount", "/mnt/game"), of("first", "/srv/game"));
    assert_eq!(own["holder"]["task_id"], fifth.as_str());
    assert_eq!((&other["holder"], &other["same_as"]), (&own["holder"], &own["id"]));
    let sixth = claimed("Six").await;
    assert_eq!(scene.enter(&sixth, 1, 2).await.is(200)["grant"]["place"], 1);
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

/// A run of ours that wasn't stopped yet isn't "another program" to anybody who looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_keeps_a_task_out_is_named_by_its_task_wherever_one_looks() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let (lost, _) = scene.running("One").await;
    served.post("/api/daemons/machine-1/declare-dead", &json!({})).await.is(200);
    served
        .post("/api/daemon/register", &registration(served, scene.machine, scene.incarnation))
        .await
        .is(200);
    // Both the run in its stead and the new task are there to be claimed.
    let second = scene.issue("Two").await;
    let claimed = scene.claim(2).await;
    assert!(claimed.iter().any(|task| task["id"] == second.as_str()), "{claimed:#?}");
    scene.report(&second, 1, 1, "receipt", json!({})).await.is(200);
    assert_eq!(scene.enter(&second, 1, 2).await.is(200)["grant"]["grant"], "acquired");
    let lock = json!({"state": "blocked", "pid": 4625, "program": "multica", "task": lost});
    let report = json!({"directory": scene.directory(), "lock": lock});
    scene.report(&second, 1, 3, "directory-lock", report).await.is(200);

    let who = "LOCA-1#1 (process 4625)";
    let shown = served.get(&format!("/api/tasks/{second}")).await.is(200);
    assert_eq!(shown["waiting"]["locked_by"], who);
    assert_eq!(shown["waiting"]["locked_by_task_id"], lost.as_str());
    for words in [vec!["task", "list"], vec!["task", "show", "LOCA-2#1"], vec!["task", "history", "LOCA-2#1"]]
    {
        let told = served.cli(&words).await;
        assert!(told.contains(who) && !told.contains("another program"), "{told}");
    }
    scene.finish().await;
}

/// A directory's paths are one place: what was given up by one of them is at work by the others too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_given_up_is_told_by_each_path_of_its_directory() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let (first, generation) = scene.running("One").await;
    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    let lost = scene.issue("Two").await;
    scene.claim(1).await;
    scene.report(&lost, 1, 1, "receipt", json!({})).await.is(200);
    assert_eq!(scene.enter_by("/mnt/game", "b", &lost, 1, 2).await.is(200)["grant"]["grant"], "acquired");
    scene.report(&lost, 1, 3, "start", json!({})).await.is(200);
    let elsewhere = scene.issue("Three").await;
    scene.claim(1).await;
    scene.report(&elsewhere, 1, 1, "receipt", json!({})).await.is(200);
    assert_eq!(
        scene.enter_by("/mnt/old", "before", &elsewhere, 1, 2).await.is(200)["grant"]["grant"],
        "acquired"
    );
    scene.report(&elsewhere, 1, 3, "start", json!({})).await.is(200);
    scene.report(&elsewhere, 1, 4, "complete", json!({"output": "z"})).await.is(200);

    // Two daemons are on that machine: the one whose task is there is named, else the first.
    let mut other = registration(served, scene.machine, uuid::Uuid::now_v7());
    other["daemon_id"] = json!("zz");
    served.post("/api/daemon/register", &other).await.is(200);
    let held = served.get(&format!("/api/directories/{}", scene.directory())).await.is(200);
    assert_eq!((&held["holder"]["task_id"], &held["daemon_id"]), (&json!(lost), &json!("machine-1")));

    served.post("/api/daemons/machine-1/declare-dead", &json!({})).await.is(200);
    let listed = served.get("/api/directories").await.is(200);
    for (path, told) in [("/srv/game", true), ("/mnt/game", true), ("/mnt/old", false)] {
        let all = listed["directories"].as_array().unwrap();
        let one = all.iter().find(|one| one["path"] == path).unwrap_or_else(|| panic!("{path}: {listed:#}"));
        assert_eq!(one["stopping"][0]["task_id"] == lost.as_str(), told, "{path}: {listed:#}");
        assert_eq!((&one["holder"], &one["daemon_id"]), (&json!(null), &json!("machine-1")), "{path}");
    }
    let one = served.get(&format!("/api/directories/{}", scene.directory())).await.is(200);
    assert_eq!(one["stopping"][0]["task_id"], lost.as_str());
    scene.finish().await;
}
