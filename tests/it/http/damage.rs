//! The log is damaged somewhere: what needs that place says so, and nothing else is the worse for it.

use std::time::Duration;

use multica::kernel::limits::{Limits, Millis};
use serde_json::{Value, json};

use super::client::{Scene, Served, limits};
use crate::support::eventually;

const PATIENCE: Duration = Duration::from_secs(20);

/// Makes the events of a stream unreadable, or readable again.
async fn damage(scene: &Scene, stream: &str) {
    let sql = format!(
        "create table if not exists public.kept (seq bigint primary key, stream uuid, data text); \
         insert into public.kept select seq, stream_id, data::text from es.events where stream_id = '{stream}'; \
         update es.events set data = '[]' where stream_id = '{stream}'"
    );
    scene.served.db.superuser().await.batch_execute(&sql).await.unwrap();
}

async fn mend(scene: &Scene, stream: &str) {
    let sql = format!(
        "update es.events e set data = k.data::json from public.kept k where k.seq = e.seq and k.stream = '{stream}'; \
         delete from public.kept where stream = '{stream}'"
    );
    scene.served.db.superuser().await.batch_execute(&sql).await.unwrap();
}

async fn issue_of(scene: &Scene, task: &str) -> String {
    let shown = scene.served.get(&format!("/api/tasks/{task}")).await.is(200);
    shown["issue_id"].as_str().unwrap().to_owned()
}

/// How often the log says that a task was claimed.
async fn claims_of(scene: &Scene, task: &str) -> i64 {
    let sql =
        "select count(*) from es.events where stream_id = $1::text::uuid and event_type = 'task.claimed'";
    scene.served.db.superuser().await.query_one(sql, &[&task]).await.unwrap().get(0)
}

fn ids(tasks: &[Value]) -> Vec<&str> {
    tasks.iter().map(|task| task["id"].as_str().unwrap()).collect()
}

fn sentences(explained: &Value) -> String {
    explained["causes"].as_array().unwrap().iter().map(|cause| cause["sentence"].to_string()).collect()
}

/// Nothing kept in memory, so that every look is at the log itself.
fn forgetful() -> Limits {
    Limits { cached_streams: 0, damaged_retry_first: Millis(100), damaged_retry_max: Millis(400), ..limits() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_issue_can_not_be_read_is_not_claimed_and_is_given_once_it_can() {
    let scene = Scene::on(Served::with(forgetful()).await).await;
    let broken = scene.issue("Broken").await;
    let whole = scene.issue("Whole").await;
    let issue = issue_of(&scene, &broken).await;
    damage(&scene, &issue).await;
    assert_eq!(ids(&scene.claim(2).await), [whole.as_str()]);
    let explained = scene.served.get(&format!("/api/tasks/{broken}/explain")).await.is(200);
    assert!(sentences(&explained).contains("the history of its issue can't be read"), "{explained:#}");
    assert!(explained["commands"].as_array().unwrap().contains(&json!("multica verify")), "{explained:#}");
    for _ in 0..5 {
        assert_eq!(scene.claim(2).await, Vec::<Value>::new());
    }
    assert_eq!(claims_of(&scene, &broken).await, 0);
    mend(&scene, &issue).await;
    eventually(PATIENCE, || async { ids(&scene.claim(2).await) == [broken.as_str()] }).await;
    scene.finish().await;
}

/// The writer has the streams in its memory, as they were before the damage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_can_not_be_built_is_not_made_again_and_again() {
    let quick = Limits {
        claim_receipt: Millis(200),
        damaged_retry_first: Millis(50),
        damaged_retry_max: Millis(100),
        ..limits()
    };
    let scene = Scene::on(Served::with(quick).await).await;
    let broken = scene.issue("Broken").await;
    let issue = issue_of(&scene, &broken).await;
    damage(&scene, &issue).await;
    assert_eq!(scene.claim(1).await, Vec::<Value>::new());
    assert_eq!(claims_of(&scene, &broken).await, 1, "it was thought to be whole");
    eventually(PATIENCE, || async { scene.status(&broken).await == "queued" }).await;
    // Its time is over again and again, and each time it is looked at and left alone.
    let looks = std::time::Instant::now();
    while looks.elapsed() < Duration::from_millis(600) {
        assert_eq!(scene.claim(1).await, Vec::<Value>::new());
    }
    assert_eq!(claims_of(&scene, &broken).await, 1);
    mend(&scene, &issue).await;
    eventually(PATIENCE, || async { ids(&scene.claim(1).await) == [broken.as_str()] }).await;
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_own_history_can_not_be_read_is_explained_and_keeps_nobody_waiting() {
    let scene = Scene::on(Served::with(forgetful()).await).await;
    let broken = scene.issue("Broken").await;
    let whole = scene.issue("Whole").await;
    damage(&scene, &broken).await;
    assert_eq!(ids(&scene.claim(2).await), [whole.as_str()]);
    let explained = scene.served.get(&format!("/api/tasks/{broken}/explain")).await.is(200);
    assert_eq!(explained["status"], "queued");
    assert!(sentences(&explained).contains("its own history can't be read"), "{explained:#}");
    let shown = scene.served.get(&format!("/api/tasks/{broken}")).await;
    assert_eq!(shown.problem(500), "log_damaged");
    let refused = scene.served.post(&format!("/api/tasks/{broken}/cancel"), &json!({})).await;
    assert_eq!(refused.problem(500), "log_damaged");
    mend(&scene, &broken).await;
    scene.served.post(&format!("/api/tasks/{broken}/cancel"), &json!({})).await.is(200);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_that_can_not_be_read_is_left_out_and_the_agent_is_told() {
    let scene = Scene::on(Served::with(forgetful()).await).await;
    let task = scene.issue("Whole").await;
    damage(&scene, &scene.project).await;
    let claimed = scene.claim(1).await;
    assert_eq!(ids(&claimed), [task.as_str()]);
    assert_eq!(claimed[0]["left_out"], json!(["the project could not be read"]));
    mend(&scene, &scene.project).await;
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_needs_the_damaged_place_fails_alone() {
    let scene = Scene::on(Served::with(forgetful()).await).await;
    let broken = scene.issue("Broken").await;
    let whole = scene.issue("Whole").await;
    let (broken_issue, whole_issue) = (issue_of(&scene, &broken).await, issue_of(&scene, &whole).await);
    damage(&scene, &broken_issue).await;
    let said = json!({"content": "a word"});
    let (damaged, sound) =
        (format!("/api/issues/{broken_issue}/comments"), format!("/api/issues/{whole_issue}/comments"));
    // Together they are likely to be in one batch of the writer.
    for _ in 0..10 {
        let (failed, done) =
            tokio::join!(scene.served.post(&damaged, &said), scene.served.post(&sound, &said));
        assert_eq!(failed.problem(500), "log_damaged");
        done.is(201);
    }
    mend(&scene, &broken_issue).await;
    scene.finish().await;
}

/// Not damage, but the same rule: what can't be given is in nobody's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_full_of_a_busy_agent_s_tasks_hides_no_other_agent_s() {
    let scene = Scene::new().await;
    for n in 0..66 {
        scene.issue(&format!("Busy {n}")).await;
    }
    assert_eq!(scene.claim(2).await.len(), 2, "all that the agent takes at once");
    let other = json!({"name": "Idle", "runtime_id": scene.runtime, "max_concurrent_tasks": 1,
        "command": {"program": "/bin/sh", "arguments": ["-c", "cat"]}});
    let other = scene.served.post("/api/agents", &other).await.is(201)["id"].clone();
    let issue = json!({"title": "Last", "assignee_type": "agent", "assignee_id": other});
    let last = scene.served.post("/api/issues", &issue).await.is(201)["task_id"].clone();
    assert_eq!(ids(&scene.claim(2).await), [last.as_str().unwrap()]);
    assert_eq!(scene.claim(2).await, Vec::<Value>::new());
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timed_duties_and_promotions_go_on_past_what_can_not_be_read() {
    let soon = Limits { queued_ttl: Millis(1_500), ..forgetful() };
    let scene = Scene::on(Served::with(soon).await).await;
    let (first, generation) = scene.running("First").await;
    let (parked, _) = scene.parked("Parked").await;
    let (next, _) = scene.parked("Next").await;
    let broken = scene.issue("Broken").await;
    let expires = scene.issue("Expires").await;
    damage(&scene, &broken).await;
    damage(&scene, &parked).await;
    scene.report(&first, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    assert_eq!(scene.status(&next).await, "dispatched", "the damaged one before it keeps its place only");
    eventually(PATIENCE, || async { scene.status(&expires).await == "failed" }).await;
    mend(&scene, &broken).await;
    mend(&scene, &parked).await;
    eventually(PATIENCE, || async { scene.status(&broken).await == "failed" }).await;
    scene.finish().await;
}

/// J-133: the list is there, what is missing is named, and whoever asks for the damaged thing itself is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_damaged_takes_no_list_feed_or_story_with_it() {
    let scene = Scene::on(Served::with(forgetful()).await).await;
    let (running, _) = scene.running("Runs").await;
    let (parked, _) = scene.parked("Waits").await;
    let broken = scene.issue("Broken").await;
    let issue = issue_of(&scene, &broken).await;
    let agent = json!({"name": "Other", "runtime_id": scene.runtime, "max_concurrent_tasks": 1,
        "command": {"program": "/bin/sh", "arguments": ["-c", "cat"]}});
    let other = scene.served.post("/api/agents", &agent).await.is(201)["id"].as_str().unwrap().to_owned();
    let directory = scene.served.get("/api/directories").await.is(200)["directories"][0]["id"].clone();
    let directory = directory.as_str().unwrap().to_owned();
    let project = json!({"title": "Second"});
    let second =
        scene.served.post("/api/projects", &project).await.is(201)["id"].as_str().unwrap().to_owned();
    let of = scene.served.get(&format!("/api/tasks/{running}")).await.is(200)["issue_id"].clone();
    let damaged = [&broken, &issue, &other, &directory, &second];
    for stream in damaged {
        damage(&scene, stream).await;
    }
    for (path, named) in [
        ("/api/tasks", vec![format!("task/{broken}"), format!("directory/{directory}")]),
        ("/api/tasks?active=true", vec![format!("task/{broken}")]),
        ("/api/issues", vec![format!("issue/{issue}")]),
        ("/api/agents", vec![format!("agent/{other}")]),
        ("/api/projects", vec![format!("project/{second}")]),
        ("/api/directories", vec![]),
        ("/api/feed?after=0&limit=1000", vec![]),
    ] {
        let answer = scene.served.get(path).await;
        let told = answer.header("x-multica-left-out").unwrap_or_default().to_owned();
        let body = answer.is(200).to_string();
        for name in named {
            assert!(told.contains(&name), "{path}: {told}");
            let id = name.rsplit('/').next().unwrap();
            assert!(name.starts_with("directory") || !body.contains(id), "{path} shows {name}: {body}");
        }
    }
    let listed = scene.served.get("/api/tasks").await.is(200)["tasks"].to_string();
    assert!(listed.contains(&running) && listed.contains(&parked), "{listed}");
    let feed = scene.served.get("/api/feed?after=0&limit=1000").await.is(200);
    let unread: Vec<&Value> = feed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["text"].as_str().unwrap().contains("can't be read"))
        .collect();
    assert!(unread.len() >= damaged.len(), "{feed:#}");
    let positions: Vec<i64> =
        feed["entries"].as_array().unwrap().iter().map(|entry| entry["position"].as_i64().unwrap()).collect();
    assert!(positions.is_sorted() && positions.len() > unread.len(), "{positions:?}");

    // The stories of the sound ones, and what is left of the damaged one's.
    let story = scene.served.get(&format!("/api/tasks/{running}/history")).await.is(200).to_string();
    assert!(story.contains("task.started") && !story.contains("can't be read"), "{story}");
    let story = scene.served.get(&format!("/api/tasks/{broken}/history")).await.is(200).to_string();
    assert!(story.contains("can't be read"), "{story}");
    for task in [&running, &parked] {
        let explained = scene.served.get(&format!("/api/tasks/{task}/explain")).await.is(200);
        assert!(
            sentences(&explained).contains("the history of its directory can't be read"),
            "{explained:#}"
        );
        assert!(explained["commands"].to_string().contains("multica verify"), "{explained:#}");
    }
    let issue_path = format!("/api/issues/{issue}");
    assert_eq!(scene.served.get(&issue_path).await.problem(500), "log_damaged");
    scene.served.get(&format!("/api/issues/{}", of.as_str().unwrap())).await.is(200);

    // The command line shows the rest and says what is missing; pages do too.
    let told = scene.served.cli(&["agent", "list"]).await;
    assert!(told.contains("Dev") && !told.contains("Other"), "{told}");
    for stream in damaged {
        mend(&scene, stream).await;
    }
    scene.finish().await;
}
