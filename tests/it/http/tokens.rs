//! Who may do what.

use serde_json::json;

use super::client::{DAEMON, Scene, Served, raw};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_a_wrong_one_and_a_revoked_one_are_strangers() {
    let served = Served::new().await;
    assert_eq!(raw(served.address, "GET", "/api/me", &[], b"").await.problem(401), "unauthenticated");
    for wrong in ["mul_wrong", "mdt_wrong", "mat_wrong", "xyz", ""] {
        assert_eq!(served.send(wrong, "GET", "/api/me", None, &[]).await.problem(401), "unauthenticated");
    }
    let issued = served.post("/api/tokens", &json!({"name": "ci"})).await.is(201);
    let token = issued["token"].as_str().unwrap();
    assert_eq!(served.send(token, "GET", "/api/me", None, &[]).await.is(200)["name"], "Ada");
    let path = format!("/api/tokens/{}", issued["id"].as_str().unwrap());
    served.send(&served.token, "DELETE", &path, None, &[]).await.is(204);
    assert_eq!(served.send(token, "GET", "/api/me", None, &[]).await.problem(401), "unauthenticated");
    let other = served.get(&format!("/api/me?workspace_id={}", uuid::Uuid::now_v7())).await;
    assert_eq!(other.problem(404), "not_found");
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_shown_once() {
    let served = Served::new().await;
    let body = json!({"name": "ci"});
    served.keyed("k", "/api/tokens", &body).await.is(201);
    assert_eq!(served.keyed("k", "/api/tokens", &body).await.problem(409), "token_already_shown");
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tasks_token_works_while_its_claim_lives_and_only_for_the_agents_work() {
    let scene = Scene::new().await;
    let task = scene.issue("One").await;
    let claimed = scene.claim(1).await;
    let token = claimed[0]["auth_token"].as_str().unwrap().to_owned();
    let served = &scene.served;
    assert_eq!(served.send(&token, "GET", "/api/issues/LOCA-1", None, &[]).await.is(200)["title"], "One");
    let said = json!({"content": "Working on it."});
    let comment = served.send(&token, "POST", "/api/issues/LOCA-1/comments", Some(&said), &[]).await.is(201);
    assert_eq!(comment["author_type"], "agent");
    assert_eq!(comment["source_task_id"], task.as_str());
    let agent = format!("/api/agents/{}", scene.agent);
    for (method, path) in [
        ("PUT", agent.as_str()),
        ("POST", "/api/projects"),
        ("POST", "/api/tokens"),
        ("GET", "/api/tokens"),
        ("POST", "/api/daemon/heartbeat"),
        ("POST", "/api/sign-in-links"),
        ("POST", "/api/agents"),
    ] {
        let answer = served.send(&token, method, path, Some(&json!({"title": "x", "name": "x"})), &[]).await;
        assert_eq!(answer.problem(403), "task_token_limited", "{method} {path}");
    }
    served.post(&format!("/api/tasks/{task}/cancel"), &json!({})).await.is(200);
    let after = served.send(&token, "GET", "/api/issues/LOCA-1", None, &[]).await;
    assert_eq!(after.problem(401), "unauthenticated");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemons_token_speaks_for_its_daemon_only() {
    let scene = Scene::new().await;
    let served = &scene.served;
    let body = json!({"name": "box", "daemon_id": "other"});
    let token = served.post("/api/tokens", &body).await.is(201)["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("mdt_"));
    let beat = json!({"daemon_id": DAEMON});
    let answer = served.send(&token, "POST", "/api/daemon/heartbeat", Some(&beat), &[]).await;
    assert_eq!(answer.problem(403), "other_daemon");
    assert_eq!(
        served.send(&token, "GET", "/api/issues", None, &[]).await.problem(403),
        "daemon_token_limited"
    );
    let task = scene.issue("One").await;
    let status = served.send(&token, "GET", &format!("/api/daemon/tasks/{task}/status"), None, &[]).await;
    assert_eq!(status.problem(403), "other_daemon");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_in_link_opens_one_session_whose_mutations_come_from_our_pages() {
    let served = Served::new().await;
    let url = served.post("/api/sign-in-links", &json!({})).await.is(200)["url"].as_str().unwrap().to_owned();
    let code = url.split_once("code=").unwrap().1.to_owned();
    let page = raw(served.address, "GET", &format!("/sign-in?code={code}"), &[], b"").await;
    assert_eq!(page.status, 200);
    let form = format!("code={code}");
    let opened = raw(served.address, "POST", "/sign-in", &[], form.as_bytes()).await;
    assert_eq!(opened.status, 303);
    let cookie = opened.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let again = raw(served.address, "POST", "/sign-in", &[], form.as_bytes()).await;
    assert_eq!(again.body["next_step"], "Make a new one: `multica login --link`.");
    assert_eq!(again.problem(401), "sign_in_link_spent");
    let me = raw(served.address, "GET", "/api/me", &[("Cookie", &cookie)], b"").await;
    assert_eq!(me.is(200)["name"], "Ada");
    let body = br#"{"title":"x"}"#;
    let foreign = raw(served.address, "POST", "/api/projects", &[("Cookie", &cookie)], body).await;
    assert_eq!(foreign.problem(403), "foreign_page");
    let origin = format!("http://{}", served.address);
    let ours = [("Cookie", cookie.as_str()), ("Origin", &origin), ("Sec-Fetch-Site", "same-origin")];
    raw(served.address, "POST", "/api/projects", &ours, body).await.is(201);
    served.finish().await;
}
