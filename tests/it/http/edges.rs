//! Requests that are wrong, repeated, too long, or come at a bad time.

use std::time::Duration;

use multica::store::embedded::{DATABASE, Embedded};
use serde_json::json;

use super::client::{Scene, Served, limits, raw};
use crate::support::{TestDb, cluster, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_one_request() {
    let served = Served::new().await;
    let first = served.keyed("k", "/api/projects", &json!({"title": "A"})).await;
    let again = served.keyed("k", "/api/projects", &json!({"title": "A"})).await;
    assert_eq!(first.header("x-multica-position"), again.header("x-multica-position"));
    assert_eq!(first.is(201)["id"], again.is(201)["id"]);
    let other = served.keyed("k", "/api/projects", &json!({"title": "B"})).await;
    assert_eq!(other.problem(422), "idempotency_key_reused");
    assert_eq!(served.get("/api/projects").await.is(200)["total"], 1);
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_hosts_wrong_bodies_and_unknown_routes_are_problems() {
    let served = Served::new().await;
    let foreign = raw(served.address, "GET", "/health", &[("Host", "evil.example")], b"").await;
    assert_eq!(foreign.problem(421), "unknown_host");
    assert_eq!(served.get("/api/nothing").await.problem(404), "not_found");
    let method = served.send(&served.token, "DELETE", "/api/projects", None, &[]).await;
    assert_eq!(method.problem(405), "method_not_allowed");
    let missing = served.post("/api/projects", &json!({})).await;
    insta::assert_json_snapshot!(missing.body, @r#"
    {
      "code": "invalid_body",
      "detail": "the body doesn't fit: missing field `title`",
      "error": "the body doesn't fit: missing field `title`",
      "field": "title",
      "next_step": "Correct the request and send it again.",
      "status": 400,
      "title": "Bad Request",
      "type": "about:blank"
    }
    "#);
    let bearer = format!("Bearer {}", served.token);
    let broken = raw(served.address, "POST", "/api/projects", &[("Authorization", &bearer)], b"{").await;
    assert_eq!(broken.problem(400), "invalid_json");
    let long = vec![b'x'; limits().body_bytes + 10];
    let long = raw(served.address, "POST", "/api/projects", &[("Authorization", &bearer)], &long).await;
    assert_eq!(long.problem(413), "body_too_large");
    let refused = served.post("/api/projects", &json!({"title": "x", "status": "odd"})).await;
    insta::assert_json_snapshot!(refused.body, @r#"
    {
      "code": "bad_status",
      "detail": "`odd` isn't known here",
      "error": "`odd` isn't known here",
      "next_step": "Use one of planned, in_progress, paused, completed, cancelled.",
      "reason_code": "bad_status",
      "status": 400,
      "title": "Bad Request",
      "type": "about:blank"
    }
    "#);
    let bad = served.get("/api/projects/xyz").await;
    assert_eq!(bad.problem(400), "invalid_field");
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nul_is_taken_out_of_what_comes_in() {
    let served = Served::new().await;
    let created =
        served.post("/api/projects", &json!({"title": "a\u{0}b", "description": "\u{0}"})).await.is(201);
    assert_eq!(created["title"], "ab");
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_directory_of_a_daemon_is_refused_and_a_reader_waits_for_its_position() {
    let scene = Scene::new().await;
    let body = json!({"resource_type": "local_directory",
        "resource_ref": {"local_path": "/srv/other", "daemon_id": "machine-1"}});
    let path = format!("/api/projects/{}/resources", scene.project);
    assert_eq!(scene.served.post(&path, &body).await.status, 409);
    let made = scene.served.post("/api/projects", &json!({"title": "Z"})).await;
    let position: i64 = made.header("x-multica-position").unwrap().parse().unwrap();
    scene.served.get(&format!("/api/projects?at_least={position}")).await.is(200);
    let ahead = scene.served.get(&format!("/api/me?at_least={}", position + 1_000)).await;
    assert_eq!(ahead.problem(503), "behind");
    assert_eq!(ahead.header("retry-after"), Some("1"));
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verify_finds_nothing_wrong() {
    let scene = Scene::new().await;
    scene.running("One").await;
    let verified = scene.served.post("/api/verify", &json!({})).await.is(200);
    assert_eq!(verified["findings"], json!([]));
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_database_the_server_says_when_to_come_back_and_recovers() {
    let folder = cluster::own_folder("outage");
    let embedded = Embedded::start(cluster::options(&folder)).await.unwrap();
    let db = TestDb { app: embedded.app_config(DATABASE), owner: embedded.owner_config(DATABASE) };
    let (app, owner) = (db.app.clone(), db.owner.clone());
    let served = Served::on(db, app, owner, limits()).await;
    served.post("/api/projects", &json!({"title": "A"})).await.is(201);
    embedded.stop().await.unwrap();
    for path in
        ["/api/projects", "/api/me", "/api/feed", "/api/tasks/LOCA-1%231", "/api/daemon/orders?daemon_id=d"]
    {
        let answer = served.get(path).await;
        assert_eq!(answer.problem(503), "database_unavailable", "{path}");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    for path in ["/api/projects", "/api/verify", "/api/daemon/heartbeat", "/api/daemon/tasks/claim"] {
        let answer = served.post(path, &json!({"title": "B"})).await;
        assert_eq!(answer.problem(503), "database_unavailable", "{path}");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    // A page says it in words, and to the browser.
    let page = served.get("/tasks").await;
    assert_eq!((page.status, page.header("retry-after")), (503, Some("1")));
    assert!(page.header("content-type").unwrap().starts_with("text/html"), "{page:?}");
    assert_eq!(served.get("/health").await.status, 200, "the server itself lives");
    drop(embedded);
    let embedded = Embedded::start(cluster::options(&folder)).await.unwrap();
    eventually(Duration::from_secs(20), || async { served.get("/api/projects").await.status == 200 }).await;
    let kept = served.get("/api/projects").await.is(200);
    assert_eq!(kept["total"], 1, "what was acknowledged, and nothing that wasn't");
    served.post("/api/projects", &json!({"title": "C"})).await.is(201);
    served.finish().await;
    embedded.stop().await.unwrap();
}
