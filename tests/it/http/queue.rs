//! What waiting for a directory costs, how it looks, and how it ends.

use std::time::Duration;

use futures_util::StreamExt;
use multica::kernel::limits::{Limits, Millis};
use serde_json::{Value, json};

use super::client::{DAEMON, Scene, Served, limits};
use crate::support::eventually;

/// Moves the database's clock, which alone judges time.
async fn later(scene: &Scene, by: &str) {
    let moved = format!("update es.clock_offset set by_interval = interval '{by}'");
    scene.served.db.superuser().await.batch_execute(&moved).await.unwrap();
}

/// The daemon's line among the workspace's daemons.
async fn machine(scene: &Scene) -> Value {
    scene.served.get("/api/daemons").await.is(200)["daemons"][0].clone()
}

/// Whether its agent is at work, as people are shown.
async fn agent_is(scene: &Scene) -> String {
    let agent = scene.served.get(&format!("/api/agents/{}", scene.agent)).await.is(200);
    agent["status"].as_str().unwrap().to_owned()
}

/// Nothing is at work: not the machine, not the agent, no task of the list.
async fn nothing_runs(scene: &Scene, after: &str) {
    let seen = machine(scene).await;
    assert_eq!(seen["running"], json!(0), "{after}: {seen:#}");
    assert_eq!(agent_is(scene).await, "idle", "{after}");
    for status in ["running", "dispatched"] {
        let tasks = scene.served.get(&format!("/api/tasks?status={status}")).await.is(200);
        assert_eq!(tasks["tasks"], json!([]), "{after}");
    }
}

/// An issue for that agent outside of every project: its task needs no directory.
async fn elsewhere(scene: &Scene, title: &str) -> String {
    let body = json!({"title": title, "assignee_type": "agent", "assignee_id": scene.agent});
    scene.served.post("/api/issues", &body).await.is(201)["task_id"].as_str().unwrap().to_owned()
}

/// S049, A-001: two slots, one task runs, two are parked; a task for another place starts at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parked_tasks_hold_no_slot() {
    let scene = Scene::on(Served::with(Limits { daemon_slots: 2, ..limits() }).await).await;
    scene.running("Holds it").await;
    let (second, _) = scene.parked("Waits").await;
    let (third, _) = scene.parked("Waits too").await;
    let free = elsewhere(&scene, "Needs no directory").await;
    let claimed = scene.claim(5).await;
    assert_eq!(claimed[0]["id"], free.as_str());
    for waiting in [second, third] {
        let explained = scene.served.get(&format!("/api/tasks/{waiting}/explain")).await.is(200);
        assert!(explained["causes"].to_string().contains("LOCA-1#1"), "{explained:#}");
    }
    // Both slots are taken now: the next one is told so.
    let full = elsewhere(&scene, "One too many").await;
    assert_eq!(scene.claim(5).await, Vec::<Value>::new());
    let explained = scene.served.get(&format!("/api/tasks/{full}/explain")).await.is(200);
    assert!(explained["causes"].to_string().contains("slot"), "{explained:#}");
    scene.finish().await;
}

/// S038: one runs, one waits: running 1, parked 1; with only a waiting one nothing runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn presence_counts_what_runs_and_what_waits_apart() {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("Runs").await;
    scene.parked("Waits").await;
    let seen = machine(&scene).await;
    assert_eq!((&seen["running"], &seen["parked"]), (&json!(1), &json!(1)), "{seen:#}");
    assert_eq!(agent_is(&scene).await, "working");
    // The holder is cancelled but not yet gone: the waiter goes on waiting, and nothing counts as running.
    scene.served.post(&format!("/api/tasks/{first}/cancel"), &json!({})).await.is(200);
    let seen = machine(&scene).await;
    assert_eq!((&seen["running"], &seen["parked"]), (&json!(0), &json!(1)), "{seen:#}");
    assert_eq!(agent_is(&scene).await, "idle", "it only waits");
    scene.report(&first, generation, 7, "cancel-ack", json!({})).await.is(200);
    let seen = machine(&scene).await;
    assert_eq!((&seen["running"], &seen["parked"]), (&json!(1), &json!(0)), "{seen:#}");
    assert_eq!(agent_is(&scene).await, "working");
    scene.finish().await;
}

/// C-029: whichever way a task ends, nothing counts as running afterwards. The ways that time takes are looked
/// at where they are told: see S033 and A-005.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn presence_agrees_with_every_way_to_end() {
    let scene = Scene::on(Served::with(Limits { queued_ttl: Millis(3_600_000), ..limits() }).await).await;
    nothing_runs(&scene, "the beginning").await;
    let failed = |reason: &str| json!({"error": "x", "failure_reason": reason});
    for (end, more) in [
        ("complete", json!({"output": "x"})),
        ("fail", failed("agent_error.process_failure")),
        ("fail", failed("idle_watchdog")),
        ("cancel", json!({})),
        ("cancel by verb", json!({})),
        ("cancel of the issue's", json!({})),
    ] {
        let (task, generation) = scene.running(end).await;
        assert_eq!(
            (&machine(&scene).await["running"], agent_is(&scene).await.as_str()),
            (&json!(1), "working")
        );
        if end.starts_with("cancel") {
            match end {
                "cancel" => {
                    scene.served.post(&format!("/api/tasks/{task}/cancel"), &more).await.is(200);
                }
                "cancel by verb" => {
                    scene.served.cli(&["task", "cancel", &task]).await;
                }
                _ => {
                    let issue =
                        scene.served.get(&format!("/api/tasks/{task}")).await.is(200)["issue_id"].clone();
                    let path = format!("/api/issues/{}/tasks/{task}/cancel", issue.as_str().unwrap());
                    scene.served.post(&path, &more).await.is(200);
                }
            }
            nothing_runs(&scene, end).await;
            scene.report(&task, generation, 9, "cancel-ack", json!({})).await.is(200);
        } else {
            scene.report(&task, generation, 9, end, more).await.is(200);
        }
        nothing_runs(&scene, end).await;
        assert_eq!(machine(&scene).await["parked"], 0, "{end}");
    }
    // Before it ran.
    let early = scene.issue("cancelled before its receipt").await;
    assert_eq!(scene.claim(1).await[0]["id"], early.as_str());
    assert_eq!(agent_is(&scene).await, "working");
    scene.served.post(&format!("/api/tasks/{early}/cancel"), &json!({})).await.is(200);
    nothing_runs(&scene, "a cancel before the receipt").await;
    let returned = scene.issue("given back").await;
    assert_eq!(scene.claim(1).await[0]["id"], returned.as_str());
    scene.report(&returned, 1, 1, "return", json!({"reason": "daemon_stopping"})).await.is(200);
    nothing_runs(&scene, "a return").await;
    scene.served.post(&format!("/api/tasks/{returned}/cancel"), &json!({})).await.is(200);
    let (lost, _) = scene.running("lost").await;
    scene.served.post("/api/daemons/machine-1/declare-dead", &json!({})).await.is(200);
    nothing_runs(&scene, "the machine is given up").await;
    assert_eq!(scene.status(&lost).await, "failed");
    scene.finish().await;
}

/// S027, S040: what a task waits for is told without a path, and no longer once it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_is_told_without_a_path_and_is_over_when_it_is_over() {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("Holds it").await;
    let (second, _) = scene.parked("Waits").await;
    let task = format!("/api/tasks/{second}");
    let shown = scene.served.get(&task).await.is(200);
    assert_eq!(shown["waiting"]["label"], "game");
    let history = scene.served.get(&format!("{task}/history")).await.is(200);
    let explained = scene.served.get(&format!("{task}/explain")).await.is(200);
    for told in [&shown["waiting"], &history["entries"], &explained["causes"], &explained["sentence"]] {
        assert!(!told.to_string().contains("/srv"), "{told:#}");
    }
    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    scene.report(&second, 1, 3, "receipt", json!({})).await.is(200);
    scene.report(&second, 1, 4, "start", json!({})).await.is(200);
    let shown = scene.served.get(&task).await.is(200);
    assert_eq!((&shown["status"], &shown["waiting"]), (&json!("running"), &Value::Null));
    let explained = scene.served.get(&format!("{task}/explain")).await.is(200);
    assert!(!explained.to_string().contains("waits for"), "{explained:#}");
    scene.finish().await;
}

/// S033: a wait has no end of its own, however long the holder runs; only what nobody claimed expires.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_of_three_hours_is_a_wait_and_a_task_that_nobody_claims_expires() {
    let never = Millis(u64::from(u32::MAX) * 1_000);
    let patient = Limits { unreachable: never, reconnect_grace: never, ..limits() };
    let scene = Scene::on(Served::with(patient).await).await;
    let (first, generation) = scene.running("Runs for hours").await;
    let (second, _) = scene.parked("Waits for hours").await;
    let unclaimed = elsewhere(&scene, "Nobody comes").await;
    later(&scene, "3 hours").await;
    eventually(Duration::from_secs(20), || async { scene.status(&unclaimed).await == "failed" }).await;
    let expired = scene.served.get(&format!("/api/tasks/{unclaimed}")).await.is(200);
    assert_eq!(expired["failure_reason"], "queued_expired");
    let seen = machine(&scene).await;
    assert_eq!((&seen["running"], &seen["parked"]), (&json!(1), &json!(1)), "{seen:#}");
    assert_eq!(scene.status(&first).await, "running");
    assert_eq!(scene.status(&second).await, "waiting_local_directory");
    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    assert_eq!(scene.status(&second).await, "dispatched");
    scene.finish().await;
}

/// A promotion that nobody confirms frees its slots, goes back to its old place, and lets the next one in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unanswered_promotion_is_parked_again_at_its_old_place_and_the_next_goes_on() {
    let scene = Scene::on(Served::with(Limits { claim_receipt: Millis(1_500), ..limits() }).await).await;
    let (first, generation) = scene.running("Holds it").await;
    let (second, _) = scene.parked("Doesn't answer").await;
    let (third, _) = scene.parked("Answers").await;
    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    assert_eq!(scene.status(&second).await, "dispatched");
    eventually(Duration::from_secs(20), || async { scene.status(&third).await == "dispatched" }).await;
    scene.report(&third, 1, 3, "receipt", json!({})).await.is(200);
    let back = scene.served.get(&format!("/api/tasks/{second}")).await.is(200);
    assert_eq!(back["status"], "waiting_local_directory");
    assert_eq!((&back["waiting"]["place"], &back["waiting"]["holder_task_id"]), (&json!(1), &json!(third)));
    assert_eq!(machine(&scene).await["running"], 1, "the unanswered one has no slot");
    // What the machine says of it too late is refused: it has no grant.
    assert_eq!(scene.report(&second, 1, 3, "receipt", json!({})).await.problem(409), "not_granted");
    // Before a newcomer, it is the first in line.
    let (fourth, _) = scene.parked("Comes later").await;
    scene.report(&third, 1, 4, "start", json!({})).await.is(200);
    scene.report(&third, 1, 5, "complete", json!({"output": "x"})).await.is(200);
    assert_eq!(scene.status(&second).await, "dispatched");
    scene.report(&second, 1, 4, "receipt", json!({})).await.is(200);
    assert_eq!(scene.status(&fourth).await, "waiting_local_directory");
    scene.finish().await;
}

/// S050: another run of an issue whose task waits doesn't touch that task and stands behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rerun_leaves_the_waiting_run_alone_and_comes_after_it() {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("Holds it").await;
    let (second, _) = scene.parked("Waits").await;
    let rerun = scene.served.post("/api/issues/LOCA-2/rerun", &json!({})).await.is(202);
    let rerun = rerun["id"].as_str().unwrap().to_owned();
    assert_eq!(scene.status(&second).await, "waiting_local_directory");
    assert_eq!(scene.status(&rerun).await, "queued");
    // Runs of one conversation never overlap.
    assert_eq!(scene.claim(5).await, Vec::<Value>::new());
    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    scene.report(&second, 1, 3, "receipt", json!({})).await.is(200);
    scene.report(&second, 1, 4, "start", json!({})).await.is(200);
    assert_eq!(scene.claim(5).await, Vec::<Value>::new());
    scene.report(&second, 1, 5, "complete", json!({"output": "x"})).await.is(200);
    assert_eq!(scene.claim(5).await[0]["id"], rerun.as_str());
    scene.finish().await;
}

/// S030, S031: what waits is ended by who asks for it, never by a change of its issue's status.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_issue_leaves_its_waiting_run_alone_and_a_cancel_takes_it_out_at_once() {
    let scene = Scene::new().await;
    scene.running("Holds it").await;
    let (second, _) = scene.parked("Waits").await;
    let closed = json!({"status": "cancelled"});
    scene.served.send(&scene.served.token, "PUT", "/api/issues/LOCA-2", Some(&closed), &[]).await.is(200);
    assert_eq!(scene.status(&second).await, "waiting_local_directory");
    let path = format!("/api/issues/LOCA-2/tasks/{second}/cancel");
    scene.served.post(&path, &json!({})).await.is(200);
    assert_eq!(scene.status(&second).await, "cancelled");
    let directory = scene.served.get(&format!("/api/directories/{}", scene.directory())).await.is(200);
    assert_eq!(directory["queue"], json!([]));
    // It had nothing on its machine: nobody is told to stop anything.
    assert_eq!(scene.orders().await, Vec::<Value>::new());
    scene.finish().await;
}

/// B-013: twenty claimers at once, two hundred tasks: each is claimed exactly once, as the log says too. Given back,
/// they are claimed again in the same way: more often with `MULTICA_TEST_LONG=1` (`bin/test --long`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_claimers_at_once_get_each_task_once() {
    const TASKS: usize = 200;
    let rounds = if std::env::var("MULTICA_TEST_LONG").is_ok_and(|long| long == "1") { 50 } else { 1 };
    let slots = u32::try_from(TASKS).unwrap();
    let wide = Limits { daemon_slots: slots, ..limits() };
    let scene = Scene::on(Served::with(wide).await).await;
    let mut agents = Vec::new();
    for n in 1..=TASKS / 50 {
        let agent = json!({"name": format!("Wide {n}"), "runtime_id": scene.runtime, "max_concurrent_tasks": 50,
            "command": {"program": "/bin/sh", "arguments": ["-c", "cat"]}});
        agents.push(scene.served.post("/api/agents", &agent).await.is(201)["id"].clone());
    }
    let created = (0..TASKS).map(|n| {
        let body = json!({"title": format!("T{n}"), "assignee_type": "agent",
            "assignee_id": agents[n % agents.len()]});
        let served = &scene.served;
        async move { served.post("/api/issues", &body).await.is(201) }
    });
    let created = futures_util::stream::iter(created).buffer_unordered(20).collect::<Vec<_>>().await;
    assert_eq!(created.len(), TASKS);
    let claimer = |_| async {
        let mut mine = Vec::new();
        loop {
            let claimed = scene.claim(3).await;
            if claimed.is_empty() {
                return mine;
            }
            mine.extend(claimed.iter().map(|task| task["id"].as_str().unwrap().to_owned()));
        }
    };
    for round in 1..=rounds {
        let claimed = futures_util::future::join_all((0..20).map(claimer)).await;
        let mut all: Vec<String> = claimed.into_iter().flatten().collect();
        all.extend(claimer(0).await);
        assert_eq!(all.len(), TASKS, "{round}: each is claimed");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), TASKS, "{round}: none is claimed twice");
        let counted =
            "select count(*), count(distinct stream_id) from es.events where event_type = 'task.claimed'";
        let counted = scene.served.db.superuser().await.query_one(counted, &[]).await.unwrap();
        let each = i64::try_from(TASKS).unwrap();
        assert_eq!((counted.get::<_, i64>(0), counted.get::<_, i64>(1)), (each * i64::from(round), each));
        if round < rounds {
            for task in all {
                scene.report(&task, round, 1, "return", json!({"reason": "daemon_stopping"})).await.is(200);
            }
        }
    }
    scene.finish().await;
}

/// B-019: a machine whose clock is wrong by ten minutes either way loses and keeps nothing by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machines_clock_judges_nothing_and_both_times_are_kept() {
    let scene = Scene::new().await;
    let (task, generation) = scene.running("One").await;
    let now = jiff::Timestamp::now();
    for (ordinal, minutes) in [(5, 10), (6, -10)] {
        let at = now + jiff::SignedDuration::from_mins(minutes);
        let body = json!({"generation": generation, "ordinal": ordinal, "occurred_at": at.to_string(),
            "report": "session", "session_id": format!("s{ordinal}")});
        let path = format!("/api/daemon/tasks/{task}/session");
        scene.served.keyed(&format!("skewed/{ordinal}"), &path, &body).await.is(200);
    }
    assert_eq!(scene.status(&task).await, "running");
    let history = scene.served.get(&format!("/api/tasks/{task}/history")).await.is(200);
    let pinned: Vec<&Value> = history["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["type"] == "task.session_pinned")
        .collect();
    assert_eq!(pinned.len(), 2, "{history:#}");
    let time =
        |entry: &Value, member: &str| entry[member].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(time(pinned[0], "occurred_at") > time(pinned[0], "recorded_at"));
    assert!(time(pinned[1], "occurred_at") < time(pinned[1], "recorded_at"));
    scene.finish().await;
}

/// a machine that signs off while it holds a directory is given up after the grace, as any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_signed_off_with_a_running_task_is_given_up_after_the_grace() {
    let short = Limits { unreachable: Millis(500), reconnect_grace: Millis(600_000), ..limits() };
    let scene = Scene::on(Served::with(short).await).await;
    let (first, _) = scene.running("Runs").await;
    let (second, _) = scene.parked("Waits").await;
    let body = json!({"daemon_id": DAEMON, "incarnation": scene.incarnation});
    scene.served.post("/api/daemon/deregister", &body).await.is(200);
    assert_eq!(scene.status(&first).await, "running", "it may come back");
    later(&scene, "20 minutes").await;
    eventually(Duration::from_secs(20), || async { scene.status(&first).await == "failed" }).await;
    let lost = scene.served.get(&format!("/api/tasks/{first}")).await.is(200);
    assert_eq!(lost["failure_reason"], "runtime_offline");
    let directory = scene.served.get(&format!("/api/directories/{}", scene.directory())).await.is(200);
    assert_eq!(directory["holder"], Value::Null, "{directory:#}");
    nothing_runs(&scene, "the grace is over").await;
    assert_eq!(machine(&scene).await["parked"], 1);
    assert_eq!(scene.status(&second).await, "waiting_local_directory");
    scene.finish().await;
}
