//! Read models rebuilt beside the live ones: interrupted anywhere, raced, while appends go on.

use std::sync::Arc;
use std::time::Duration;

use multica::kernel::limits::Limits;
use multica::readmodel::rebuild::{self, Rebuild};
use multica::readmodel::{ReadModelError, follower, install, query};
use multica::store::read;
use uuid::Uuid;

use crate::support::past::assert_kept;
use crate::support::toy::{self, Create, Delete, SetStatus, command, create};
use crate::support::{Rig, eventually, limits, writer};

const PATIENCE: Duration = Duration::from_secs(20);

/// Pages so small that a rebuild has many steps.
fn small() -> Limits {
    Limits { rebuild_page: 5, rebuild_lag: 3, ..limits() }
}

async fn filled(limits: &Limits, events: usize) -> Rig {
    let rig = Rig::with(toy::registry_with_history(), limits).await;
    let (project, gone) = (Uuid::now_v7(), Uuid::now_v7());
    for project in [project, gone] {
        rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
    }
    for n in 0..events / 2 {
        rig.writer.submit(command(SetStatus { project, status: n.to_string() })).await.unwrap();
        rig.writer.submit(create()).await.unwrap();
        if n == events / 4 {
            rig.writer.submit(command(Delete { project: gone })).await.unwrap();
        }
    }
    follower::step_all(&rig.store, &rig.registry).await;
    rig
}

/// Begins a rebuild once the connection of the one before is gone.
async fn begin(rig: &Rig, name: &str) -> Rebuild {
    eventually(PATIENCE, || async {
        Rebuild::begin(&rig.store, &rig.registry, name).await.map_err(|error| error.to_string())
    })
    .await
}

async fn table(rig: &Rig, name: &str) -> String {
    let all = query::standings(&rig.store).await.unwrap();
    all.into_iter().find(|standing| standing.name == name).unwrap().table
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_dies_after_any_step_is_gone_on_with_and_gives_the_same_rows() {
    let rig = filled(&small(), 24).await;
    for (name, first) in [
        ("toy_projects", "rm.toy_projects__v1"),
        ("toy_feed", "rm.toy_feed__v1"),
        ("toy_projects_history", "rm.toy_projects_history__v1"),
    ] {
        let mut steps = 0;
        let mut rounds = 0;
        loop {
            let before = table(&rig, name).await;
            let mut dying = begin(&rig, name).await;
            let mut over = false;
            for _ in 0..steps {
                over = dying.step().await.unwrap().is_some();
            }
            drop(dying);
            // What was appended while nobody rebuilt is caught up with.
            rig.writer.submit(create()).await.unwrap();
            follower::step_all(&rig.store, &rig.registry).await;
            let mut next = begin(&rig, name).await;
            assert!(next.resumed(), "after {steps} steps");
            let rebuilt = loop {
                if let Some(rebuilt) = next.step().await.unwrap() {
                    break rebuilt;
                }
            };
            assert_eq!(rebuilt.passed_over, 0);
            drop(next);
            rebuild::retire(&rig.store, name).await.unwrap();
            rounds += 1;
            assert_eq!(table(&rig, name).await, format!("{first}_r{rounds}"), "it was {before}");
            let gone = rig.db.app_client().await.batch_execute(&format!("select from {before}")).await;
            assert!(gone.is_err(), "{before} is dropped");
            rig.finish().await;
            assert_kept(&rig.store, &rig.registry, toy::WORKSPACE).await;
            if over {
                break;
            }
            steps += 1;
        }
        assert!(steps > 5, "only {steps} steps");
    }
    // Another server finds what answers, and nothing to build.
    let other = rig.db.store().await;
    assert_eq!(install::run(&other, &rig.registry).await.unwrap(), Vec::<String>::new());
    writer(&other, &rig.registry).submit(create()).await.unwrap();
    follower::step_all(&rig.store, &rig.registry).await;
    rig.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rebuilds_while_two_servers_append_lose_and_double_nothing() {
    let rig = filled(&small(), 100).await;
    let running = tokio::spawn(follower::run(rig.store.clone(), Arc::clone(&rig.registry), Uuid::now_v7()));
    let other = writer(&rig.db.store().await, &rig.registry);
    let busy = [rig.writer.clone(), other].map(|writer| {
        tokio::spawn(async move {
            for _ in 0..60 {
                writer.submit(create()).await.unwrap();
            }
        })
    });
    for _ in 0..3 {
        for name in ["toy_projects", "toy_feed", "toy_projects_history"] {
            rebuild::run(&rig.store, &rig.registry, name).await.unwrap();
            rebuild::retire(&rig.store, name).await.unwrap();
        }
    }
    for writing in busy {
        writing.await.unwrap();
    }
    let head = read::head(&rig.store).await.unwrap();
    for name in ["toy_feed", "toy_projects_history"] {
        query::at_least(&rig.store, rig.registry.get(name).unwrap(), head).await.unwrap();
    }
    running.abort();
    rig.finish().await;
    assert_kept(&rig.store, &rig.registry, toy::WORKSPACE).await;
    let projects = rig.registry.get("toy_projects").unwrap();
    let key = format!("count/{}", toy::WORKSPACE);
    let row = query::by_key(&rig.store, projects, &key).await.unwrap().unwrap();
    assert_eq!(row.row.object["projects"], 171, "of 172 one is deleted");
}

#[tokio::test]
async fn of_two_rebuilds_of_the_same_read_model_the_second_is_refused_by_name() {
    let rig = filled(&small(), 10).await;
    let mut first = begin(&rig, "toy_projects").await;
    first.step().await.unwrap();
    let head = read::head(&rig.store).await.unwrap();
    let all = query::standings(&rig.store).await.unwrap();
    let shown =
        all.iter().find(|one| one.name == "toy_projects").and_then(|one| one.rebuild.clone()).unwrap();
    assert_eq!(
        (shown.state.as_str(), shown.checkpoint, shown.target),
        ("building", 5, head),
        "how far it is"
    );
    let refused = Rebuild::begin(&rig.store, &rig.registry, "toy_projects").await.map(|_| ());
    let Err(ReadModelError::Rebuilding { name }) = refused else { panic!("{refused:?}") };
    assert_eq!(name, "toy_projects");
    // Another one may.
    rebuild::run(&rig.store, &rig.registry, "toy_feed").await.unwrap();
    while first.step().await.unwrap().is_none() {}
    rig.finish().await;
}

#[tokio::test]
async fn a_reader_of_the_old_table_keeps_it_and_stops_no_swap() {
    let rig = filled(&small(), 10).await;
    let mut reader = rig.db.app_client().await;
    let held = reader.transaction().await.unwrap();
    held.query("select * from rm.toy_projects__v1", &[]).await.unwrap();
    let rebuilt = rebuild::run(&rig.store, &rig.registry, "toy_projects");
    tokio::time::timeout(PATIENCE, rebuilt).await.expect("it waits for no reader").unwrap();
    rebuild::retire(&rig.store, "toy_projects").await.unwrap();
    let still = rig.db.app_client().await.batch_execute("select from rm.toy_projects__v1").await;
    assert!(still.is_ok(), "it is still being read");
    held.commit().await.unwrap();
    // The next start clears it away.
    assert_eq!(install::run(&rig.store, &rig.registry).await.unwrap(), Vec::<String>::new());
    assert!(rig.db.app_client().await.batch_execute("select from rm.toy_projects__v1").await.is_err());
    rig.finish().await;
}

#[tokio::test]
async fn a_rebuild_of_a_build_that_was_replaced_changes_nothing() {
    let rig = filled(&small(), 10).await;
    let mut rebuild = begin(&rig, "toy_projects").await;
    let newer = Arc::new(toy::registry_of(2));
    install::run(&rig.store, &newer).await.unwrap();
    let error = loop {
        match rebuild.step().await {
            Ok(done) => assert_eq!(done, None),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ReadModelError::Replaced { .. }), "{error:?}");
    drop(rebuild);
    writer(&rig.store, &newer).submit(create()).await.unwrap();
    rig.db.finish_inline(&newer).await;
    // The newer build rebuilds its own; what the older one had begun is gone.
    eventually(PATIENCE, || async {
        rebuild::run(&rig.store, &newer, "toy_projects").await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    assert!(rig.db.app_client().await.batch_execute("select from rm.toy_projects__v1_r1").await.is_err());
    rig.db.finish(&newer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_stands_still_tries_again_by_itself_and_goes_on_once_the_log_is_mended() {
    use multica::kernel::limits::Millis;
    let quick = Limits { damaged_retry_first: Millis(50), damaged_retry_max: Millis(200), ..limits() };
    let rig = Rig::with(toy::registry(), &quick).await;
    for _ in 0..3 {
        rig.writer.submit(create()).await.unwrap();
    }
    let superuser = rig.db.superuser().await;
    let damage = "create table public.kept as select seq, data::text from es.events where seq = 2; \
                  update es.events set data = '[]' where seq = 2";
    superuser.batch_execute(damage).await.unwrap();
    let running = tokio::spawn(follower::run(rig.store.clone(), Arc::clone(&rig.registry), Uuid::now_v7()));
    let state = || async {
        let all = query::standings(&rig.store).await.unwrap();
        let feed = all.into_iter().find(|standing| standing.name == "toy_feed").unwrap();
        (feed.state, feed.stopped_at, feed.checkpoint)
    };
    eventually(PATIENCE, || async { state().await == ("stopped".to_owned(), Some(2), 1) }).await;
    let mend = "update es.events e set data = k.data::json from public.kept k where k.seq = e.seq";
    superuser.batch_execute(mend).await.unwrap();
    eventually(PATIENCE, || async { state().await == ("active".to_owned(), None, 3) }).await;
    running.abort();
    rig.finish().await;
}

#[tokio::test]
async fn after_an_erasure_every_read_model_is_rebuilt_equal() {
    let rig = filled(&small(), 20).await;
    let all = rig.db.app_client().await.query("select id from es.contents", &[]).await.unwrap();
    let all = all.iter().map(|row| multica::kernel::ids::ContentId(row.get(0))).collect();
    rig.writer.submit(toy::erase(all)).await.unwrap();
    follower::step_all(&rig.store, &rig.registry).await;
    for name in ["toy_projects", "toy_feed", "toy_projects_history"] {
        rebuild::run(&rig.store, &rig.registry, name).await.unwrap();
        rebuild::retire(&rig.store, name).await.unwrap();
    }
    assert!(multica::store::verify::run(&rig.store).await.unwrap().erased > 10);
    rig.finish().await;
    assert_kept(&rig.store, &rig.registry, toy::WORKSPACE).await;
}
