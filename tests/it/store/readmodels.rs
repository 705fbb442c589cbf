//! Read models: inline, following, rebuilt, swapped.

use std::sync::Arc;
use std::time::Duration;

use multica::app::AppError;
use multica::readmodel::follower::{self, Step};
use multica::readmodel::{install, query, rebuild, verify};
use multica::store::{StoreError, lease, listen, read};
use serde_json::json;
use uuid::Uuid;

use crate::support::toy::{self, Create, Delete, SetStatus, WORKSPACE, command, create};
use crate::support::{Rig, eventually, limits, writer};

#[tokio::test]
async fn an_inline_row_is_there_with_its_events_position_and_time() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    rig.writer.submit(create()).await.unwrap();
    rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
    let projects = rig.registry.get("toy_projects").unwrap();
    let row = query::by_key(&rig.store, projects, &project.to_string()).await.unwrap().unwrap();
    let event = &read::range(&rig.store, 1, 1).await.unwrap()[0];
    assert_eq!((row.position, Some(row.recorded_at)), (2, event.recorded_at));
    assert_eq!(row.row.object["changed_at"], json!(row.recorded_at.as_microsecond()));
    let all = query::of_workspace(&rig.store, projects, WORKSPACE).await.unwrap();
    assert_eq!(all.len(), 3);
    rig.writer.submit(command(Delete { project })).await.unwrap();
    assert_eq!(query::by_key(&rig.store, projects, &project.to_string()).await.unwrap(), None);
    rig.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_two_servers_change_loses_no_change() {
    let rig = Rig::new().await;
    let other = writer(&rig.store, &rig.registry);
    let work = [rig.writer.clone(), other].map(|writer| async move {
        for _ in 0..30 {
            writer.submit(create()).await.unwrap();
        }
    });
    futures_util::future::join_all(work).await;
    let projects = rig.registry.get("toy_projects").unwrap();
    let row = query::by_key(&rig.store, projects, &format!("count/{WORKSPACE}")).await.unwrap().unwrap();
    assert_eq!(row.row.object, json!({ "projects": 60 }));
    rig.finish().await;
}

#[tokio::test]
async fn a_follower_comes_to_the_head_and_a_reader_can_wait_for_it() {
    let rig = Rig::new().await;
    let running = tokio::spawn(follower::run(rig.store.clone(), Arc::clone(&rig.registry), Uuid::now_v7()));
    let feed = rig.registry.get("toy_feed").unwrap();
    for _ in 0..3 {
        let done = rig.writer.submit(create()).await.unwrap();
        query::at_least(&rig.store, feed, done.position).await.unwrap();
    }
    assert_eq!(query::of_workspace(&rig.store, feed, WORKSPACE).await.unwrap().len(), 3);
    running.abort();
    rig.finish().await;
}

#[tokio::test]
async fn a_reader_that_waits_in_vain_is_told_how_far_the_read_model_is() {
    let limits =
        multica::kernel::limits::Limits { at_least_wait: multica::kernel::limits::Millis(30), ..limits() };
    let rig = Rig::with(toy::registry(), &limits).await;
    rig.writer.submit(create()).await.unwrap();
    let feed = rig.registry.get("toy_feed").unwrap();
    let error = query::at_least(&rig.store, feed, 1).await.unwrap_err();
    assert_eq!(error.to_string(), "read model toy_feed stands at 0, 1 was asked for");
    rig.finish().await;
}

#[tokio::test]
async fn poison_stops_a_follower_where_everybody_sees_it_and_a_skip_degrades_it() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
    let poison = SetStatus { project, status: "poison".to_owned() };
    rig.writer.submit(command(poison)).await.unwrap();
    rig.writer.submit(create()).await.unwrap();
    let feed = rig.registry.get("toy_feed").unwrap();
    let stopped = follower::step(&rig.store, feed).await.unwrap();
    assert!(matches!(&stopped, Step::Stopped { position: 2, reason } if reason.contains("poison")));
    assert_eq!(follower::step(&rig.store, feed).await.unwrap(), stopped, "it stays where it is");
    let standing = |all: Vec<query::Standing>| all.into_iter().find(|s| s.name == "toy_feed").unwrap();
    let shown = standing(query::standings(&rig.store).await.unwrap());
    assert_eq!((shown.state.as_str(), shown.checkpoint, shown.stopped_at), ("stopped", 1, Some(2)));
    // What came before it can be read.
    assert_eq!(query::of_workspace(&rig.store, feed, WORKSPACE).await.unwrap().len(), 1);
    assert!(follower::skip(&rig.store, feed, 2).await.unwrap());
    assert_eq!(follower::step(&rig.store, feed).await.unwrap(), Step::Advanced(3));
    let shown = standing(query::standings(&rig.store).await.unwrap());
    assert_eq!((shown.state.as_str(), shown.degraded), ("active", true));
    assert!(shown.fault().unwrap().contains("position 2"), "{shown:?}");
    // A rebuild meets it again, passes over it again and says so: it stays degraded.
    let rebuilt = rebuild::run(&rig.store, &rig.registry, "toy_feed").await.unwrap();
    assert_eq!((rebuilt.up_to, rebuilt.rows, rebuilt.passed_over), (3, 2, 1));
    assert_eq!(rebuilt.first_passed.unwrap().0, 2);
    assert!(standing(query::standings(&rig.store).await.unwrap()).degraded);
}

#[tokio::test]
async fn a_rebuild_gives_the_rows_that_are_there_and_mends_those_that_are_not() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
    for n in 0..20 {
        rig.writer.submit(command(SetStatus { project, status: n.to_string() })).await.unwrap();
        rig.writer.submit(create()).await.unwrap();
    }
    let rebuilt = rebuild::run(&rig.store, &rig.registry, "toy_projects").await.unwrap();
    assert_eq!((rebuilt.up_to, rebuilt.rows), (41, 22));
    rebuild::retire(&rig.store, "toy_projects").await.unwrap();
    rig.finish().await;
    let superuser = rig.db.superuser().await;
    let damage = "delete from rm.toy_projects__v1_r1 where key like 'count/%'; \
                  update rm.toy_projects__v1_r1 set \"row\" = '{}' where key = ";
    superuser.batch_execute(&format!("{damage}'{project}'")).await.unwrap();
    let different = verify::all(&rig.store, &rig.registry).await.unwrap();
    let keys: Vec<&str> = different.iter().map(|difference| difference.key.as_str()).collect();
    assert_eq!(keys, [project.to_string().as_str(), &format!("count/{WORKSPACE}")]);
    rebuild::run(&rig.store, &rig.registry, "toy_projects").await.unwrap();
    rig.finish().await;
    rig.writer.submit(create()).await.unwrap();
    rig.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_version_is_swapped_in_while_commands_go_on_and_the_old_build_may_not_append() {
    let rig = Rig::new().await;
    let busy = tokio::spawn({
        let writer = rig.writer.clone();
        async move {
            let mut written = 0;
            loop {
                match writer.submit(create()).await {
                    Ok(_) => written += 1,
                    Err(error) => return (written, error),
                }
            }
        }
    });
    let newer = Arc::new(toy::registry_of(2));
    let (store, head) = (rig.store.clone(), rig.store.head());
    eventually(Duration::from_secs(10), || async { *head.borrow() > 20 }).await;
    assert_eq!(install::run(&store, &newer).await.unwrap(), ["toy_projects"]);
    let (written, error) = busy.await.unwrap();
    let AppError::Store(error) = error else { panic!("{error:?}") };
    assert!(matches!(error.as_ref(), StoreError::Superseded));
    assert_eq!(read::head(&store).await.unwrap(), written, "all that was acknowledged, and no more");
    let writer = writer(&store, &newer);
    writer.submit(create()).await.unwrap();
    rig.db.finish(&newer).await;
    // Installing again builds nothing, and drops the table that answers no more.
    assert_eq!(install::run(&store, &newer).await.unwrap(), Vec::<String>::new());
    let names: Vec<String> =
        query::standings(&store).await.unwrap().into_iter().map(|standing| standing.table).collect();
    assert_eq!(names, ["rm.toy_feed__v1", "rm.toy_projects__v2"]);
    let old = rig.db.app_client().await.batch_execute("select from rm.toy_projects__v1").await;
    assert!(old.is_err());
}

#[tokio::test]
async fn a_reader_that_holds_an_old_snapshot_does_not_stop_a_swap() {
    let rig = Rig::new().await;
    rig.writer.submit(create()).await.unwrap();
    let mut reader = rig.db.app_client().await;
    let held = reader.transaction().await.unwrap();
    held.query("select * from rm.toy_projects__v1", &[]).await.unwrap();
    let newer = Arc::new(toy::registry_of(2));
    let swap = install::run(&rig.store, &newer);
    tokio::time::timeout(Duration::from_secs(10), swap).await.expect("it waits for no reader").unwrap();
    held.commit().await.unwrap();
    rig.db.finish(&newer).await;
}

#[tokio::test]
async fn one_process_at_a_time_has_a_lease() {
    let rig = Rig::new().await;
    let (a, b) = (Uuid::now_v7(), Uuid::now_v7());
    let span = Duration::from_secs(60);
    assert!(lease::acquire(&rig.store, "loop", a, span).await.unwrap());
    assert!(!lease::acquire(&rig.store, "loop", b, span).await.unwrap());
    assert!(lease::acquire(&rig.store, "loop", a, span).await.unwrap(), "renewed");
    let superuser = rig.db.superuser().await;
    superuser.batch_execute("update es.clock_offset set by_interval = interval '2 minutes'").await.unwrap();
    assert!(lease::acquire(&rig.store, "loop", b, span).await.unwrap(), "it had run out");
    lease::release(&rig.store, "loop", b).await.unwrap();
    assert!(lease::acquire(&rig.store, "loop", a, span).await.unwrap());
}

#[tokio::test]
async fn another_process_hears_of_a_commit() {
    let rig = Rig::new().await;
    let other = rig.db.store().await;
    let listening = [listen::run(rig.store.clone()), listen::run(other.clone())].map(tokio::spawn);
    let mut head = other.head();
    let done = rig.writer.submit(create()).await.unwrap();
    tokio::time::timeout(Duration::from_secs(5), head.wait_for(|head| *head >= done.position))
        .await
        .expect("the head arrives")
        .unwrap();
    listening.iter().for_each(tokio::task::JoinHandle::abort);
    rig.finish().await;
}
