//! One task from its issue to its end, as a daemon sees it.

use serde_json::{Value, json};

use super::client::{DAEMON, Scene, registration};

/// What happened, and whose doing it was.
fn told(answer: &Value) -> Vec<String> {
    let entries = answer["entries"].as_array().unwrap().iter();
    entries.map(|e| format!("{} by {}", e["type"], e["actor"]["type"]).replace('"', "")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_goes_from_its_issue_to_its_end() {
    let scene = Scene::new().await;
    let (task, generation) = scene.running("Fix the door").await;
    let messages = json!({"generation": generation, "messages": [
        {"seq": 1, "type": "text", "content": "token mul_AbCdEfGhIjKlMnOpQrStUv here"},
        {"seq": 2, "type": "text", "content": "done"}]});
    scene.served.post(&format!("/api/daemon/tasks/{task}/messages"), &messages).await.is(200);
    let usage = json!({"usage": [{"provider": "command", "model": "none", "input_tokens": 1,
        "output_tokens": 2, "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd_ticks": null}]});
    scene.report(&task, generation, 5, "usage", usage).await.is(200);
    let done = scene.report(&task, generation, 6, "complete", json!({"output": "All doors open."})).await;
    assert!(done.header("x-multica-position").is_some());
    assert_eq!(done.is(200)["status"], "completed");

    let shown = scene.served.get("/api/tasks/LOCA-1%231").await.is(200);
    assert_eq!(shown["name"], "LOCA-1#1");
    assert_eq!(shown["result"]["output"], "All doors open.");
    let transcript = scene.served.get(&format!("/api/tasks/{task}/messages")).await.is(200);
    assert_eq!(transcript[0]["content"], "token [redacted] here");
    let comments = scene.served.get("/api/issues/LOCA-1/comments").await.is(200);
    assert_eq!(comments[0]["content"], "All doors open.");
    assert_eq!(comments[0]["author_type"], "agent");
    let directories = scene.served.get("/api/directories").await.is(200);
    assert!(directories["directories"][0]["holder"].is_null());
    let story = scene.served.get(&format!("/api/tasks/{task}/history")).await.is(200);
    insta::assert_json_snapshot!(told(&story), @r#"
    [
      "task.queued by member",
      "task.claimed by daemon",
      "task.claim_received by daemon",
      "directory.acquired by daemon",
      "task.directory_entered by daemon",
      "task.prepared by daemon",
      "task.started by daemon",
      "task.usage_recorded by daemon",
      "task.completed by daemon",
      "issue.commented by agent",
      "directory.released by daemon"
    ]
    "#);
    let explained = scene.served.get(&format!("/api/tasks/{task}/explain")).await.is(200);
    assert_eq!(explained["status"], "completed");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_claim_key_gets_the_same_claim() {
    let scene = Scene::new().await;
    let task = scene.issue("One").await;
    let body = json!({"daemon_id": DAEMON, "runtime_ids": [scene.runtime], "max_tasks": 5,
        "incarnation": scene.incarnation, "wait_ms": 0});
    let first = scene.served.keyed("c1", "/api/daemon/tasks/claim", &body).await.is(200);
    let again = scene.served.keyed("c1", "/api/daemon/tasks/claim", &body).await.is(200);
    assert_eq!(first["tasks"][0]["id"], task.as_str());
    assert_eq!(first["tasks"], again["tasks"]);
    assert!(first["tasks"][0]["auth_token"].as_str().unwrap().starts_with("mat_"));
    assert_eq!(first["tasks"][0]["agent"]["id"], first["tasks"][0]["agent_id"]);
    assert_eq!(first["tasks"][0]["project_resources"][0]["resource_type"], "local_directory");
    assert_eq!(scene.claim(5).await, Vec::<serde_json::Value>::new());
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_waits_until_there_is_work() {
    let scene = Scene::new().await;
    let body = json!({"daemon_id": DAEMON, "runtime_ids": [scene.runtime], "max_tasks": 1,
        "incarnation": scene.incarnation, "wait_ms": 60_000});
    let (answer, task) =
        tokio::join!(scene.served.post("/api/daemon/tasks/claim", &body), scene.issue("Late"));
    let tasks = answer.is(200)["tasks"].as_array().unwrap().clone();
    if let Some(claimed) = tasks.first() {
        assert_eq!(claimed["id"], task.as_str());
    } else {
        assert_eq!(scene.claim(1).await[0]["id"], task.as_str());
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_claim_is_refused_and_an_older_daemon_is_superseded() {
    let scene = Scene::new().await;
    let (task, generation) = scene.running("One").await;
    let stale = scene.report(&task, generation + 1, 9, "complete", json!({"output": "x"})).await;
    assert_eq!(stale.problem(409), "stale_generation");

    let newer = registration(&scene.served, scene.machine, uuid::Uuid::now_v7());
    scene.served.post("/api/daemon/register", &newer).await.is(200);
    let body = json!({"daemon_id": DAEMON, "incarnation": scene.incarnation});
    let beat = scene.served.post("/api/daemon/heartbeat", &body).await;
    assert_eq!(beat.problem(409), "daemon_superseded");
    let claim = json!({"daemon_id": DAEMON, "runtime_ids": [scene.runtime], "max_tasks": 1,
        "incarnation": scene.incarnation});
    assert_eq!(scene.served.post("/api/daemon/tasks/claim", &claim).await.problem(409), "daemon_superseded");
    // What ran before goes on under its claim.
    scene.report(&task, generation, 10, "complete", json!({"output": "x"})).await.is(200);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_worth_it_is_tried_again_and_the_last_one_sends_the_issue_back() {
    let scene = Scene::new().await;
    let (task, generation) = scene.running("One").await;
    let put = json!({"status": "in_progress"});
    scene.served.send(&scene.served.token, "PUT", "/api/issues/LOCA-1", Some(&put), &[]).await.is(200);
    let failed = json!({"error": "boom", "failure_reason": "timeout"});
    assert_eq!(scene.report(&task, generation, 5, "fail", failed.clone()).await.is(200)["status"], "failed");
    let runs = scene.served.get("/api/issues/LOCA-1/task-runs").await.is(200);
    assert_eq!(runs[0]["attempt"], 2);
    assert_eq!(runs[0]["status"], "queued");
    assert_eq!(scene.served.get("/api/issues/LOCA-1").await.is(200)["status"], "in_progress");

    let claimed = scene.claim(1).await;
    let second = claimed[0]["id"].as_str().unwrap().to_owned();
    scene.report(&second, 1, 1, "receipt", json!({})).await.is(200);
    let said: String = (1..=60).map(|n| format!("line {n}\n")).collect();
    let failed = json!({"error": said, "failure_reason": "timeout"});
    scene.report(&second, 1, 2, "fail", failed.clone()).await.is(200);
    assert_eq!(scene.served.get("/api/issues/LOCA-1").await.is(200)["status"], "todo");
    // What it said last is shown in a few lines, what helps beside it, and all of it with the task.
    let explained = scene.served.get(&format!("/api/tasks/{second}/explain")).await.is(200);
    assert_eq!(explained["detail"], "line 56\nline 57\nline 58\nline 59\nline 60");
    let step = explained["advice"][0].as_str().unwrap();
    assert!(!explained["causes"].to_string().contains(step), "{explained:#}");
    assert_eq!(scene.served.get(&format!("/api/tasks/{second}")).await.is(200)["error"], said);
    // A replay, and a contradiction: the outcome stays.
    scene.report(&second, 1, 2, "fail", failed).await.is(200);
    scene.report(&second, 1, 3, "complete", json!({"output": "no"})).await.is(200);
    assert_eq!(scene.status(&second).await, "failed");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_names_who_did_it_not_who_passed_it_on() {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("One").await;
    scene.parked("Two").await;
    let before = scene.served.get("/api/feed?last=1").await.is(200)["position"].as_i64().unwrap();
    let lost = json!({"error": "the machine was restarted", "failure_reason": "runtime_recovery"});
    scene.report(&first, generation, 5, "fail", lost).await.is(200);
    let feed = scene.served.get(&format!("/api/feed?after={before}&limit=1000")).await.is(200);
    insta::assert_json_snapshot!(told(&feed), @r#"
    [
      "task.failed by daemon",
      "task.retried by system",
      "task.queued by system",
      "directory.released by daemon",
      "directory.promoted by system",
      "task.promoted by system"
    ]
    "#);
    scene.finish().await;
}

/// S264: what is said of a claim that was taken back doesn't disturb the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_given_back_too_late_does_not_disturb_the_next_one() {
    let short = multica::kernel::limits::Millis(300);
    let limits = multica::kernel::limits::Limits { claim_receipt: short, ..super::client::limits() };
    let scene = Scene::on(super::client::Served::with(limits).await).await;
    let task = scene.issue("One").await;
    assert_eq!(scene.claim(1).await[0]["generation"], 1);
    crate::support::eventually(std::time::Duration::from_secs(20), || async {
        scene.status(&task).await == "queued"
    })
    .await;
    assert_eq!(scene.claim(1).await[0]["generation"], 2);
    scene.report(&task, 2, 1, "receipt", json!({})).await.is(200);
    scene.report(&task, 1, 1, "return", json!({"reason": "daemon_restarted"})).await;
    let refused = scene.report(&task, 1, 2, "receipt", json!({})).await;
    assert_eq!(refused.problem(409), "stale_generation");
    let shown = scene.served.get(&format!("/api/tasks/{task}")).await.is(200);
    assert_eq!((&shown["status"], &shown["generation"]), (&json!("dispatched"), &json!(2)), "{shown:#}");
    scene.report(&task, 2, 3, "start", json!({})).await.is(200);
    scene.finish().await;
}

/// S246: while something of a task can't be read for a while its claim isn't answered, nothing of it is ended, and
/// under the same key the whole is given once it can be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_can_not_be_read_for_a_while_is_given_later_and_ends_nothing() {
    let scene = Scene::new().await;
    let task = scene.issue("One").await;
    let body = json!({"daemon_id": DAEMON, "runtime_ids": [scene.runtime], "max_tasks": 5,
        "incarnation": scene.incarnation, "wait_ms": 0});
    let rename = async |from: &str, to: &str| {
        let sql = format!("alter table es.{from} rename to {to}");
        scene.served.db.superuser().await.batch_execute(&sql).await.unwrap();
    };
    // Its issue's words can't be read; that it was claimed can be written.
    rename("contents", "contents_elsewhere").await;
    for _ in 0..2 {
        let answer = scene.served.keyed("c1", "/api/daemon/tasks/claim", &body).await;
        assert!(answer.status >= 500 && answer.body.get("tasks").is_none(), "{:#}", answer.body);
    }
    rename("contents_elsewhere", "contents").await;
    assert_eq!(scene.status(&task).await, "dispatched");
    let given = scene.served.keyed("c1", "/api/daemon/tasks/claim", &body).await.is(200);
    assert_eq!((&given["tasks"][0]["id"], &given["tasks"][0]["generation"]), (&json!(task), &json!(1)));
    assert_eq!(given["tasks"][0]["thread_name"], "One");
    scene.report(&task, 1, 1, "receipt", json!({})).await.is(200);
    scene.finish().await;
}

/// S280: a daemon that offers something else from now on loses nothing of what it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_set_of_runtimes_leaves_what_runs_alone() {
    let scene = Scene::new().await;
    let (task, generation) = scene.running("One").await;
    let mut other = registration(&scene.served, scene.machine, scene.incarnation);
    other["runtimes"] = json!([{"type": "codex", "name": "Codex", "version": "2"}]);
    other["capabilities"] = json!(["directory-queue-v1"]);
    let answer = scene.served.post("/api/daemon/register", &other).await.is(200);
    let status = |provider: &str| {
        let all = answer["runtimes"].as_array().unwrap();
        all.iter().find(|runtime| runtime["provider"] == provider).unwrap()["status"].clone()
    };
    assert_eq!((status("codex"), status("command")), (json!("online"), json!("offline")));
    let orphans = format!("/api/daemon/runtimes/{}/recover-orphans", scene.runtime);
    scene.served.post(&orphans, &json!({})).await.is(200);
    assert_eq!(scene.status(&task).await, "running");
    scene.report(&task, generation, 10, "complete", json!({"output": "x"})).await.is(200);
    // The next task of the runtime that is gone waits for it, and says so.
    let next = scene.issue("Two").await;
    let explained = scene.served.get(&format!("/api/tasks/{next}/explain")).await.is(200);
    assert!(explained["causes"].to_string().contains("doesn't offer"), "{explained:#}");
    scene.finish().await;
}

/// A task whose issue can't be read any more is left out of a claim; the others of it are given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_can_not_be_built_keeps_no_other_from_being_given() {
    let scene = Scene::new().await;
    let broken = scene.issue("Broken").await;
    let whole = scene.issue("Whole").await;
    let issue = scene.served.get(&format!("/api/tasks/{broken}")).await.is(200)["issue_id"].clone();
    let gone = format!(
        "update es.events set stream_id = gen_random_uuid() where stream_id = '{}'",
        issue.as_str().unwrap()
    );
    scene.served.db.superuser().await.batch_execute(&gone).await.unwrap();
    let claimed = scene.claim(2).await;
    let ids: Vec<_> = claimed.iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [whole.as_str()]);
    // The log was changed behind the program's back: it isn't whole, and isn't looked at again.
    scene.served.shutdown.cancel();
    scene.served.serving.await.unwrap().unwrap();
}
