//! Somebody with the owner's password changes the log: verify names where.

use multica::kernel::ids::ContentId;
use multica::store::verify::{self, Finding};
use multica::store::{Corruption, StoreError, read};
use uuid::Uuid;

use crate::support::Rig;
use crate::support::toy::{Create, command, create};

/// Five events in five blocks, then a change behind the program's back, then what verify says first.
async fn after(change: &str) -> (Rig, Vec<Finding>) {
    let rig = Rig::new().await;
    for _ in 0..5 {
        rig.writer.submit(create()).await.unwrap();
    }
    assert_eq!(verify::run(&rig.store).await.unwrap().blocks, 5);
    let superuser = rig.db.superuser().await;
    superuser.batch_execute(change).await.unwrap();
    let findings = verify::run(&rig.store).await.unwrap().findings;
    (rig, findings)
}

#[tokio::test]
async fn one_flipped_byte_is_named() {
    let flip = "update es.events set data = replace(data::text, 'planned', 'plannee')::json where seq = 3";
    let (_, findings) = after(flip).await;
    assert_eq!(findings, [Finding::BlockHash { first: 3, last: 3 }]);
}

#[tokio::test]
async fn every_column_of_an_event_is_covered() {
    for change in [
        "workspace_id = gen_random_uuid()",
        "family = 'issue'",
        "event_id = gen_random_uuid()",
        "command_id = gen_random_uuid()",
        "correlation_id = gen_random_uuid()",
        "causation = 1",
        "event_type = 'project.deleted'",
        "schema_version = 2",
        "actor_type = 'agent'",
        "actor_id = 'another'",
        "actor_via = 'cli'",
        "occurred_at = occurred_at + interval '1 microsecond'",
        "recorded_at = recorded_at + interval '1 microsecond'",
        "meta = '{}'",
    ] {
        let (_, findings) = after(&format!("update es.events set {change} where seq = 2")).await;
        assert!(!findings.is_empty(), "{change}");
    }
}

#[tokio::test]
async fn a_deleted_event_is_named_and_no_reader_steps_over_it() {
    let (rig, findings) = after("delete from es.events where seq = 2").await;
    assert_eq!(findings[0], Finding::Hole { position: 2 });
    let error = read::range(&rig.store, 0, 10).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(Corruption::Hole { expected: 2, found: 3 })), "{error:?}");
    let (rig, _) = after("delete from es.events where seq = 5").await;
    let error = read::range(&rig.store, 0, 10).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(Corruption::Hole { expected: 5, .. })), "{error:?}");
}

#[tokio::test]
async fn two_swapped_events_are_named() {
    let swap = "update es.events set seq = 100 where seq = 2; update es.events set seq = 2 where seq = 4; \
                update es.events set seq = 4 where seq = 100";
    let (_, findings) = after(swap).await;
    assert!(findings.contains(&Finding::BlockHash { first: 2, last: 2 }));
    assert!(findings.contains(&Finding::BlockHash { first: 4, last: 4 }));
}

#[tokio::test]
async fn a_cut_off_end_is_named() {
    let cut = "delete from es.events where seq = 5; delete from es.log_blocks where last_seq = 5";
    let (_, findings) = after(cut).await;
    assert_eq!(findings, [Finding::Head { head: 5, last: 4 }]);
}

#[tokio::test]
async fn a_block_computed_again_by_a_careful_forger_breaks_the_next() {
    let forge = "update es.log_blocks set hash = sha256('anything') where last_seq = 3";
    let (_, findings) = after(forge).await;
    assert_eq!(findings[0], Finding::BlockHash { first: 3, last: 3 });
    assert!(findings.contains(&Finding::Chain { first: 4 }));
}

#[tokio::test]
async fn a_changed_text_is_named_and_an_erased_one_is_counted() {
    let rig = Rig::new().await;
    let (kept, changed, erased) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    for project in [kept, changed, erased] {
        let title = "written by a person".to_owned();
        rig.writer.submit(command(Create { project, title })).await.unwrap();
    }
    let erase = "select es.erase_contents(1, array[$1]::uuid[])";
    rig.db.app_client().await.query(erase, &[&erased]).await.unwrap();
    let texts = [kept, erased].map(ContentId);
    let found = read::contents(&rig.store, &texts).await.unwrap();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [(ContentId(kept), "written by a person".to_owned())]);
    let report = verify::run(&rig.store).await.unwrap();
    assert_eq!((report.erased, report.findings), (1, Vec::new()));
    rig.finish().await;
    let superuser = rig.db.superuser().await;
    superuser.execute("update es.contents set bytes = 'forged' where id = $1", &[&changed]).await.unwrap();
    let report = verify::run(&rig.store).await.unwrap();
    assert_eq!(report.findings, [Finding::Content { position: 2, content: changed }]);
}

#[tokio::test]
async fn a_reservation_that_no_event_gave_is_named() {
    let (_, findings) =
        after("insert into es.reservations values (1, 'name/x', 'name', gen_random_uuid())").await;
    assert_eq!(findings, [Finding::Reservation { key: "name/x".to_owned() }]);
}
