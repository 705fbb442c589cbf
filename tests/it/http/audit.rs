//! The audit trail, asked as people ask it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use multica::app::decision::Submission;
use multica::app::project_write::ProjectWrite;
use multica::domain::project::ProjectCommand;
use multica::domain::workspace::Role;
use multica::domain::{Actor, ActorKind, NewContent, Via};
use multica::kernel::ids::{CommandId, ContentId, CorrelationId, EventId, ProjectId, WorkspaceId};
use multica::kernel::limits::Limits;
use serde_json::{Value, json};
use uuid::Uuid;

use super::client::{DAEMON, Scene, Served, limits};
use super::every_route::colleague;
use crate::support::eventually;

/// The cursors of a page.
fn cursors(page: &Value) -> Vec<String> {
    entries(page).iter().map(|entry| entry["cursor"].as_str().unwrap().to_owned()).collect()
}

fn entries(page: &Value) -> &Vec<Value> {
    page["entries"].as_array().unwrap()
}

fn types(page: &Value) -> BTreeSet<&str> {
    entries(page).iter().map(|entry| entry["type"].as_str().unwrap()).collect()
}

async fn asked(scene: &Scene, query: &str) -> Value {
    scene.served.get(&format!("/api/audit?limit=1000&{query}")).await.is(200)
}

/// A scene in which a task runs, one waits, and a cancel of an ended one was refused.
async fn busy() -> (Scene, String, String) {
    let scene = Scene::new().await;
    let (first, generation) = scene.running("Paint the fence").await;
    let (second, _) = scene.parked("Mow the lawn").await;
    scene.report(&first, generation, 9, "complete", json!({"output": "done"})).await.is(200);
    let gone = Uuid::now_v7();
    scene.served.post(&format!("/api/tasks/{gone}/cancel"), &json!({})).await.problem(404);
    let resource = json!({"resource_type": "local_directory",
        "resource_ref": {"local_path": "/srv/game", "daemon_id": DAEMON}});
    let path = format!("/api/projects/{}/resources", scene.project);
    scene.served.post(&path, &resource).await.problem(409);
    (scene, first, second)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_filter_finds_its_entries_and_no_others() {
    let (scene, first, second) = busy().await;
    let all = asked(&scene, "").await;
    let places = cursors(&all);
    assert!(entries(&all).len() > 20 && all["next"].is_null(), "{all:#}");
    let positions: Vec<i64> = entries(&all).iter().map(|entry| entry["position"].as_i64().unwrap()).collect();
    assert!(positions.is_sorted_by(|a, b| a >= b), "newest first: {positions:?}");

    let by_ada = asked(&scene, "actor=Ada").await;
    assert!(!entries(&by_ada).is_empty());
    assert!(entries(&by_ada).iter().all(|entry| entry["actor"]["name"] == "Ada"), "{by_ada:#}");
    let id = entries(&by_ada)[0]["actor"]["id"].as_str().unwrap().to_owned();
    assert_eq!(cursors(&asked(&scene, &format!("actor={id}")).await), cursors(&by_ada));
    assert_eq!(cursors(&asked(&scene, &format!("actor=member/{id}")).await), cursors(&by_ada));
    let by_daemon = asked(&scene, &format!("actor=daemon/{DAEMON}")).await;
    assert!(types(&by_daemon).contains("task.claimed"), "{by_daemon:#}");
    assert_eq!(cursors(&asked(&scene, "actor=daemon").await), cursors(&by_daemon));

    let of_first = asked(&scene, &format!("target=task/{first}")).await;
    assert!(types(&of_first).contains("task.started") && types(&of_first).contains("directory.acquired"));
    assert_eq!(cursors(&asked(&scene, "target=LOCA-1%231").await), cursors(&of_first));
    assert!(
        !of_first.to_string().contains(&format!("\"id\":\"{second}\",\"kind\":\"task\"")),
        "{of_first:#}"
    );
    let of_issue = asked(&scene, "target=LOCA-1").await;
    assert!(types(&of_issue).contains("issue.created") && types(&of_issue).contains("task.queued"));
    let of_project = asked(&scene, &format!("target=project/{}", scene.project)).await;
    for known in ["project.created", "task.queued", "issue.created"] {
        assert!(types(&of_project).contains(known), "{known} in {of_project:#}");
    }
    let of_directory = asked(&scene, &format!("target=directory/{}", scene.directory())).await;
    assert!(
        types(&of_directory).contains("directory.queued") && types(&of_directory).contains("task.parked")
    );
    let of_agent = asked(&scene, &format!("target=agent/{}", scene.agent)).await;
    assert!(types(&of_agent).contains("agent.created") && types(&of_agent).contains("task.started"));
    let of_daemon = asked(&scene, &format!("target=daemon/{DAEMON}")).await;
    assert!(types(&of_daemon).contains("daemon.registered") && types(&of_daemon).contains("task.claimed"));

    assert_eq!(types(&asked(&scene, "type=task.queued").await), BTreeSet::from(["task.queued"]));
    let cancels = asked(&scene, "type=task.*").await;
    assert!(types(&cancels).iter().all(|known| known.starts_with("task.")), "{cancels:#}");
    assert_eq!(cursors(&asked(&scene, "type=task").await), cursors(&cancels));

    let intent = entries(&of_first)[0]["correlation"].as_str().unwrap();
    let followed = asked(&scene, &format!("correlation={intent}")).await;
    assert!(entries(&followed).len() > 1);
    assert!(entries(&followed).iter().all(|entry| entry["correlation"] == intent), "{followed:#}");

    let middle = entries(&all)[10]["recorded_at"].as_str().unwrap();
    let (older, newer) =
        (asked(&scene, &format!("until={middle}")).await, asked(&scene, &format!("since={middle}")).await);
    assert_eq!([cursors(&newer), cursors(&older)].concat(), places, "one moment divides the trail");
    assert_eq!(cursors(&asked(&scene, "since=1h").await), places);
    assert!(cursors(&asked(&scene, "until=1%20hour%20ago").await).is_empty());
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_rule_refused_and_what_came_too_late_is_in_the_trail_with_its_reason() {
    let (scene, first, _) = busy().await;
    let refused = asked(&scene, "outcome=refused").await;
    let attach = entries(&refused).iter().find(|entry| entry["stream"]["kind"] == "project").unwrap();
    assert_eq!(attach["outcome"], "refused");
    assert_eq!(attach["actor"]["name"], "Ada");
    assert!(attach["reason"]["code"].is_string() && attach["reason"]["next_step"].is_string(), "{attach:#}");
    let said = attach["text"].as_str().unwrap();
    let reason = attach["reason"]["sentence"].as_str().unwrap();
    assert!(said.starts_with("Ada asked for ") && said.contains("Game") && said.contains(reason), "{said}");
    assert!(cursors(&asked(&scene, "").await).contains(&attach["cursor"].as_str().unwrap().to_owned()));
    // By whom, about what, and as part of which intent.
    for query in [
        format!("actor=Ada&target=project/{}&outcome=refused", scene.project),
        format!("correlation={}", attach["correlation"].as_str().unwrap()),
        format!("q=refused%20{}", attach["reason"]["code"].as_str().unwrap()),
    ] {
        assert!(
            cursors(&asked(&scene, &query).await).contains(&attach["cursor"].as_str().unwrap().into()),
            "{query}"
        );
    }
    // A report after the end is recorded and changes nothing.
    scene.report(&first, 1, 20, "fail", json!({"error": "late", "failure_reason": "timeout"})).await;
    let ignored = asked(&scene, "outcome=ignored").await;
    assert_eq!(types(&ignored), BTreeSet::from(["task.late_report_recorded"]), "{ignored:#}");
    let done = asked(&scene, "outcome=done").await;
    assert!(entries(&done).iter().all(|entry| entry["outcome"] == "done") && !entries(&done).is_empty());
    let everything = entries(&asked(&scene, "").await).len();
    let refused = entries(&asked(&scene, "outcome=refused").await).len();
    assert_eq!(everything, entries(&done).len() + entries(&ignored).len() + refused);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_can_not_be_right_is_refused_by_its_name() {
    let scene = Scene::new().await;
    let long = "x".repeat(2_000);
    let nobody = Uuid::now_v7();
    for (query, field) in [
        ("type=task.danced".to_owned(), "type"),
        ("type=%27%20or%201=1".to_owned(), "type"),
        ("type=%25".to_owned(), "type"),
        ("since=soon".to_owned(), "since"),
        ("since=-999999-01-01".to_owned(), "since"),
        ("since=1234".to_owned(), "since"),
        ("until=2026-02-31".to_owned(), "until"),
        ("correlation=x".to_owned(), "correlation"),
        ("outcome=maybe".to_owned(), "outcome"),
        ("before=x".to_owned(), "before"),
        ("before=-1".to_owned(), "before"),
        ("after=1-2".to_owned(), "after"),
        ("before=99999999999999999999".to_owned(), "before"),
        (format!("q={long}"), "q"),
        ("target=ghost/1".to_owned(), "target"),
        ("target=project/x".to_owned(), "target"),
    ] {
        let answer = scene.served.get(&format!("/api/audit?{query}")).await;
        assert_eq!(answer.problem(400), "invalid_field", "{query}");
        assert_eq!(answer.body["field"], field, "{query}: {:#}", answer.body);
    }
    for query in [
        "actor=Nobody".to_owned(),
        format!("target=project/{nobody}"),
        format!("target=task/{nobody}"),
        "target=LOCA-999".to_owned(),
        "target=daemon/elsewhere".to_owned(),
        "target=%E2%80%AE".to_owned(),
    ] {
        assert_eq!(
            scene.served.get(&format!("/api/audit?{query}")).await.problem(404),
            "not_found",
            "{query}"
        );
    }
    for query in ["limit=-1", "limit=x", "q=%FF", "actor=%FF"] {
        let status = scene.served.get(&format!("/api/audit?{query}")).await.status;
        assert!([200, 400, 404].contains(&status), "{query}: {status}");
    }
    // The odd ones that mean something: nothing breaks, nothing is found.
    let max = i64::MAX;
    for query in [
        format!("before={max}"),
        format!("after={max}"),
        format!("before={max}-0-{}", Uuid::max().simple()),
        "since=9999-12-30&until=0001-01-01".to_owned(),
        "since=-009000-01-01T00:00:00Z&until=9000%20years%20ago".to_owned(),
        "q=%00%25_%5C%27%22".to_owned(),
        "actor=daemon/%27%3B--".to_owned(),
    ] {
        scene.served.get(&format!("/api/audit?{query}")).await.is(200);
    }
    for position in ["0", "-1", "x", "99999999999999999999", "1%20or%201"] {
        let answer = scene.served.get(&format!("/api/audit/{position}")).await;
        assert_eq!(answer.problem(400), "invalid_field", "{position}");
    }
    assert_eq!(scene.served.get("/api/audit/999999").await.problem(404), "not_found");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_are_looked_for_in_windows_and_it_is_said_how_far_back_was_looked() {
    let few = Limits { audit_window: 5, audit_windows: 2, ..limits() };
    let scene = Scene::on(Served::with(few).await).await;
    scene.issue("Unicorn stables").await;
    for n in 0..8 {
        scene.issue(&format!("Plain {n}")).await;
    }
    let mut before = String::new();
    let mut requests = 0;
    let found = loop {
        let page = scene.served.get(&format!("/api/audit?q=UNICORN%20ada{before}")).await.is(200);
        requests += 1;
        if let Some(entry) = entries(&page).first() {
            break entry.clone();
        }
        let reached = &page["searched_to"];
        assert_eq!(reached["cursor"], page["next"], "{page:#}");
        assert!(reached["position"].is_i64() && reached["recorded_at"].is_string(), "{page:#}");
        before = format!("&before={}", page["next"].as_str().unwrap());
    };
    assert!(requests > 1, "ten entries a request find nothing at once");
    assert!(found["text"].as_str().unwrap().contains("Unicorn stables"), "{found:#}");
    // What is erased is found no more.
    let ada = found["actor"]["id"].as_str().unwrap();
    scene.served.post("/api/erasures", &json!({"person": ada})).await.is(200);
    let mut before = String::new();
    loop {
        let page = scene.served.get(&format!("/api/audit?q=unicorn{before}")).await.is(200);
        assert!(entries(&page).is_empty(), "{page:#}");
        let Some(next) = page["next"].as_str() else { break };
        before = format!("&before={next}");
    }
    scene.finish().await;
}

/// A command of the bulk: makes a project, or is refused because there is none.
fn bulk(workspace: WorkspaceId, makes: bool) -> Submission {
    let id = Uuid::now_v7();
    let title = NewContent::new(ContentId(Uuid::now_v7()), [1; 32], "bulk".to_owned());
    let command = if makes {
        ProjectCommand::Create {
            title: title.reference.clone(),
            description: None,
            status: None,
            priority: None,
            resources: Vec::new(),
        }
    } else {
        ProjectCommand::Delete { by: Role::Owner }
    };
    let project = ProjectId(Uuid::now_v7());
    let write = ProjectWrite { workspace, project, command, contents: vec![title], result: Value::Null };
    Submission {
        command_id: CommandId(id),
        event_seed: EventId(Uuid::now_v7()),
        kind: "project.write",
        workspace,
        fingerprint: [0; 16],
        actor: Actor { kind: ActorKind::System, id: "bulk".to_owned(), via: Via::Api },
        correlation: CorrelationId(id),
        causation: None,
        occurred_at: jiff::Timestamp::now(),
        decision: Box::new(write),
    }
}

/// Writes so many commands, every tenth a refused one, many at once.
pub async fn written(served: &Served, count: usize) {
    let gate = Arc::new(tokio::sync::Semaphore::new(256));
    let mut all = tokio::task::JoinSet::new();
    for n in 0..count {
        let permit = gate.clone().acquire_owned().await.unwrap();
        let (writer, submission) = (served.app.writer.clone(), bulk(served.workspace, n % 10 != 0));
        all.spawn(async move {
            let ended = writer.submit(submission).await;
            drop(permit);
            assert_eq!(ended.is_ok(), n % 10 != 0, "{ended:?}");
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

/// Walks all pages from a place; gives every cursor, newest first.
async fn walked(served: &Served, query: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut before = String::new();
    loop {
        let page = served.get(&format!("/api/audit?limit=177{query}{before}")).await.is(200);
        all.extend(cursors(&page));
        let Some(next) = page["next"].as_str() else { return all };
        before = format!("&before={next}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_entries_are_paged_without_gap_or_repeat_while_appends_go_on() {
    let served = Served::new().await;
    let long = std::env::var("MULTICA_TEST_LONG").is_ok_and(|long| long == "1");
    let count = if long { 10_000 } else { 2_000 };
    written(&served, count).await;
    let trail = served.app.registry.get("audit_trail").unwrap();
    let head = multica::store::read::head(&served.app.store).await.unwrap();
    eventually(Duration::from_secs(60), || async {
        multica::readmodel::query::shown(&served.app.store, trail).await.unwrap() >= head
    })
    .await;
    let still = walked(&served, "").await;
    let unique: BTreeSet<&String> = still.iter().collect();
    assert_eq!(unique.len(), still.len(), "something is told twice");
    assert_eq!(still.iter().filter(|cursor| cursor.contains('-')).count(), count / 10, "refused ones");
    let mut own = 0;
    for cursor in still.iter().filter(|cursor| !cursor.contains('-')) {
        assert!(cursor.parse::<i64>().unwrap() <= head);
        own += 1;
    }
    let counted = served.db.superuser().await;
    let counted = counted
        .query_one("select count(*) from es.events where workspace_id = $1", &[&served.workspace.0])
        .await
        .unwrap();
    assert_eq!(own, counted.get::<_, i64>(0), "every event of the workspace is told");

    // The same while others write: what was there is told once, in the same order.
    let (walk, ()) = tokio::join!(walked(&served, ""), written(&served, count / 5));
    let known: BTreeSet<&String> = still.iter().collect();
    let again: Vec<&String> = walk.iter().filter(|cursor| known.contains(cursor)).collect();
    assert_eq!(again.len(), still.len());
    assert!(again.into_iter().eq(still.iter()));
    let unique: BTreeSet<&String> = walk.iter().collect();
    assert_eq!(unique.len(), walk.len(), "something is told twice");
    // Back up from the bottom, page by page.
    let oldest = still.last().unwrap();
    let page = served.get(&format!("/api/audit?limit=100&after={oldest}")).await.is(200);
    assert_eq!(cursors(&page), still[still.len() - 101..still.len() - 1]);
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_shown_whole_and_its_private_paths_to_admins_only() {
    let (scene, _, _) = busy().await;
    let served = &scene.served;
    let prepared = asked(&scene, "type=task.prepared").await;
    let path = format!("/api/audit/{}", entries(&prepared)[0]["position"]);
    let whole = served.get(&path).await.is(200);
    assert_eq!(whole["data"]["env_root"], "/e", "{whole:#}");
    assert_eq!(whole["schema"], "urn:multica:event:task.prepared:v1");
    for key in ["event_id", "version", "meta", "command", "correlation", "recorded_at", "text"] {
        assert!(!whole[key].is_null(), "{key} in {whole:#}");
    }
    let grace = colleague(served, "Grace", Role::Member).await;
    let less = served.send(&grace, "GET", &path, None, &[]).await.is(200);
    assert_eq!(less["data"]["env_root"], "[redacted]", "{less:#}");
    assert_eq!(less["data"]["work_dir"], "[redacted]", "{less:#}");
    // Not found by words that may not be seen either.
    let found = served.send(&grace, "GET", "/api/audit?q=env_root%20/e%22", None, &[]).await.is(200);
    assert!(entries(&found).is_empty(), "{found:#}");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_and_daemons_do_not_read_the_trail() {
    let scene = Scene::new().await;
    scene.issue("One").await;
    let claimed = scene.claim(1).await;
    let agent = claimed[0]["auth_token"].as_str().unwrap().to_owned();
    let issued = json!({"name": "box", "daemon_id": DAEMON});
    let daemon = scene.served.post("/api/tokens", &issued).await.is(201);
    let daemon = daemon["token"].as_str().unwrap().to_owned();
    for (method, path) in
        [("GET", "/api/audit"), ("GET", "/api/audit/2"), ("POST", "/api/audit/export"), ("GET", "/audit")]
    {
        for token in [&agent, &daemon] {
            assert_eq!(
                scene.served.send(token, method, path, None, &[]).await.status,
                403,
                "{method} {path}"
            );
        }
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verbs_tell_the_trail_an_event_and_what_is_wrong() {
    let (scene, _, _) = busy().await;
    let served = &scene.served;
    let told = served.cli(&["audit", "--target", "LOCA-1#1", "--type", "task.*"]).await;
    assert!(told.contains("POSITION") && told.contains("task.started") && !told.contains("issue."), "{told}");
    let refused = served.cli(&["audit", "--outcome", "refused", "--target", "project/game"]).await;
    assert!(refused.contains("Ada asked for") && refused.contains("refused"), "{refused}");
    let json: Value =
        serde_json::from_str(&served.cli(&["audit", "--limit", "3", "--output", "json"]).await).unwrap();
    assert_eq!(entries(&json).len(), 3);
    let position = entries(&asked(&scene, "type=task.started").await)[0]["position"].to_string();
    let shown = served.cli(&["audit", "show", &position]).await;
    for part in
        ["TYPE", "task.started", "urn:multica:event:task.started:v1", "CORRELATION", "\"generation\": 1"]
    {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert_eq!(served.cli_refused(&["audit", "show", "999999"]).await.0, 4);
    let (code, said) = served.cli_refused(&["audit", "--since", "soon"]).await;
    assert!(code == 5 && said.contains("since"), "{code} {said}");
    let (code, said) = served.cli_refused(&["audit", "--actor", "Nobody"]).await;
    assert!(code == 4 && said.contains("Nobody"), "{code} {said}");
    scene.finish().await;
}
