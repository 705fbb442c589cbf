//! Who may speak for a daemon, asked of every route that a daemon has.

use multica::domain::workspace::Role;
use multica::kernel::ids::MachineId;
use serde_json::json;

use super::client::{DAEMON, Served, registration};
use super::every_route::{Route, Things, colleague, routes};

/// Routes that speak for no daemon.
const OF_NONE: [&str; 2] = ["GET /api/daemon/workspaces", "GET /api/daemon/workspaces/{id}/runtime-profiles"];

fn daemon_routes() -> impl Iterator<Item = Route> {
    let own = |route: &Route| {
        route.pattern.starts_with("/api/daemon/") || route.pattern.starts_with("/api/daemons/{id}")
    };
    routes().into_iter().filter(move |route| own(route) && !OF_NONE.contains(&route.name().as_str()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_daemon_route_lets_another_member_or_another_daemon_speak() {
    let things = Things::new().await;
    let served = &things.scene.served;
    let bob = colleague(served, "Bob", Role::Member).await;
    let elsewhere = served.post("/api/tokens", &json!({"name": "box", "daemon_id": "machine-2"})).await;
    let elsewhere = elsewhere.is(201)["token"].as_str().unwrap().to_owned();
    let before = things.log().await;
    for route in daemon_routes() {
        let answer = things.ask(Some(&bob), &route, "").await;
        assert_eq!(answer.status, 403, "{}: {}", route.name(), answer.body);
        assert_eq!(answer.problem(403), "daemon_of_another_member", "{}", route.name());
        let answer = things.ask(Some(&elsewhere), &route, "").await;
        assert_eq!(answer.status, 403, "{}: {}", route.name(), answer.body);
        // The one route for people is closed to every daemon.
        let code =
            if route.pattern.starts_with("/api/daemon/") { "other_daemon" } else { "daemon_token_limited" };
        assert_eq!(answer.problem(403), code, "{}", route.name());
    }
    assert_eq!(things.log().await, before, "nothing happened");
    things.scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_member_its_token_and_an_admin_speak_for_a_daemon() {
    let things = Things::new().await;
    let served = &things.scene.served;
    let carol = colleague(served, "Carol", Role::Admin).await;
    let own = served.post("/api/tokens", &json!({"name": "box", "daemon_id": DAEMON})).await;
    let own = own.is(201)["token"].as_str().unwrap().to_owned();
    for token in [&served.token, &own, &carol] {
        for route in daemon_routes().filter(|route| route.pattern.starts_with("/api/daemon/")) {
            let answer = things.ask(Some(token), &route, "").await;
            assert!(![401, 403].contains(&answer.status), "{}: {}", route.name(), answer.body);
        }
    }
    // An admin who starts somebody's daemon doesn't become its owner.
    let bodies = served.get("/api/daemons").await.is(200);
    let me = served.get("/api/me").await.is(200);
    assert_eq!(bodies["daemons"][0]["owner_id"], me["id"], "{bodies:#}");
    things.scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_made_before_somebody_else_registered_the_daemon_is_worth_nothing() {
    let served = Served::new().await;
    let bob = colleague(&served, "Bob", Role::Member).await;
    let wanted = json!({"name": "box", "daemon_id": DAEMON});
    let early = served.send(&bob, "POST", "/api/tokens", Some(&wanted), &[]).await.is(201);
    let early = early["token"].as_str().unwrap().to_owned();
    let said = registration(&served, MachineId::from_machine_file("test"), uuid::Uuid::now_v7());
    served.post("/api/daemon/register", &said).await.is(200);
    let beat = json!({"daemon_id": DAEMON});
    for token in [&early, &bob] {
        let answer = served.send(token, "POST", "/api/daemon/heartbeat", Some(&beat), &[]).await;
        assert_eq!(answer.problem(403), "daemon_of_another_member");
    }
    let late = served.send(&bob, "POST", "/api/tokens", Some(&wanted), &[]).await;
    assert_eq!(late.problem(403), "daemon_of_another_member");
    served.finish().await;
}
