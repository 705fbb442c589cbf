//! The writer: commands in, events and answers out.

use multica::app::AppError;
use multica::kernel::ids::CommandId;
use multica::store::read;
use serde_json::json;
use uuid::Uuid;

use crate::support::Rig;
use crate::support::toy::{Create, SetStatus, command, command_as, create};

#[tokio::test]
async fn a_command_is_answered_with_its_position_and_its_event_is_there() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    let done = rig.writer.submit(command(Create { project, title: "Wörter".to_owned() })).await.unwrap();
    assert_eq!((done.position, done.events, done.repeated), (1, 1, false));
    let events = read::range(&rig.store, 0, 10).await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].stream.id, project);
    let changed = command(SetStatus { project, status: "paused".to_owned() });
    assert_eq!(rig.writer.submit(changed).await.unwrap().result, json!(2));
    rig.finish().await;
}

#[tokio::test]
async fn the_same_command_again_gets_the_same_answer_and_writes_nothing() {
    let rig = Rig::new().await;
    let id = CommandId(Uuid::now_v7());
    let project = Uuid::now_v7();
    let again = || command_as(id, [1; 16], Create { project, title: String::new() });
    let first = rig.writer.submit(again()).await.unwrap();
    // From the writer's memory, then from the log by a writer without one.
    for writer in [rig.writer.clone(), crate::support::writer(&rig.store, &rig.registry)] {
        let second = writer.submit(again()).await.unwrap();
        assert!(second.repeated);
        assert_eq!((second.position, second.result), (first.position, first.result.clone()));
    }
    assert_eq!(read::head(&rig.store).await.unwrap(), 1);
    rig.finish().await;
}

#[tokio::test]
async fn the_same_key_with_another_body_is_refused_and_does_nothing() {
    let rig = Rig::new().await;
    let id = CommandId(Uuid::now_v7());
    let body =
        |fingerprint| command_as(id, fingerprint, Create { project: Uuid::now_v7(), title: String::new() });
    rig.writer.submit(body([1; 16])).await.unwrap();
    let fresh = crate::support::writer(&rig.store, &rig.registry);
    for writer in [rig.writer.clone(), fresh] {
        let answer = writer.submit(body([2; 16])).await;
        assert!(matches!(answer, Err(AppError::IdempotencyKeyReused)), "{answer:?}");
    }
    assert_eq!(read::head(&rig.store).await.unwrap(), 1);
    rig.finish().await;
}

#[tokio::test]
async fn a_refusal_is_stored_and_stays_the_answer_when_the_state_has_changed() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    let id = CommandId(Uuid::now_v7());
    let change = || command_as(id, [1; 16], SetStatus { project, status: "paused".to_owned() });
    let refused = rig.writer.submit(change()).await.unwrap_err();
    assert!(matches!(&refused, AppError::Refused(refusal) if refusal.code == "not_found"));
    rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
    for writer in [rig.writer.clone(), crate::support::writer(&rig.store, &rig.registry)] {
        let again = writer.submit(change()).await.unwrap_err();
        assert_eq!(again.to_string(), refused.to_string());
    }
    rig.finish().await;
}

#[tokio::test]
async fn a_command_that_changes_nothing_is_not_stored() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
    let set = || SetStatus { project, status: "paused".to_owned() };
    rig.writer.submit(command(set())).await.unwrap();
    let id = CommandId(Uuid::now_v7());
    let nothing = rig.writer.submit(command_as(id, [1; 16], set())).await.unwrap();
    assert_eq!((nothing.events, nothing.position, nothing.result), (0, 2, json!("as it was")));
    let stored = rig.db.superuser().await;
    let row = stored.query_one("select count(*) from es.commands", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 2);
    rig.finish().await;
}

#[tokio::test]
async fn the_same_command_twice_in_one_batch_is_carried_out_once() {
    let rig = Rig::new().await;
    let id = CommandId(Uuid::now_v7());
    let project = Uuid::now_v7();
    let again = || rig.writer.submit(command_as(id, [1; 16], Create { project, title: String::new() }));
    let (a, b, c) = tokio::join!(again(), again(), again());
    let mut repeated: Vec<bool> = [a, b, c].into_iter().map(|answer| answer.unwrap().repeated).collect();
    repeated.sort_unstable();
    assert_eq!(repeated, [false, true, true]);
    assert_eq!(read::head(&rig.store).await.unwrap(), 1);
    rig.finish().await;
}

#[tokio::test]
async fn commands_of_one_batch_see_each_other() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    let (created, first, second) = tokio::join!(
        rig.writer.submit(command(Create { project, title: String::new() })),
        rig.writer.submit(command(SetStatus { project, status: "paused".to_owned() })),
        rig.writer.submit(command(SetStatus { project, status: "completed".to_owned() })),
    );
    assert_eq!(created.unwrap().position, 1);
    assert_eq!(first.unwrap().result, json!(2));
    assert_eq!(second.unwrap().result, json!(3));
    rig.finish().await;
}

#[tokio::test]
async fn a_full_queue_says_so_instead_of_growing() {
    let limits = multica::kernel::limits::Limits { writer_queue: 1, ..crate::support::limits() };
    let rig = Rig::with(crate::support::toy::registry(), &limits).await;
    let answers = futures_util::future::join_all((0..50).map(|_| rig.writer.submit(create()))).await;
    let overloaded = answers.iter().filter(|a| matches!(a, Err(AppError::Overloaded { .. }))).count();
    let written = answers.iter().filter(|a| a.is_ok()).count();
    assert!(overloaded > 0 && written > 0 && overloaded + written == 50, "{overloaded} {written}");
    assert_eq!(read::head(&rig.store).await.unwrap(), written as i64);
    rig.finish().await;
}
