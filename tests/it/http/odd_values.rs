//! Values that are well formed and can't be kept, or not be read again by everybody who has to.

use serde_json::{Value, json};

use super::client::{Scene, Served};

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!([inner]))
}

/// What is kept is wrapped on its way to every reader, and all parsers stop somewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_can_be_read_everywhere_and_what_is_too_deep_is_refused() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let resources = format!("/api/projects/{}/resources", scene.project);
    let body = |depth| {
        json!({"resource_type": "github_repo",
            "resource_ref": {"url": "https://x.example/a/b", "note": nested(depth)}})
    };
    for depth in [100, 125] {
        let answer = served.post(&resources, &body(depth)).await;
        assert_eq!(answer.problem(400), "json_too_deep", "{depth}");
    }
    served.post(&resources, &body(60)).await.is(201);
    served.get(&resources).await.is(200);
    served.get("/api/projects").await.is(200);
    let task = scene.issue("With all of it").await;
    let claimed = scene.claim(1).await;
    assert_eq!(claimed[0]["id"], task, "its resources can be read by the daemon");
    let verified = served.post("/api/verify", &json!({})).await.is(200);
    assert_eq!(verified["findings"], json!([]));
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_and_numbers_that_the_database_cannot_keep_are_refused_by_field() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let (task, generation) = scene.running("One").await;
    for occurred_at in ["-009000-01-01T00:00:00Z", "1969-12-31T23:59:59Z"] {
        let path = format!("/api/daemon/tasks/{task}/session");
        let body = json!({"generation": generation, "ordinal": 90, "occurred_at": occurred_at,
            "session_id": "s"});
        let answer = served.post(&path, &body).await;
        assert_eq!(answer.problem(400), "invalid_field", "{occurred_at}");
        assert_eq!(answer.body["field"], "occurred_at");
    }
    for seq in [-1_i64, 0, 1 << 40] {
        let path = format!("/api/daemon/tasks/{task}/messages");
        let body = json!({"generation": generation,
            "messages": [{"seq": seq, "type": "text", "content": "x"}]});
        let answer = served.post(&path, &body).await;
        assert_eq!((answer.problem(400), &answer.body["field"]), ("invalid_field", &json!("seq")), "{seq}");
    }
    let token = json!({"name": "for ever", "expires_in_days": u32::MAX});
    let answer = served.post("/api/tokens", &token).await;
    assert_eq!(answer.problem(400), "invalid_field");
    assert_eq!(answer.body["field"], "expires_in_days");
    scene.finish().await;
}

/// Whoever asks whether the log is whole gets an answer, whatever was done to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_of_the_log_is_a_finding_of_verify_and_not_its_failure() {
    for change in [
        "update es.events set data = '{}' where event_type = 'project.created'",
        "delete from es.events where event_type = 'project.created'",
    ] {
        let served = Served::new().await;
        served.post("/api/projects", &json!({"title": "One"})).await.is(201);
        served.db.superuser().await.batch_execute(change).await.unwrap();
        let verified = served.post("/api/verify", &json!({})).await.is(200);
        let findings = verified["findings"].to_string();
        assert!(findings.contains("does not have the hash of its events"), "{change}: {findings}");
        assert!(findings.contains("can't be compared with the log"), "{change}: {findings}");
        served.shutdown.cancel();
        served.serving.await.unwrap().unwrap();
    }
}
