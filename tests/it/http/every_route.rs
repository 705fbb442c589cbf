//! Every route of the table, asked with every wrong token: nothing is done, nothing leaks.

use multica::app::decision::Submission;
use multica::app::workspace_write::WorkspaceWrite;
use multica::domain::workspace::{MemberAdded, Role, TokenHolder, WorkspaceCommand};
use multica::domain::{Actor, ActorKind, NewContent, Via};
use multica::http::token;
use multica::kernel::ids::{CommandId, ContentId, CorrelationId, EventId, TokenId, UserId, WorkspaceId};
use serde_json::{Value, json};
use uuid::Uuid;

use super::client::{Answer, DAEMON, Scene, Served, raw};

const ROUTER: &str = include_str!("../../../src/http/router.rs");
const PAGES: &str = include_str!("../../../src/http/pages/mod.rs");

/// Routes that ask for no token.
const OPEN: [&str; 5] =
    ["GET /health", "GET /sign-in", "POST /sign-in", "GET /assets/{name}", "GET /favicon.ico"];

/// Words that only the first workspace knows.
const SECRETS: [&str; 4] = ["hush-title", "hush-text", "/srv/game", "Ada"];

#[derive(Debug, Clone)]
pub struct Route {
    pub method: String,
    pub pattern: String,
}

impl Route {
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.pattern)
    }

    fn has_part(&self) -> bool {
        self.pattern.contains('{')
    }

    fn is_page(&self) -> bool {
        !self.pattern.starts_with("/api/") && !OPEN.contains(&self.name().as_str())
    }
}

/// The table as it stands in the source: a new route is walked without being named here.
pub fn routes() -> Vec<Route> {
    let (people, machines) = ROUTER.split_once("fn machines()").expect("the daemon's part");
    let mut found = Vec::new();
    for (source, prefix) in [(people, ""), (machines, "/api/daemon"), (PAGES, "")] {
        for part in source.split(".route(").skip(1) {
            let pattern = part.split('"').nth(1).expect("a pattern");
            let end = part.find("\n        .").or_else(|| part.find("\n}")).unwrap_or(part.len());
            for method in ["get", "post", "put", "delete"] {
                if part[..end].contains(&format!("{method}(")) {
                    let pattern = format!("{prefix}{pattern}");
                    found.push(Route { method: method.to_uppercase(), pattern });
                }
            }
        }
    }
    found
}

/// What the first workspace has, for the variable parts of paths.
pub struct Things {
    pub scene: Scene,
    task: String,
    directory: String,
    issue: String,
    token_id: String,
    webhook: String,
}

impl Things {
    pub async fn new() -> Self {
        let scene = Scene::new().await;
        let (task, _) = scene.running("hush-title").await;
        scene.parked("hush-title too").await;
        let served = &scene.served;
        let shown = served.get(&format!("/api/tasks/{task}")).await.is(200);
        let issue = shown["issue_id"].as_str().unwrap().to_owned();
        // Nobody listens there.
        let webhook = json!({"name": "chat", "url": "http://127.0.0.1:9/hush-title"});
        let webhook = served.post("/api/webhooks", &webhook).await.is(201)["id"].as_str().unwrap().to_owned();
        let comment = json!({"content": "hush-text"});
        served.post(&format!("/api/issues/{issue}/comments"), &comment).await.is(201);
        let token_id = served.get("/api/tokens").await.is(200)[0]["id"].as_str().unwrap().to_owned();
        let directory = scene.directory().to_string();
        Self { scene, task, directory, issue, token_id, webhook }
    }

    fn path(&self, pattern: &str) -> String {
        let scene = &self.scene;
        let workspace = scene.served.workspace.to_string();
        let own = [
            ("/api/workspaces/", &workspace),
            ("/api/daemon/workspaces/", &workspace),
            ("/api/tokens/", &self.token_id),
            ("/api/webhooks/", &self.webhook),
            ("/api/projects/", &scene.project),
            ("/api/agents/", &scene.agent),
            ("/api/issues/", &self.issue),
            ("/api/tasks/", &self.task),
            ("/tasks/", &self.task),
            ("/api/daemon/tasks/", &self.task),
            ("/api/directories/", &self.directory),
            ("/api/daemon/runtimes/", &scene.runtime),
        ];
        let daemon = DAEMON.to_owned();
        let other = Uuid::from_u128(7).to_string();
        let id = own.iter().find(|(head, _)| pattern.starts_with(head)).map_or_else(
            || if pattern.starts_with("/api/daemons/") { &daemon } else { &other },
            |(_, id)| *id,
        );
        pattern
            .replace("{id}", id)
            .replace("{rid}", &scene.resource)
            .replace("{tid}", &self.task)
            .replace("{report}", "complete")
            .replace("{name}", "app.css")
            .replace("{position}", "2")
    }

    /// One body that fits every route and names the first workspace's things.
    fn body(&self) -> Value {
        let scene = &self.scene;
        json!({"title": "x", "name": "intruder", "content": "x", "runtime_id": scene.runtime,
            "runtime_ids": [scene.runtime], "daemon_id": DAEMON, "workspace_id": scene.served.workspace,
            "incarnation": scene.incarnation, "machine_id": scene.machine, "device_name": "x",
            "cli_version": "1", "os": "linux", "capabilities": [], "runtimes": [], "max_tasks": 1,
            "wait_ms": 0, "ended": false, "project_id": scene.project, "assignee_type": "agent",
            "assignee_id": scene.agent, "resource_type": "local_directory",
            "resource_ref": {"local_path": "/srv/x", "daemon_id": DAEMON}, "generation": 1, "ordinal": 99,
            "occurred_at": "2026-01-01T00:00:00Z", "report": "complete", "output": "x", "error": "x",
            "failure_reason": "cancelled", "messages": [], "result": {"outcome": "usable",
            "real_path": "/x", "git": false, "can_isolate": false}, "lease_id": "x", "reason": "x"})
    }

    pub async fn ask(&self, token: Option<&str>, route: &Route, query: &str) -> Answer {
        let asked = format!("daemon_id={DAEMON}&generation=1&wait_ms=0");
        let path = format!("{}?{asked}{query}", self.path(&route.pattern));
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
        let body = if route.method == "GET" { Vec::new() } else { self.body().to_string().into_bytes() };
        raw(self.scene.served.address, &route.method, &path, &headers, &body).await
    }

    /// Everything that happened in the first workspace.
    pub async fn log(&self) -> usize {
        let entries = self.scene.served.get("/api/feed?limit=1000").await.is(200);
        entries["entries"].as_array().unwrap().len()
    }
}

fn content(text: &str) -> NewContent {
    NewContent::new(ContentId(Uuid::now_v7()), [3; 32], text.to_owned())
}

/// Another workspace with a member of its own; gives their token.
async fn stranger(served: &Served) -> (WorkspaceId, String) {
    let (workspace, user) = (WorkspaceId(Uuid::now_v7()), UserId(Uuid::now_v7()));
    let (name, person) = (content("Elsewhere"), content("Eve"));
    let owner = MemberAdded { user, name: person.reference.clone(), email: None, role: Role::Owner };
    let create = WorkspaceCommand::Create {
        slug: "elsewhere".to_owned(),
        name: name.reference.clone(),
        issue_prefix: None,
        owner,
    };
    (workspace, let_in(served, workspace, user, create, vec![name, person]).await)
}

/// Another member of the first workspace; gives their token.
pub async fn colleague(served: &Served, name: &str, role: Role) -> String {
    let (user, person) = (UserId(Uuid::now_v7()), content(name));
    let member = MemberAdded { user, name: person.reference.clone(), email: None, role };
    let add = WorkspaceCommand::AddMember { by: None, member };
    let_in(served, served.workspace, user, add, vec![person]).await
}

async fn let_in(
    served: &Served,
    workspace: WorkspaceId,
    user: UserId,
    first: WorkspaceCommand,
    contents: Vec<NewContent>,
) -> String {
    let app = &served.app;
    let (text, sha256) = token::fresh(token::MEMBER, app.world.random());
    let issue = WorkspaceCommand::IssueToken {
        by: None,
        token: TokenId(Uuid::now_v7()),
        holder: TokenHolder::Member { user },
        name: "theirs".to_owned(),
        sha256,
        expires_at: None,
    };
    let decision = WorkspaceWrite { workspace, commands: vec![first, issue], contents, result: Value::Null };
    let id = Uuid::now_v7();
    let submission = Submission {
        command_id: CommandId(id),
        event_seed: EventId(Uuid::now_v7()),
        kind: "workspace.create",
        workspace,
        fingerprint: [0; 16],
        actor: Actor { kind: ActorKind::System, id: "test".to_owned(), via: Via::Up },
        correlation: CorrelationId(id),
        causation: None,
        occurred_at: app.world.now(),
        decision: Box::new(decision),
    };
    app.writer.submit(submission).await.unwrap();
    text
}

fn assert_silent(answer: &Answer, route: &Route, who: &str) {
    let said = answer.body.to_string();
    for secret in SECRETS {
        assert!(!said.contains(secret), "{} tells {who} `{secret}`: {said}", route.name());
    }
    assert!(answer.status < 500, "{} for {who}: {said}", route.name());
    if answer.status >= 400 && !route.is_page() {
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{} {said}",
            route.name()
        );
        assert!(answer.body["code"].is_string() && answer.body["next_step"].is_string(), "{said}");
    }
}

#[test]
fn the_table_of_routes_is_read_whole() {
    let routes: Vec<String> = routes().iter().map(Route::name).collect();
    let written = format!("{ROUTER}{PAGES}").matches(".route(").count();
    assert!(routes.len() >= written, "{written} lines, {routes:#?}");
    for known in [
        "GET /api/me",
        "DELETE /api/projects/{id}/resources/{rid}",
        "POST /api/daemon/tasks/{id}/{report}",
        "GET /api/daemon/tasks/{id}/messages",
        "POST /tasks/{id}/cancel",
    ] {
        assert!(routes.iter().any(|route| route == known), "{known} in {routes:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_route_does_or_tells_anything_without_a_valid_token() {
    let things = Things::new().await;
    let served = &things.scene.served;
    let revoked = served.post("/api/tokens", &json!({"name": "gone"})).await.is(201);
    served
        .send(&served.token, "DELETE", &format!("/api/tokens/{}", revoked["id"].as_str().unwrap()), None, &[])
        .await
        .is(204);
    let over = things.scene.issue("hush-title over").await;
    let claimed = things.scene.claim(1).await;
    let of_task = claimed[0]["auth_token"].as_str().unwrap().to_owned();
    served.post(&format!("/api/tasks/{over}/cancel"), &json!({})).await.is(200);
    let before = things.log().await;
    let revoked = revoked["token"].as_str().unwrap().to_owned();
    let wrong =
        [None, Some(""), Some("mul_x"), Some("mdt_x"), Some("mat_x"), Some(&*revoked), Some(&*of_task)];
    for route in routes() {
        if OPEN.contains(&route.name().as_str()) {
            continue;
        }
        for token in wrong {
            let answer = things.ask(token, &route, "").await;
            assert_silent(&answer, &route, "nobody");
            // A page's form needs to come from our page before anybody is looked up.
            assert_eq!(answer.status, 401, "{} with {token:?}: {}", route.name(), answer.body);
        }
    }
    assert_eq!(things.log().await, before);
    things.scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_route_does_or_tells_anything_of_another_workspace() {
    let things = Things::new().await;
    let served = &things.scene.served;
    let (elsewhere, eve) = stranger(served).await;
    let issued = json!({"name": "box", "daemon_id": DAEMON});
    let daemon = served.send(&eve, "POST", "/api/tokens", Some(&issued), &[]).await.is(201);
    let daemon = daemon["token"].as_str().unwrap().to_owned();
    assert!(daemon.starts_with("mdt_"));
    let before = things.log().await;
    let here = format!("&workspace_id={}", served.workspace);
    for route in routes() {
        if OPEN.contains(&route.name().as_str()) {
            continue;
        }
        for (who, token) in [("a stranger", &eve), ("a strange daemon", &daemon)] {
            let answer = things.ask(Some(token), &route, &here).await;
            assert_silent(&answer, &route, who);
            assert!([403, 404].contains(&answer.status), "{} for {who}: {answer:?}", route.name());
            let answer = things.ask(Some(token), &route, "").await;
            assert_silent(&answer, &route, who);
            let names_theirs = route.has_part() || route.pattern.starts_with("/api/daemon/");
            let own_list = ["GET /api/daemon/workspaces"].contains(&route.name().as_str());
            if names_theirs && !own_list {
                assert!([401, 403, 404].contains(&answer.status), "{} for {who}: {answer:?}", route.name());
            }
        }
    }
    assert_eq!(things.log().await, before, "nothing happened in the first workspace");
    let me = served.send(&eve, "GET", "/api/me", None, &[]).await.is(200);
    assert_eq!(me["workspace_id"], elsewhere.to_string());
    things.scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_route_refuses_the_methods_that_it_does_not_have() {
    let things = Things::new().await;
    let routes = routes();
    let patterns: std::collections::BTreeSet<&str> =
        routes.iter().map(|route| route.pattern.as_str()).collect();
    for pattern in patterns {
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            if routes.iter().any(|route| route.pattern == pattern && route.method == method) {
                continue;
            }
            let route = Route { method: method.to_owned(), pattern: pattern.to_owned() };
            let answer = things.ask(Some(&things.scene.served.token), &route, "").await;
            assert_eq!(answer.problem(405), "method_not_allowed", "{}", route.name());
        }
    }
    things.scene.finish().await;
}
