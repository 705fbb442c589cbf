//! Input that no client of ours sends: every kind gets a problem of its own, and nothing is half done.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{Answer, DAEMON, Scene, Served, limits, raw, registration};

/// Sends bytes as they are and gives the first line of the answer.
async fn wire(served: &Served, bytes: &[u8]) -> String {
    let mut stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = vec![0; 64];
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut answer)).await;
    let read = read.expect("an answer in time").unwrap();
    String::from_utf8_lossy(&answer[..read]).lines().next().unwrap_or_default().to_owned()
}

async fn sent(served: &Served, path: &str, body: &[u8]) -> Answer {
    let bearer = format!("Bearer {}", served.token);
    raw(served.address, "POST", path, &[("Authorization", &bearer)], body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_that_are_no_text_are_refused_by_name_on_every_kind_of_thing() {
    let scene = Scene::new().await;
    for thing in ["projects", "issues", "tasks", "agents", "directories", "workspaces"] {
        for part in ["%00", "a%00b", "%ff%fe", "%c3%28"] {
            let answer = scene.served.get(&format!("/api/{thing}/{part}")).await;
            assert_eq!(answer.problem(400), "invalid_path", "{thing} {part}");
        }
    }
    for part in ["%00", "%ff"] {
        let path = format!("/api/daemon/tasks/{part}/status");
        assert_eq!(scene.served.get(&path).await.problem(400), "invalid_path");
        assert_eq!(scene.served.get(&format!("/tasks/{part}")).await.status, 400);
    }
    // Well-formed names of nothing.
    let long = "x".repeat(4_000);
    for part in ["LOCA-99999999999999999999", "LOCA--1", "%F0%9F%92%A5", "..", "'%20or%20true", &long] {
        for thing in ["issues", "tasks"] {
            let answer = scene.served.get(&format!("/api/{thing}/{part}")).await;
            assert_eq!(answer.problem(404), "not_found", "{thing} {part}");
        }
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_out_of_bounds_are_refused_and_large_ones_cut() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let task = scene.issue("One").await;
    for path in [
        "/api/tasks?limit=-1",
        "/api/tasks?limit=x",
        "/api/tasks?limit=99999999999",
        "/api/tasks?active=maybe",
        "/api/issues?limit=-1",
        "/api/issues?offset=-5",
        "/api/feed?limit=-1",
        "/api/feed?after=x",
        "/api/feed?after=1.5",
        "/api/feed?after=99999999999999999999",
        "/api/daemon/orders?daemon_id=machine-1&wait_ms=-1",
        "/api/daemon/orders?after=0",
        &format!("/api/tasks/{task}/messages?since=x"),
        &format!("/api/tasks/{task}/messages?generation=-1"),
    ] {
        assert_eq!(served.get(path).await.problem(400), "invalid_query", "{path}");
    }
    for path in ["/api/me?at_least=x", "/api/tasks?project_id=x", "/api/me?workspace_id=x"] {
        assert_eq!(served.get(path).await.problem(400), "invalid_field", "{path}");
    }
    // An empty list would look like there being nothing: what can't be is named, with what can.
    for (path, named) in [
        ("/api/tasks?status=running,bogus", "waiting_local_directory"),
        ("/api/issues?status=bogus", "in_review"),
        ("/api/projects?status=bogus", "planned"),
        ("/api/projects?priority=bogus", "urgent"),
        ("/api/feed?type=bogus", "task"),
        ("/api/feed?type=task.bogus", "task.started"),
        ("/api/feed?project=bogus", "project"),
    ] {
        let answer = served.get(path).await;
        assert!(answer.body["error"].as_str().unwrap_or_default().contains(named), "{path}: {}", answer.body);
        assert_eq!(answer.problem(400), "invalid_field", "{path}");
    }
    let nobody = "0190aaaa-0000-7000-8000-00000000ffff";
    for kind in ["task", "project", "agent", "directory"] {
        let answer = served.get(&format!("/api/feed?{kind}={nobody}")).await;
        assert!(answer.body["error"].as_str().unwrap_or_default().contains(nobody), "{}", answer.body);
        assert_eq!(answer.problem(404), "not_found", "{kind}");
    }
    scene.issue("One").await;
    for (path, named) in [
        ("/api/tasks/abc", "`abc`"),
        ("/api/tasks/LOCA-1", "LOCA-1#1"),
        ("/api/tasks/loca-1%239/explain", "LOCA-1#1"),
        ("/api/tasks/LOCA-77%231", "`LOCA-77#1`"),
        ("/api/issues/foo", "`foo`"),
        ("/api/issues/LOCA-1%231", "its issue is LOCA-1"),
    ] {
        let answer = served.get(path).await;
        let said = format!("{} {}", answer.body["error"], answer.body["next_step"]);
        assert!(said.contains(named), "{path}: {said}");
        assert_eq!(answer.problem(404), "not_found", "{path}");
    }
    assert!(served.get("/api/feed?task=LOCA-1%231&last=3").await.is(200)["entries"][0].is_object());
    for (path, key) in [
        ("/api/tasks?limit=0", "tasks"),
        ("/api/tasks?limit=4000000000", "tasks"),
        ("/api/issues?offset=4000000000", "issues"),
        ("/api/tasks?status=%00,running", "tasks"),
        ("/api/feed?after=9223372036854775807", "entries"),
        ("/api/feed?after=-7", "entries"),
        ("/api/feed?task=%00&type=%00", "entries"),
    ] {
        assert!(served.get(path).await.is(200)[key].is_array(), "{path}");
    }
    let bearer = format!("Bearer {}", served.token);
    let stream =
        [("Authorization", bearer.as_str()), ("Accept", "text/event-stream"), ("Last-Event-ID", "x")];
    assert_eq!(raw(served.address, "GET", "/api/feed", &stream, b"").await.problem(400), "invalid_field");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_no_json_objects_of_the_right_form_are_refused() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_inside = format!(r#"{{"title":"x","description":{}1{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    let not_json: [&[u8]; 7] = [
        b"{",
        b"\xff\xfe",
        b"{\"title\":\"\xc3\x28\"}",
        br#"{"title":"\ud800"}"#,
        br#"{"title":1e999}"#,
        deep.as_bytes(),
        deep_inside.as_bytes(),
    ];
    for body in not_json {
        let head = String::from_utf8_lossy(&body[..body.len().min(30)]).into_owned();
        assert_eq!(sent(served, "/api/projects", body).await.problem(400), "invalid_json", "{head}");
    }
    for body in ["[]", "\"x\"", "3", "null", r#"{"title":["x"]}"#, r#"{"title":{"a":1}}"#] {
        assert_eq!(
            sent(served, "/api/projects", body.as_bytes()).await.problem(400),
            "invalid_body",
            "{body}"
        );
    }
    scene.issue("One").await;
    for body in [
        json!([]),
        json!("x"),
        json!({"title": 5}),
        json!({"status": ["done"]}),
        json!({"expected_revision": "1"}),
        json!({"suppress_run": "no"}),
    ] {
        let answer = served.send(&served.token, "PUT", "/api/issues/LOCA-1", Some(&body), &[]).await;
        assert_eq!(answer.problem(400), "invalid_body", "{body}");
    }
    assert_eq!(served.get("/api/issues/LOCA-1").await.is(200)["title"], "One");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_long_is_refused_and_what_is_odd_is_kept() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let long = "x".repeat(limits().content_bytes + 1);
    for (path, body) in [
        ("/api/projects", json!({"title": long})),
        ("/api/projects", json!({"title": "a", "description": long})),
        ("/api/issues", json!({"title": long})),
        ("/api/issues", json!({"title": "x".repeat(limits().title_characters + 1)})),
        ("/api/projects", json!({"title": "two\nlines"})),
        ("/api/issues", json!({"title": "two\r\nlines"})),
        ("/api/issues", json!({"title": "a", "description": long})),
        ("/api/issues", json!({"title": "\u{200b}\u{feff}"})),
        ("/api/tokens", json!({"name": "x".repeat(limits().title_characters + 1)})),
        ("/api/tokens", json!({"name": "two\nlines"})),
        ("/api/tokens", json!({"name": "\u{200b}"})),
    ] {
        assert_eq!(served.post(path, &body).await.problem(400), "invalid_field", "{path}");
    }
    let odd = "Zürich 🌋 \u{202e}\u{feff}\u{1b}[31m </script><b>\"'";
    let body = json!({"title": odd, "description": format!("{odd}\r\n"), "project_id": scene.project});
    let issue = served.post("/api/issues", &body).await.is(201);
    assert_eq!(issue["title"], odd);
    assert_eq!(issue["description"], format!("{odd}\r\n"));
    let path = format!("/api/issues/{}/comments", issue["id"].as_str().unwrap());
    assert_eq!(served.post(&path, &json!({"content": "\u{200b}"})).await.problem(400), "invalid_field");
    assert_eq!(served.post(&path, &json!({"content": long})).await.problem(400), "invalid_field");
    // What would make an event that the log doesn't take.
    let many = vec!["y".repeat(1_000); 200];
    let agent = json!({"name": "many", "runtime_id": scene.runtime,
        "command": {"program": "/bin/sh", "arguments": many}});
    assert_eq!(served.post("/api/agents", &agent).await.problem(413), "too_much_in_one_event");
    let resources = format!("/api/projects/{}/resources", scene.project);
    let reference = json!({"url": "https://x.example/a/b", "note": "z".repeat(100_000)});
    let body = json!({"resource_type": "github_repo", "resource_ref": reference});
    assert_eq!(served.post(&resources, &body).await.problem(413), "too_much_in_one_event");
    let registration = json!({"workspace_id": served.workspace, "daemon_id": "d2",
        "device_name": "n".repeat(100_000), "runtimes": []});
    assert_eq!(
        served.post("/api/daemon/register", &registration).await.problem(413),
        "too_much_in_one_event"
    );
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_no_http_end_and_the_server_lives_on() {
    let served = Served::new().await;
    assert!(wire(&served, b"\x16\x03\x01\x02\x00garbage\r\n\r\n").await.contains("400"));
    assert!(wire(&served, b"GET / HTTP/1.1\r\n\r\n").await.contains("421"));
    let twice = format!(
        "GET /health HTTP/1.1\r\nHost: {0}\r\nHost: evil\r\nConnection: close\r\n\r\n",
        served.address
    );
    let twice = wire(&served, twice.as_bytes()).await;
    assert!(twice.contains("421"), "{twice}");
    let chunks = format!(
        "POST /api/projects HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n",
        served.address, served.token
    );
    assert!(wire(&served, chunks.as_bytes()).await.contains("400"));
    let bearer = format!("Bearer {}", served.token);
    for (name, value) in [("Idempotency-Key", ""), ("Idempotency-Key", &"k".repeat(300)[..])] {
        let headers = [("Authorization", bearer.as_str()), (name, value)];
        let answer = raw(served.address, "POST", "/api/projects", &headers, br#"{"title":"x"}"#).await;
        assert_eq!(answer.problem(400), "invalid_idempotency_key");
    }
    let long = vec![b'x'; limits().body_bytes + 1];
    assert_eq!(raw(served.address, "POST", "/sign-in", &[], &long).await.problem(413), "body_too_large");
    assert_eq!(raw(served.address, "POST", "/sign-in", &[], b"\xff=\0").await.problem(400), "invalid_field");
    for method in ["PATCH", "TRACE", "OPTIONS", "CONNECTED"] {
        let answer = raw(served.address, method, "/api/projects", &[("Authorization", &bearer)], b"").await;
        assert_eq!(answer.problem(405), "method_not_allowed", "{method}");
    }
    assert_eq!(served.get("/api/projects").await.is(200)["total"], 0);
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_of_no_known_type_or_form_are_refused_by_name() {
    let scene = Scene::new().await;
    let path = format!("/api/projects/{}/resources", scene.project);
    let local = |reference: Value| json!({"resource_type": "local_directory", "resource_ref": reference});
    let at = |path: &str| local(json!({"local_path": path, "daemon_id": "other"}));
    let cases = [
        (json!({"resource_type": "spaceship", "resource_ref": {}}), "unknown_resource_type"),
        (json!({"resource_type": "", "resource_ref": {}}), "unknown_resource_type"),
        (json!({"resource_type": "local_directory", "resource_ref": []}), "invalid_body"),
        (json!({"resource_type": "local_directory"}), "invalid_body"),
        (local(json!({"daemon_id": "d"})), "empty"),
        (local(json!({"local_path": "/srv/x"})), "missing_daemon_id"),
        (local(json!({"local_path": 7, "daemon_id": "d"})), "bad_ref"),
        (local(json!({"local_path": "/srv/x", "daemon_id": "d", "execution_mode": "?"})), "unsupported_mode"),
        (at("  "), "empty"),
        (at("relative/x"), "not_absolute"),
        (at("./x"), "not_absolute"),
        (at("~/x"), "not_absolute"),
        (at("/"), "protected_root"),
        (at("//"), "protected_root"),
        (at("/home/"), "protected_root"),
        (at("/home/../etc/."), "protected_root"),
        (at("/\u{0}etc"), "text_holds_nul"),
        (at("C:\\"), "drive_root"),
        (at("c:/windows/"), "protected_root"),
        (at("\\\\host\\share"), "drive_root"),
        (json!({"resource_type": "github_repo", "resource_ref": {"url": "ftp://x/y"}}), "bad_repo_url"),
        (
            json!({"resource_type": "github_repo", "resource_ref": {"url": "-oProxyCommand=x:y"}}),
            "bad_repo_url",
        ),
        (
            json!({"resource_type": "github_repo", "resource_ref": {"url": "https://a:b@x/y"}}),
            "repo_url_with_password",
        ),
    ];
    for (body, code) in cases {
        assert_eq!(scene.served.post(&path, &body).await.problem(400), code, "{body}");
        let with = json!({"title": "With", "resources": [body]});
        assert_eq!(scene.served.post("/api/projects", &with).await.problem(400), code, "{body}");
    }
    assert_eq!(scene.served.get(&path).await.is(200)["total"], 1);
    assert_eq!(scene.served.get("/api/projects").await.is(200)["total"], 1, "all or none");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_inside_or_around_an_attached_one_is_allowed_and_warned_about() {
    let scene = Scene::new().await;
    let served = &scene.served;
    for (path, warned) in
        [("/srv/game/engine", "lies inside `/srv/game`"), ("/srv/../srv", "holds"), ("/srv/gamer", "")]
    {
        let project = served.post("/api/projects", &json!({"title": path})).await.is(201);
        let body = json!({"resource_type": "local_directory",
            "resource_ref": {"local_path": path, "daemon_id": DAEMON}});
        let resources = format!("/api/projects/{}/resources", project["id"].as_str().unwrap());
        let attached = served.post(&resources, &body).await.is(201);
        let warnings = attached["warnings"].as_array().unwrap();
        assert_eq!(warnings.is_empty(), warned.is_empty(), "{path}: {warnings:?}");
        assert!(warnings.iter().all(|said| said.as_str().unwrap().contains(warned)), "{path}: {warnings:?}");
        // The rest of the world doesn't matter for the next case.
        let gone = format!("{resources}/{}", attached["id"].as_str().unwrap());
        served.send(&served.token, "DELETE", &gone, None, &[]).await.is(204);
    }
    scene.finish().await;
}

/// Attaches, and answers the probe that the server orders as the daemon would.
async fn attached_with(scene: &Scene, daemon_path: &str, result: Value) -> Answer {
    let served = &scene.served;
    let project = served.post("/api/projects", &json!({"title": daemon_path})).await.is(201);
    let resources = format!("/api/projects/{}/resources", project["id"].as_str().unwrap());
    let body = json!({"resource_type": "local_directory",
        "resource_ref": {"local_path": daemon_path, "daemon_id": DAEMON}});
    let answers = async {
        let order = loop {
            let path = format!("/api/daemon/orders?daemon_id={DAEMON}&after=0&wait_ms=200");
            let orders = served.get(&path).await.is(200)["orders"].clone();
            let of_path = |order: &&Value| order.to_string().contains(daemon_path);
            if let Some(order) = orders.as_array().unwrap().iter().find(of_path) {
                break order.clone();
            }
        };
        let path = format!("/api/daemon/orders/{}/probed", order["id"].as_str().unwrap());
        served.post(&path, &json!({"daemon_id": DAEMON, "result": result})).await.is(200);
    };
    let (attached, ()) = tokio::join!(served.post(&resources, &body), answers);
    attached
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_online_daemon_looks_at_what_is_attached_and_its_refusal_stops_it() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let resources = served.get(&format!("/api/projects/{}/resources", scene.project)).await.is(200);
    assert_eq!(resources["resources"][0]["verified"], false, "nobody could look when it was attached");
    let mut body = registration(served, scene.machine, scene.incarnation);
    body["capabilities"] = json!(["directory-queue-v1"]);
    served.post("/api/daemon/register", &body).await.is(200);
    let usable = json!({"outcome": "usable", "real_path": "/srv/a", "git": true, "can_isolate": true});
    assert_eq!(attached_with(&scene, "/srv/a", usable).await.is(201)["verified"], true);
    let refused = json!({"outcome": "refused", "code": "does_not_exist", "sentence": "nothing is at this path",
        "next_step": "Check the path on that machine, then update the resource."});
    let answer = attached_with(&scene, "/srv/b", refused).await;
    assert_eq!(answer.problem(422), "does_not_exist");
    assert_eq!(answer.body["next_step"], "Check the path on that machine, then update the resource.");
    let attached: Vec<Value> = projects_with_resources(served).await;
    assert_eq!(attached.len(), 2, "the refused one was not attached: {attached:?}");
    // One that doesn't answer in time doesn't hold the person up: stored, and said to be unverified.
    let project = served.post("/api/projects", &json!({"title": "silent"})).await.is(201);
    let resources = format!("/api/projects/{}/resources", project["id"].as_str().unwrap());
    let body = json!({"resource_type": "local_directory",
        "resource_ref": {"local_path": "/srv/c", "daemon_id": DAEMON}});
    assert_eq!(served.post(&resources, &body).await.is(201)["verified"], false);
    scene.finish().await;
}

async fn projects_with_resources(served: &Served) -> Vec<Value> {
    let projects = served.get("/api/projects").await.is(200)["projects"].as_array().unwrap().clone();
    projects.into_iter().filter(|project| project["resource_count"] != 0).collect()
}
