//! Read models as an operator meets them: rebuilt, verified, stopped, skipped, degraded.

use std::time::Duration;

use multica::domain::workspace::Role;
use multica::fold;
use multica::kernel::limits::{Limits, Millis};
use multica::readmodel::{Registry, follower, rebuild, verify};
use proptest::strategy::{Strategy, ValueTree};
use serde_json::{Value, json};

use super::client::{Scene, Served, limits};
use super::every_route::colleague;
use crate::support::eventually;

const PATIENCE: Duration = Duration::from_secs(20);

fn quick() -> Limits {
    Limits { damaged_retry_first: Millis(50), damaged_retry_max: Millis(200), ..limits() }
}

async fn standing(served: &Served, name: &str) -> Value {
    let answer = served.get("/api/projections").await.is(200);
    let all = answer["projections"].as_array().unwrap();
    all.iter().find(|standing| standing["name"] == name && standing["state"] != "retired").unwrap().clone()
}

/// Damages the payload of the newest event of a type, so that it can be mended.
const DAMAGE: &str = "create table if not exists public.kept (seq bigint, data text); \
    insert into public.kept select seq, data::text from es.events where event_type = 'TYPE' order by seq desc limit 1; \
    update es.events set data = '[]' where seq in (select seq from public.kept)";
const MEND: &str = "update es.events e set data = k.data::json from public.kept k where k.seq = e.seq";

async fn damage(served: &Served, event_type: &str) -> i64 {
    let superuser = served.db.superuser().await;
    superuser.batch_execute(&DAMAGE.replace("TYPE", event_type)).await.unwrap();
    superuser.query_one("select max(seq) from public.kept", &[]).await.unwrap().get(0)
}

async fn stop(served: Served) -> crate::support::TestDb {
    served.shutdown.cancel();
    served.serving.await.unwrap().unwrap();
    served.db
}

async fn again(db: crate::support::TestDb, limits: Limits) -> Served {
    let (app, owner) = (db.app.clone(), db.owner.clone());
    Served::on(db, app, owner, limits).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_models_are_listed_rebuilt_and_verified_by_admins_only_and_a_rebuild_is_an_event() {
    let scene = Scene::new().await;
    scene.running("One").await;
    let served = &scene.served;
    let listed = served.get("/api/projections").await.is(200);
    assert_eq!(listed["projections"].as_array().unwrap().len(), fold::registry::all().len());
    let rebuilt = served.post("/api/projections/task_status/rebuild", &json!({})).await.is(200);
    assert_eq!((rebuilt["rows"].as_i64(), rebuilt["passed_over"].as_i64()), (Some(1), Some(0)));
    assert_eq!(standing(served, "task_status").await["table"], "rm.task_status__v1_r1");
    let sql = "select data::text from es.events where event_type = 'operation.read_model_rebuilt'";
    let event: String = served.db.superuser().await.query_one(sql, &[]).await.unwrap().get(0);
    let event: Value = serde_json::from_str(&event).unwrap();
    assert_eq!((&event["read_model"], &event["rows"]), (&json!("task_status"), &json!(1)));
    let verified = served.post("/api/projections/task_status/verify", &json!({})).await.is(200);
    assert_eq!(verified["findings"], json!([]));
    served.db.superuser().await.batch_execute("delete from rm.task_status__v1_r1").await.unwrap();
    let verified = served.post("/api/projections/task_status/verify", &json!({})).await.is(200);
    assert!(
        verified["findings"][0]["sentence"].as_str().unwrap().contains("is missing beside its rebuild"),
        "{verified}"
    );
    let said = served.cli(&["projections", "rebuild", "--all"]).await;
    assert!(said.contains("task_status is rebuilt up to position"), "{said}");
    let said = served.cli(&["projections", "verify", "--all"]).await;
    assert!(said.contains("task_status is what the log says."), "{said}");
    let said = served.cli(&["projections", "list"]).await;
    assert!(said.contains("audit_trail") && said.contains("active"), "{said}");
    let (code, said) = served.cli_refused(&["projections", "rebuild", "nothing"]).await;
    assert!(code == 4 && said.contains("nothing"), "{code} {said}");
    let (code, said) = served.cli_refused(&["projections", "rebuild"]).await;
    assert!(code == 5 && said.contains("--all"), "{code} {said}");
    let member = colleague(served, "Bea", Role::Member).await;
    for (method, path) in [
        ("GET", "/api/projections"),
        ("GET", "/api/metrics"),
        ("POST", "/api/projections/task_status/rebuild"),
        ("POST", "/api/projections/task_status/verify"),
        ("POST", "/api/projections/task_status/skip"),
    ] {
        let body = (method == "POST").then(|| json!({}));
        let answer = served.send(&member, method, path, body.as_ref(), &[]).await;
        assert_eq!(answer.problem(403), "role_too_low", "{method} {path}");
    }
    let refused = served.post("/api/projections/task_status/skip", &json!({})).await;
    assert_eq!(refused.problem(409), "not_stopped");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_starts_on_a_damaged_log_and_says_which_read_model_lacks_what() {
    let scene = Scene::on(Served::with(quick()).await).await;
    scene.served.post("/api/projects", &json!({"title": "Other"})).await.is(201);
    let position = damage(&scene.served, "project.created").await;
    let superuser = scene.served.db.superuser().await;
    let db = stop(scene.served).await;
    // As a build with a newer version of them would find it: an inline model and a follower have to be built.
    let sql = "delete from es.projections where name in ('project_resources', 'activity_feed')";
    superuser.batch_execute(sql).await.unwrap();
    let served = again(db, quick()).await;
    let inline = standing(&served, "project_resources").await;
    assert_eq!((&inline["state"], &inline["degraded"]), (&json!("active"), &json!(true)), "{inline:#}");
    assert_eq!(inline["stopped_at"], position);
    let follower = standing(&served, "activity_feed").await;
    assert_eq!((&follower["state"], &follower["stopped_at"]), (&json!("stopped"), &json!(position)));
    // Work goes on; what is lacking is named wherever somebody looks.
    served.post("/api/projects", &json!({"title": "Third"})).await.is(201);
    let sql = "select data->>'read_model' from es.events where event_type = 'operation.event_skipped'";
    let told: String = superuser.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(told, "project_resources");
    let findings = served.post("/api/verify", &json!({})).await.is(200)["findings"].to_string();
    assert!(findings.contains(&format!("project_resources has passed over an event at position {position}")));
    assert!(findings.contains(&format!("activity_feed stands still at an event at position {position}")));
    let page = served.get("/tasks").await.is(200).to_string();
    assert!(page.contains("read model activity_feed stands still at an event at position"), "{page}");
    let metrics = served.get("/api/metrics").await.is(200);
    let metrics = metrics.as_str().unwrap();
    for line in [
        format!("multica_read_model_stalled_at_position{{read_model=\"activity_feed\"}} {position}"),
        "multica_read_model_degraded{read_model=\"project_resources\"} 1".to_owned(),
        "multica_read_model_degraded{read_model=\"task_status\"} 0".to_owned(),
    ] {
        assert!(metrics.lines().any(|told| told == line), "{line} in {metrics}");
    }
    let output = served.cli_fails(&["doctor"]).await;
    assert!(output.contains("!!  Read model activity_feed stands still"), "{output}");
    assert!(output.contains("multica projections rebuild project_resources"), "{output}");
    // Mended: the follower goes on by itself, the inline one is rebuilt.
    superuser.batch_execute(MEND).await.unwrap();
    eventually(PATIENCE, || async { standing(&served, "activity_feed").await["fault"].is_null() }).await;
    let rebuilt = served.post("/api/projections/project_resources/rebuild", &json!({})).await.is(200);
    assert_eq!(rebuilt["passed_over"], 0);
    assert!(standing(&served, "project_resources").await["fault"].is_null());
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skip_is_an_event_and_the_read_model_is_degraded_until_it_is_rebuilt() {
    // Nobody tries again during this test.
    let scene = Scene::on(Served::with(limits()).await).await;
    let served = &scene.served;
    eventually(PATIENCE, || async {
        let feed = standing(served, "activity_feed").await;
        feed["position"] == feed["head"]
    })
    .await;
    // The damage is there before its follower comes: it has to begin again.
    let position = damage(served, "agent.created").await;
    let superuser = served.db.superuser().await;
    superuser
        .batch_execute(
            "update es.projections set checkpoint = 0 where name = 'audit_trail'; delete from rm.audit_trail__v2",
        )
        .await
        .unwrap();
    served.post("/api/projects", &json!({"title": "Other"})).await.is(201);
    eventually(PATIENCE, || async { standing(served, "audit_trail").await["state"] == "stopped" }).await;
    let skipped = served.cli(&["projections", "skip", "audit_trail"]).await;
    assert!(skipped.contains(&format!("position {position}")), "{skipped}");
    let sql = "select data->>'position' from es.events where event_type = 'operation.event_skipped'";
    let told: String = superuser.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(told, position.to_string());
    let shown = standing(served, "audit_trail").await;
    assert_eq!((&shown["state"], &shown["degraded"]), (&json!("active"), &json!(true)));
    let again = served.post("/api/projections/audit_trail/rebuild", &json!({})).await.is(200);
    assert_eq!((&again["passed_over"], &again["first_passed"]), (&json!(1), &json!(position)));
    assert_eq!(standing(served, "audit_trail").await["degraded"], true, "the log is as it was");
    superuser.batch_execute(MEND).await.unwrap();
    served.post("/api/projections/audit_trail/rebuild", &json!({})).await.is(200);
    assert_eq!(standing(served, "audit_trail").await["degraded"], false);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_read_model_comes_out_equal_from_pages_of_any_size_while_work_goes_on() {
    let scene = Scene::new().await;
    let (task, generation) = scene.running("First").await;
    let (parked, _) = scene.parked("Parked").await;
    scene.report(&task, generation, 9, "complete", json!({"output": "x"})).await.is(200);
    scene.served.post(&format!("/api/tasks/{parked}/cancel"), &json!({})).await.is(200);
    let registry = std::sync::Arc::new(Registry::new(fold::registry::all()).unwrap());
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let sizes = (1_i64..40, 1_i64..40, 0_i64..20);
    // More rounds with `MULTICA_TEST_LONG=1` (`bin/test --long`): each rebuilds every read model, a page at a time.
    let long = std::env::var("MULTICA_TEST_LONG").is_ok_and(|long| long == "1");
    for round in 0..if long { 6 } else { 2 } {
        let (rebuild_page, follower_page, rebuild_lag) = sizes.new_tree(&mut runner).unwrap().current();
        let store = scene
            .served
            .db
            .store_with(&Limits { rebuild_page, follower_page, rebuild_lag, ..limits() })
            .await;
        let names: Vec<String> = registry.all().map(|r| r.model().name().to_owned()).collect();
        let rebuilding = async {
            for name in &names {
                rebuild::run(&store, &registry, name).await.unwrap();
                rebuild::retire(&store, name).await.unwrap();
            }
        };
        let working = async {
            for n in 0..8 {
                scene.issue(&format!("Round {round}, {n}")).await;
            }
        };
        // A second driver of the followers, with pages of another size: a page delivered twice counts once.
        let following = async {
            for _ in 0..8 {
                follower::step_all(&store, &registry).await;
            }
        };
        tokio::join!(rebuilding, working, following);
        follower::step_all(&store, &registry).await;
        let differences = verify::all(&store, &registry).await.unwrap();
        assert_eq!(differences, [], "pages of {rebuild_page} and {follower_page}, lag {rebuild_lag}");
    }
    scene.finish().await;
}
