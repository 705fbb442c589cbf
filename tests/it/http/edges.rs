//! Requests that are wrong, repeated, too long, or come at a bad time.

use std::collections::BTreeSet;
use std::time::Duration;

use multica::app::writer::check::Schemas;
use multica::domain::operation::OperationEvent;
use multica::domain::{ActorKind, Event};
use multica::store::embedded::{DATABASE, Embedded};
use multica::store::event_types::{self, EventType};
use multica::store::verify::{self, Finding};
use multica::store::{read, reservations};
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
async fn a_browser_gets_pages_where_programs_get_problems() {
    let served = Served::new().await;
    let browser = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let long = vec![b'x'; limits().body_bytes + 10];
    for (method, path, body, status, told) in [
        ("GET", "/nope", &b""[..], 404, "there is nothing at this address"),
        ("GET", "/sign-in", b"", 400, "its code is missing"),
        ("POST", "/sign-in", b"code=spent", 401, "multica login --link"),
        ("POST", "/sign-in", &long, 413, "the body has more than"),
        ("GET", "/?before=x", b"", 400, "the query doesn"),
        ("DELETE", "/tasks", b"", 405, "doesn"),
        ("GET", "/tasks/abc", b"", 401, "You aren't signed in here."),
    ] {
        let page = raw(served.address, method, path, &[browser], body).await;
        assert_eq!(page.status, status, "{method} {path}");
        assert!(page.header("content-type").unwrap_or_default().starts_with("text/html"), "{method} {path}");
        let text = page.body.as_str().unwrap_or_default();
        assert!(text.contains(told) && text.contains("</html>"), "{method} {path}: {text}");
    }
    for path in ["/nope", "/sign-in"] {
        raw(served.address, "GET", path, &[("Accept", "*/*")], b"").await.problem(if path == "/nope" {
            404
        } else {
            400
        });
    }
    assert_eq!(raw(served.address, "GET", "/api/nope", &[browser], b"").await.problem(404), "not_found");
    for path in ["/favicon.ico", "/assets/icon.svg"] {
        let icon = raw(served.address, "GET", path, &[browser], b"").await;
        assert_eq!((icon.status, icon.header("content-type")), (200, Some("image/svg+xml")), "{path}");
    }
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
async fn a_text_that_somebody_wrote_is_never_changed_it_is_kept_or_refused_by_name() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let issue = served.post("/api/issues", &json!({"title": "One"})).await.is(201);
    let comments = format!("/api/issues/{}/comments", issue["id"].as_str().unwrap());
    let resources = format!("/api/projects/{}/resources", scene.project);
    let repository = json!({"url": "https://x.example/a/b"});
    for (path, body, field) in [
        ("/api/projects", json!({"title": "a\u{0}b"}), "title"),
        ("/api/issues", json!({"title": "a", "description": "a\u{0}"}), "description"),
        ("/api/agents", json!({"name": "a\u{0}", "runtime_id": scene.runtime}), "name"),
        ("/api/tokens", json!({"name": "\u{0}"}), "name"),
        (&comments, json!({"content": "a\u{0}b"}), "content"),
        (
            &resources,
            json!({"resource_type": "github_repo", "resource_ref": repository, "label": "\u{0}"}),
            "label",
        ),
    ] {
        let answer = served.post(path, &body).await;
        assert_eq!(answer.body["field"], field, "{path}");
        assert!(answer.body["next_step"].as_str().unwrap().contains("NUL"), "{path}");
        assert_eq!(answer.problem(400), "text_holds_nul", "{path}");
    }
    let change = json!({"title": "\u{0}"});
    let path = format!("/api/issues/{}", issue["id"].as_str().unwrap());
    let answer = served.send(&served.token, "PUT", &path, Some(&change), &[]).await;
    assert_eq!(answer.problem(400), "text_holds_nul");
    let kept = "    indented\r\n\n";
    assert_eq!(served.post(&comments, &json!({"content": kept})).await.is(201)["content"], kept);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_directory_of_a_daemon_is_refused_and_a_reader_waits_for_its_position() {
    let scene = Scene::new().await;
    let body = json!({"resource_type": "local_directory",
        "resource_ref": {"local_path": "/srv/other", "daemon_id": "machine-1"}});
    let path = format!("/api/projects/{}/resources", scene.project);
    assert_eq!(scene.served.post(&path, &body).await.problem(409), "duplicate_for_daemon");
    // Of another daemon it is welcome, until it is to become one of the first's; the first can be moved.
    let elsewhere = json!({"resource_type": "local_directory",
        "resource_ref": {"local_path": "/srv/other", "daemon_id": "elsewhere"}});
    let second = scene.served.post(&path, &elsewhere).await.is(201)["id"].as_str().unwrap().to_owned();
    let put = async |resource: &str, reference: serde_json::Value| {
        let body = json!({"resource_ref": reference});
        let path = format!("{path}/{resource}");
        scene.served.send(&scene.served.token, "PUT", &path, Some(&body), &[]).await
    };
    let taken = put(&second, json!({"local_path": "/srv/other", "daemon_id": "machine-1"})).await;
    assert_eq!(taken.problem(409), "duplicate_for_daemon");
    let moved = put(&scene.resource, json!({"local_path": "/srv/moved", "daemon_id": "machine-1"})).await;
    assert_eq!(moved.is(200)["resource_ref"]["local_path"], "/srv/moved");
    let all = scene.served.get(&path).await.is(200);
    let paths: Vec<_> = all["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["resource_ref"]["local_path"].clone())
        .collect();
    assert_eq!(paths, ["/srv/moved", "/srv/other"]);
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
async fn a_verification_is_an_event_with_its_counts() {
    let served = Served::new().await;
    let answer = served.post("/api/verify", &json!({})).await.is(200);
    let events = read::range(&served.app.store, answer["recorded"].as_i64().unwrap() - 1, 1).await.unwrap();
    let Event::Operation(OperationEvent::Verified(verified)) = &events[0].event else { panic!("{events:?}") };
    let counted = json!({"up_to": verified.up_to, "blocks": verified.blocks, "erased": verified.erased,
        "read_models": verified.read_models, "findings": verified.findings, "recorded": answer["recorded"],
        "deliveries": 0, "seals": 0});
    assert_eq!(counted, answer);
    assert_eq!(
        (verified.found, u64::from(verified.read_models)),
        (0, served.app.registry.all().count() as u64)
    );
    assert!(verified.up_to > 0 && verified.blocks > 0);
    assert_eq!(events[0].actor.kind, ActorKind::Member);
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_told_whole_and_recorded_with_its_number() {
    let served = Served::new().await;
    let superuser = served.db.superuser().await;
    let forge = "insert into es.reservations select 1, 'name/' || n, 'name', gen_random_uuid() \
                 from generate_series(1, 60) n";
    superuser.batch_execute(forge).await.unwrap();
    let answer = served.post("/api/verify", &json!({})).await.is(200);
    assert_eq!(answer["findings"].as_array().unwrap().len(), 60);
    let at = answer["recorded"].as_i64().unwrap();
    let events = read::range(&served.app.store, at - 1, 1).await.unwrap();
    let Event::Operation(OperationEvent::Verified(verified)) = &events[0].event else { panic!("{events:?}") };
    assert_eq!((verified.found, verified.findings.len()), (60, 50));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reservations_are_those_of_the_events_and_each_that_is_not_is_named() {
    let scene = Scene::new().await;
    scene.running("One").await;
    scene.parked("Two").await;
    scene.issue("Three").await;
    let store = &scene.served.app.store;
    let held = reservations::with_prefix(store, "").await.unwrap();
    let classes: BTreeSet<&str> = held.values().map(|held| held.class.as_str()).collect();
    assert_eq!(
        classes.into_iter().collect::<Vec<_>>(),
        ["conversation", "name", "number", "pending", "run", "slot"]
    );
    let superuser = scene.served.db.superuser().await;
    for change in [
        "delete from es.reservations",
        "update es.reservations set holder = gen_random_uuid()",
        "update es.reservations set class = 'none'",
        "update es.reservations set key = key || '/0'",
    ] {
        superuser
            .batch_execute(&format!(
                "begin; create table kept as select * from es.reservations; {change}; commit"
            ))
            .await
            .unwrap();
        let findings = verify::run(store).await.unwrap().findings;
        for key in held.keys() {
            assert!(
                findings.contains(&Finding::Reservation { key: key.clone() }),
                "{change}: {key} in {findings:?}"
            );
        }
        superuser.batch_execute("begin; delete from es.reservations; insert into es.reservations select * from kept; drop table kept; commit").await.unwrap();
        assert_eq!(verify::run(store).await.unwrap().findings, []);
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_of_event_types_is_the_catalogue_of_the_build() {
    let served = Served::new().await;
    let superuser = served.db.superuser().await;
    let there = async || {
        let sql =
            "select event_type, schema_version, sha256 from es.event_types order by event_type collate \"C\"";
        let rows = superuser.query(sql, &[]).await.unwrap();
        let read = |row: &tokio_postgres::Row| EventType {
            event_type: row.get(0),
            schema_version: row.get(1),
            sha256: row.get::<_, Vec<u8>>(2).try_into().unwrap(),
        };
        rows.iter().map(read).collect::<Vec<_>>()
    };
    assert_eq!(there().await, Schemas::catalogue());
    // One of an older state of this build is brought up to date, one of a newer build stays.
    let change = "update es.event_types set sha256 = sha256('x') where event_type = 'task.queued'; \
                  insert into es.event_types values ('zeta.danced', 1, sha256('y'))";
    superuser.batch_execute(change).await.unwrap();
    assert_eq!(
        event_types::fill(
            &served.db.owner,
            multica::kernel::limits::Limits::default().database_wait,
            &Schemas::catalogue()
        )
        .await
        .unwrap(),
        1
    );
    let mut now = there().await;
    assert_eq!(now.pop().unwrap().event_type, "zeta.danced");
    assert_eq!(now, Schemas::catalogue());
    served.finish().await;
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
