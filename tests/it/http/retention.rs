//! Transcripts that are kept for so many days.

use std::collections::BTreeSet;
use std::time::Duration;

use multica::kernel::limits::{Limits, Millis};
use multica::store::verify;
use serde_json::{Value, json};

use super::client::{Scene, Served, limits};
use crate::support::eventually;

const WAIT: Duration = Duration::from_secs(20);

/// Rounds follow each other at once, and nothing but transcripts is old after a year.
fn quick() -> Limits {
    let years = Millis(3 * 365 * 24 * 3_600 * 1_000);
    Limits {
        retention_every: Millis(50),
        unreachable: years,
        reconnect_grace: years,
        queued_ttl: years,
        ..limits()
    }
}

async fn said(scene: &Scene, task: &str, generation: u32) {
    let body = json!({"generation": generation, "messages": [
        {"seq": 1, "type": "text", "content": "one"}, {"seq": 2, "type": "text", "content": "two"}]});
    scene.served.post(&format!("/api/daemon/tasks/{task}/messages"), &body).await.is(200);
}

/// Ages everything that was said in a task, and the task with it.
async fn aged(served: &Served, days: i32) {
    let owner = served.db.superuser().await;
    let sql = "insert into es.clock_offset (single, by_interval) values (true, make_interval(days => $1))
               on conflict (single) do update set by_interval = excluded.by_interval";
    owner.execute(sql, &[&days]).await.unwrap();
    owner.batch_execute("select es.ensure_partitions()").await.unwrap();
}

async fn messages(served: &Served, task: &str) -> usize {
    let answer = served.get(&format!("/api/tasks/{task}/messages")).await.is(200);
    answer.as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_keeps_transcripts_for_ever_removes_none_and_says_what_would_go() {
    let scene = Scene::on(Served::with(quick()).await).await;
    let (task, generation) = scene.running("Talk").await;
    said(&scene, &task, generation).await;
    scene.report(&task, generation, 5, "complete", json!({"output": "done"})).await.is(200);
    let served = &scene.served;
    let young = served.get("/api/retention?days=30").await.is(200);
    assert_eq!((&young["transcripts"], &young["days"]), (&json!(0), &Value::Null));
    aged(served, 40).await;
    let old = served.get("/api/retention?days=30").await.is(200);
    assert_eq!((&old["transcripts"], &old["messages"]), (&json!(1), &json!(2)));
    assert_eq!(served.get("/api/retention?days=50").await.is(200)["transcripts"], 0);
    assert_eq!(served.get("/api/retention").await.is(200)["counted_for"], Value::Null);
    assert_eq!(served.get("/api/retention?days=0").await.problem(400), "invalid_field");
    let shown = served.cli(&["retention", "--days", "30"]).await;
    assert!(shown.contains("Transcripts are kept") && shown.contains("1 transcripts with 2 messages"));
    assert_eq!(messages(served, &task).await, 2);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_transcripts_of_what_is_over_go_in_steps_each_an_event() {
    let steps = Limits { retention_batch: 2, purge_messages: 1, ..quick() };
    let scene = Scene::on(Served::keeping(30, steps).await).await;
    let mut over = Vec::new();
    for n in 0..3 {
        let (task, generation) = scene.running(&format!("Talk {n}")).await;
        said(&scene, &task, generation).await;
        scene.report(&task, generation, 5, "complete", json!({"output": "kept"})).await.is(200);
        over.push(task);
    }
    let (running, generation) = scene.running("Talk on").await;
    said(&scene, &running, generation).await;
    let served = &scene.served;
    let kept = served.get("/api/retention").await.is(200);
    assert_eq!((&kept["days"], &kept["transcripts"]), (&json!(30), &json!(0)));
    let before = multica::store::read::head(&served.app.store).await.unwrap();
    aged(served, 31).await;
    eventually(WAIT, async || {
        let mut left = 0;
        for task in &over {
            left += messages(served, task).await;
        }
        left == 0
    })
    .await;
    let shown = served.get(&format!("/api/tasks/{}", over[0])).await.is(200);
    assert_eq!(shown["transcript_gone"]["sentence"], "The transcript was removed after 30 days.");
    assert_eq!(shown["result"]["output"], "kept", "only the transcript goes");
    let page = served.get(&format!("/tasks/{}", over[0])).await.is(200).to_string();
    assert!(page.contains("The transcript was removed after 30 days."), "{page}");
    let trail = served.get("/api/audit?type=operation.transcripts_removed&limit=100").await.is(200);
    let entries = trail["entries"].as_array().unwrap();
    assert!(entries.len() >= 2, "in steps of two: {trail:#}");
    let mut gone = BTreeSet::new();
    for entry in entries {
        assert_eq!(entry["actor"]["id"], "transcripts_removed", "{entry:#}");
        assert!(entry["position"].as_i64().unwrap() > before);
        let event = served.get(&format!("/api/audit/{}", entry["position"])).await.is(200);
        for transcript in event["data"]["transcripts"].as_array().unwrap() {
            assert!(gone.insert(transcript["task"].as_str().unwrap().to_owned()), "told twice: {event:#}");
        }
    }
    assert!(over.iter().all(|task| gone.contains(task)), "{gone:?}");
    // What was being added when they went has come by then.
    aged(served, 32).await;
    eventually(WAIT, async || {
        let sql = "select count(*) from es.gone_transcripts where left_over";
        served.db.superuser().await.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0
    })
    .await;
    // Who erases it later has the stronger word.
    let erased = served.post("/api/erasures", &json!({"task": over[0]})).await.is(200);
    assert_eq!((&erased["transcripts"], &erased["texts"]), (&json!(0), &json!(2)), "{erased:#}");
    let shown = served.get(&format!("/api/tasks/{}", over[0])).await.is(200);
    assert_eq!(shown["transcript_gone"]["sentence"], "The transcript was erased.");
    let again = served.get(&format!("/api/erasures?task={}", over[0])).await.is(200);
    assert_eq!((&again["transcripts"], &again["texts"]), (&json!(0), &json!(0)), "{again:#}");
    assert_eq!(messages(served, &running).await, 2, "what runs keeps its transcript");
    assert_eq!(verify::run(&served.app.store).await.unwrap().findings, []);
    scene.finish().await;
}
