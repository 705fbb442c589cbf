//! Whom webhooks are for, where they may lead, what a verification says of them.

use std::process::{Command, Stdio};

use multica::domain::workspace::Role;
use multica::webhook::address::Allowed;
use serde_json::{Value, json};

use super::client::{Scene, Served};
use super::every_route::colleague;
use super::webhooks::{SOON, hook, patient, python_signs, quick, settled, text};
use crate::support::eventually;
use crate::support::receiver::{Receiver, Reply};

/// A process that ends with its test, however that ends.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_says_what_the_receiver_said() {
    let served = Served::with(quick()).await;
    let receiver = Receiver::new();
    let secret = hook(&served, &receiver, &[]).await["secret"].as_str().unwrap().to_owned();
    let said = served.cli(&["webhook", "test", "chat"]).await;
    assert!(said.starts_with("chat took the test with 204"), "{said}");
    let got = receiver.got().pop().unwrap();
    assert_eq!(
        (got.event_type(), got.json()["data"].clone()),
        ("webhook.test".to_owned(), json!({"webhook": "chat"}))
    );
    assert_eq!(got.headers["webhook-signature"], python_signs(&secret, &got));
    receiver.answers(|_| Reply::Status(500));
    let (code, said) = served.cli_refused(&["webhook", "test", "chat"]).await;
    assert!(code == 1 && said.contains("the receiver didn't take it with 500"), "{said}");
    served.cli(&["webhook", "remove", "chat"]).await;
    assert_eq!(served.get("/api/webhooks/chat").await.problem(404), "not_found");
    let db = served.db.superuser().await;
    eventually(SOON, || async {
        let left = "select (select count(*) from es.secrets) + (select count(*) from es.webhook_cursors)
            + (select count(*) from es.webhook_deliveries)";
        let left: i64 = db.query_one(left, &[]).await.unwrap().get(0);
        left == 0
    })
    .await;
    // Its name is free again.
    hook(&served, &receiver, &[]).await;
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_where_the_operator_does_not_allow_it() {
    let served = Served::delivering(Allowed::default(), quick()).await;
    let receiver = Receiver::new();
    let port = receiver.address.port();
    for host in
        ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433", "169.254.169.254"]
    {
        for scheme in ["http", "https"] {
            let body = json!({"name": "x", "url": format!("{scheme}://{host}:{port}/")});
            let refused = served.post("/api/webhooks", &body).await;
            assert_eq!(refused.problem(400), "address_refused", "{scheme}://{host}");
        }
    }
    let plain = json!({"name": "x", "url": "http://93.184.216.34/"});
    assert_eq!(served.post("/api/webhooks", &plain).await.problem(400), "address_refused");
    for url in ["x", "ftp://example.com", "https://me:hush@example.com", "https://example.com/#a"] {
        let body = json!({"name": "x", "url": url});
        assert_eq!(served.post("/api/webhooks", &body).await.problem(400), "invalid_field", "{url}");
    }
    let long = format!("https://example.com/{}", "x".repeat(3_000));
    assert_eq!(
        served.post("/api/webhooks", &json!({"name": "x", "url": long})).await.problem(400),
        "invalid_field"
    );
    let typo = json!({"name": "x", "url": "https://example.com", "types": ["task.qeued"]});
    assert_eq!(served.post("/api/webhooks", &typo).await.problem(400), "invalid_field");
    let own = json!({"name": "x", "url": "https://example.com", "types": ["webhook.tested"]});
    assert_eq!(served.post("/api/webhooks", &own).await.problem(400), "invalid_field");
    assert!(receiver.got().is_empty());
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_looked_at_again_each_time_that_something_is_sent_there() {
    // Allowed when it was made; the name leads where nothing may be sent now, as after a rebinding.
    let first = Served::with(quick()).await;
    let receiver = Receiver::new();
    let url = format!("http://localhost:{}/", receiver.address.port());
    first.post("/api/webhooks", &json!({"name": "chat", "url": url})).await.is(201);
    let second = first.beside(Allowed::default(), patient()).await;
    first.shutdown.cancel();
    first.serving.await.unwrap().unwrap();
    second.post("/api/projects", &json!({"title": "Game"})).await.is(201);
    eventually(SOON, || async {
        let answer = second.get("/api/webhooks/chat/deliveries").await.is(200);
        let problem = text(&answer["deliveries"][0], "problem");
        if problem == "address_refused" { Ok(()) } else { Err(answer.to_string()) }
    })
    .await;
    assert!(receiver.got().is_empty());
    second.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (key, certificate) = (folder.path().join("key.pem"), folder.path().join("certificate.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-keyout",
        ])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl is there");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Command::new("openssl")
        .args(["s_server", "-quiet", "-www", "-accept", &format!("127.0.0.1:{port}"), "-key"])
        .arg(&key)
        .arg("-cert")
        .arg(&certificate)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Ended(server);
    let served = Served::with(quick()).await;
    let body = json!({"name": "chat", "url": format!("https://127.0.0.1:{port}/")});
    served.post("/api/webhooks", &body).await.is(201);
    let last = eventually(SOON, || async {
        let test = served.post("/api/webhooks/chat/test", &json!({})).await.is(200);
        if test["problem"] == "unreachable" { Err(test.to_string()) } else { Ok(test) }
    })
    .await;
    assert_eq!((last["problem"].as_str(), last["delivered"].as_bool()), (Some("tls"), Some(false)));
    // What speaks no TLS at all is no better.
    let receiver = Receiver::new();
    let url = format!("https://{}/", receiver.address);
    served.send(&served.token, "PUT", "/api/webhooks/chat", Some(&json!({"url": url})), &[]).await.is(200);
    let test = served.post("/api/webhooks/chat/test", &json!({})).await.is(200);
    assert_eq!(test["delivered"], false, "{test}");
    assert!(receiver.got().is_empty());
    drop(server);
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_misses_a_delivery_that_is_not_there() {
    let scene = Scene::on(Served::with(quick()).await).await;
    let served = &scene.served;
    let receiver = Receiver::new();
    hook(served, &receiver, &["issue"]).await;
    scene.issue("One").await;
    settled(served).await;
    let right = served.post("/api/verify", &json!({})).await.is(200);
    assert_eq!(right["findings"], json!([]));
    assert!(right["deliveries"].as_i64().unwrap() >= 1, "{right}");
    let db = served.db.superuser().await;
    let gone: i64 =
        db.query_one("delete from es.webhook_deliveries returning position", &[]).await.unwrap().get(0);
    let wrong = served.post("/api/verify", &json!({})).await.is(200);
    let finding = &wrong["findings"][0];
    assert_eq!(
        (finding["code"].as_str(), finding["position"].as_i64()),
        (Some("delivery_missing"), Some(gone))
    );
    // What the finding says to do mends it.
    let position = gone.to_string();
    served.cli(&["webhook", "replay", "chat", "--from", &position, "--to", &position]).await;
    settled(served).await;
    db.execute("update es.webhook_deliveries set state = 'dead'", &[]).await.unwrap();
    let silent = served.post("/api/verify", &json!({})).await.is(200);
    assert_eq!(silent["findings"][0]["code"], "delivery_given_up_in_silence", "{silent}");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_for_admins_and_show_what_they_were_at_an_earlier_moment() {
    let served = Served::with(quick()).await;
    let receiver = Receiver::new();
    hook(&served, &receiver, &["task"]).await;
    let before = *served.app.store.head().borrow();
    served.cli(&["webhook", "update", "chat", "--name", "ci", "--all-types", "--disable"]).await;
    let was = served.get(&format!("/api/webhooks?as_of={before}")).await.is(200);
    let told = |one: &Value| (text(one, "name"), text(one, "status"), one["types"].clone());
    assert_eq!(told(&was[0]), ("chat".to_owned(), "on".to_owned(), json!(["task"])));
    assert_eq!(was[0]["progress"], Value::Null);
    let is = served.get("/api/webhooks").await.is(200);
    assert_eq!(told(&is[0]), ("ci".to_owned(), "off".to_owned(), json!([])));
    let listed = served.cli(&["webhook", "list", "--as-of", &before.to_string()]).await;
    assert!(listed.contains("chat") && !listed.contains(" ci "), "{listed}");
    served.get(&format!("/webhooks?as_of={before}")).await.is(200);
    let path = format!("/api/webhooks/ci/deliveries?as_of={before}");
    assert_eq!(served.get(&path).await.problem(400), "as_of_not_kept");
    let member = colleague(&served, "Bob", Role::Member).await;
    let body = json!({"name": "x", "url": receiver.url()});
    for (method, path, body) in [
        ("GET", "/api/webhooks", None),
        ("GET", "/api/webhooks/ci", None),
        ("POST", "/api/webhooks", Some(&body)),
        ("PUT", "/api/webhooks/ci", Some(&body)),
        ("DELETE", "/api/webhooks/ci", None),
        ("GET", "/api/webhooks/ci/deliveries", None),
        ("POST", "/api/webhooks/ci/rotate-secret", Some(&body)),
        ("POST", "/api/webhooks/ci/retry", Some(&body)),
        ("POST", "/api/webhooks/ci/test", Some(&body)),
    ] {
        let answer = served.send(&member, method, path, body, &[]).await;
        assert_eq!(answer.problem(403), "role_too_low", "{method} {path}");
    }
    // What its receiver's address holds is shown to admins only, also in the trail.
    let trail = served.send(&member, "GET", "/api/audit?type=webhook.created", None, &[]).await.is(200);
    assert!(!trail.to_string().contains("hush-key"), "{trail}");
    served.finish().await;
}
