//! Two streams tell one fact: both events come from one command, with one cause, whatever way led there.

use std::collections::BTreeMap;

use multica::kernel::limits::Millis;
use serde_json::{Value, json};

use super::client::{Scene, Served, limits};

struct Recorded {
    command: uuid::Uuid,
    kind: String,
    task: String,
    data: Value,
}

async fn log(scene: &Scene) -> Vec<Recorded> {
    let rows = scene
        .served
        .db
        .superuser()
        .await
        .query(
            "select command_id, family || '.' || event_type, stream_id, data::text, family from es.events order by seq",
            &[],
        )
        .await
        .unwrap();
    rows.iter()
        .map(|row| {
            let data: Value = serde_json::from_str(row.get(3)).unwrap();
            let stream: uuid::Uuid = row.get(2);
            let kind: String = row.get(1);
            let family: String = row.get(4);
            // The type may name its family already.
            let kind = kind
                .strip_prefix(&format!("{family}.{family}."))
                .map_or(kind.clone(), |rest| format!("{family}.{rest}"));
            let task = if family == "task" {
                stream.to_string()
            } else {
                data["task"].as_str().unwrap_or_default().to_owned()
            };
            Recorded { command: row.get(0), kind, task, data }
        })
        .collect()
}

/// design §5: for each directory event, the task event that its command writes for the same task.
const PAIRS: &[(&str, &[&str])] = &[
    ("directory.acquired", &["task.directory_entered"]),
    ("directory.queued", &["task.parked"]),
    ("directory.promoted", &["task.promoted"]),
    ("directory.lock_blocked", &["task.parked"]),
    ("directory.left_queue", &["task.cancelled", "task.failed"]),
    ("directory.released", &["task.completed", "task.failed", "task.cancel_acknowledged"]),
    ("directory.holder_lost", &["task.failed"]),
];

/// And the other way round: the task event never comes without its directory's.
const BACK: &[(&str, &[&str])] = &[
    ("task.directory_entered", &["directory.acquired"]),
    ("task.parked", &["directory.queued", "directory.lock_blocked"]),
    ("task.promoted", &["directory.promoted"]),
];

/// Who met a foreign lock kept its grant: it goes on without being promoted in the directory again.
fn had_kept_its_grant(log: &[Recorded], promoted: &Recorded) -> bool {
    let mut parked = log.iter().filter(|event| event.kind == "task.parked" && event.task == promoted.task);
    promoted.kind == "task.promoted"
        && parked.next_back().is_some_and(|event| event.data["because"] == "foreign_lock")
}

fn assert_paired(log: &[Recorded], pairs: &[(&str, &[&str])], seen: &mut BTreeMap<String, usize>) {
    for event in log {
        let Some((_, others)) = pairs.iter().find(|(kind, _)| *kind == event.kind) else { continue };
        *seen.entry(event.kind.clone()).or_default() += 1;
        let paired = log.iter().any(|other| {
            other.command == event.command
                && other.task == event.task
                && others.contains(&other.kind.as_str())
        });
        assert!(
            paired || had_kept_its_grant(log, event),
            "{} of {} stands alone: {}",
            event.kind,
            event.task,
            event.data
        );
    }
}

/// A release and the promotion that follows from it are one command.
fn assert_released_and_promoted(log: &[Recorded], task: &str, next: &str) {
    let released = log.iter().find(|event| {
        event.kind.starts_with("directory.")
            && event.task == task
            && matches!(
                event.kind.as_str(),
                "directory.released" | "directory.left_queue" | "directory.holder_lost"
            )
    });
    let promoted = log.iter().find(|event| event.kind == "directory.promoted" && event.task == next);
    assert_eq!(released.map(|event| event.command), promoted.map(|event| event.command));
    assert!(released.is_some(), "{task} was never let go");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_events_are_written_by_one_command() {
    let scene = Scene::on(
        Served::with(multica::kernel::limits::Limits { claim_receipt: Millis(60_000), ..limits() }).await,
    )
    .await;
    let (completed, generation) = scene.running("Completes").await;
    let (cancelled_waiting, _) = scene.parked("Is cancelled while it waits").await;
    let (blocked, _) = scene.parked("Meets a foreign lock").await;
    scene.served.post(&format!("/api/tasks/{cancelled_waiting}/cancel"), &json!({})).await.is(200);
    scene.report(&completed, generation, 9, "complete", json!({"output": "x"})).await.is(200);

    // The next meets a foreign lock, then gets it, and fails.
    scene.report(&blocked, 1, 3, "receipt", json!({})).await.is(200);
    let lock =
        json!({"directory": scene.directory(), "lock": {"state": "blocked", "pid": 7, "program": "vi"}});
    scene.report(&blocked, 1, 4, "directory-lock", lock).await.is(200);
    assert_eq!(scene.status(&blocked).await, "waiting_local_directory");
    let lock = json!({"directory": scene.directory(), "lock": {"state": "free"}});
    scene.report(&blocked, 1, 5, "directory-lock", lock).await.is(200);
    scene.report(&blocked, 1, 6, "receipt", json!({})).await.is(200);
    scene.report(&blocked, 1, 7, "start", json!({})).await.is(200);
    let (cancelled_running, _) = scene.parked("Is cancelled while it runs").await;
    let failed = json!({"error": "x", "failure_reason": "agent_error.process_failure"});
    scene.report(&blocked, 1, 8, "fail", failed).await.is(200);

    // The next is cancelled while it runs, and its machine says when it is done.
    scene.report(&cancelled_running, 1, 3, "receipt", json!({})).await.is(200);
    scene.report(&cancelled_running, 1, 4, "start", json!({})).await.is(200);
    let (lost, _) = scene.parked("Is lost with its machine").await;
    scene.served.post(&format!("/api/tasks/{cancelled_running}/cancel"), &json!({})).await.is(200);
    scene.report(&cancelled_running, 1, 5, "cancel-received", json!({})).await.is(200);
    scene.report(&cancelled_running, 1, 6, "cancel-ack", json!({})).await.is(200);
    scene.report(&lost, 1, 3, "receipt", json!({})).await.is(200);
    scene.report(&lost, 1, 4, "start", json!({})).await.is(200);
    scene.served.post("/api/daemons/machine-1/declare-dead", &json!({})).await.is(200);

    let log = log(&scene).await;
    let mut seen = BTreeMap::new();
    assert_paired(&log, PAIRS, &mut seen);
    assert_paired(&log, BACK, &mut seen);
    for (kind, _) in PAIRS.iter().chain(BACK) {
        assert!(seen.contains_key(*kind), "{kind} didn't come up: {seen:?}");
    }
    assert_released_and_promoted(&log, &completed, &blocked);
    assert_released_and_promoted(&log, &blocked, &cancelled_running);
    assert_released_and_promoted(&log, &cancelled_running, &lost);
    scene.finish().await;
}
