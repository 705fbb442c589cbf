//! Somebody with the owner's password changes the log: verify names where.

use multica::app::verify::run;
use multica::app::writer::check::Schemas;
use multica::kernel::digest::hex;
use multica::kernel::ids::ContentId;
use multica::store::raw::block_hash;
use multica::store::verify::{self, Finding, Sealed};
use multica::store::{Corruption, StoreError, event_types, read};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::support::Rig;
use crate::support::toy::{Create, command, create};

/// A change, and what is found: codes with positions, among others.
type Damage = (&'static str, &'static str, &'static [(&'static str, Option<i64>)]);

/// Everything that somebody with the owner's password may think of, on five events in five blocks.
const DAMAGE: &[Damage] = &[
    (
        "data",
        "update es.events set data = replace(data::text, 'planned', 'plannee')::json where seq = 3",
        &[("block_changed", Some(3))],
    ),
    ("meta", "update es.events set meta = '{}' where seq = 2", &[("block_changed", Some(2))]),
    ("actor", "update es.events set actor_id = 'another' where seq = 2", &[("block_changed", Some(2))]),
    (
        "type",
        "update es.events set event_type = 'project.deleted', data = '{}' where seq = 4",
        &[("block_changed", Some(4))],
    ),
    (
        "version",
        "update es.events set version = 2 where seq = 2",
        &[("version_not_next", Some(2)), ("block_changed", Some(2)), ("stream_differs", Some(2))],
    ),
    (
        "time of recording of an event",
        "update es.events set recorded_at = recorded_at - interval '1 day' where seq = 2",
        &[("recorded_at_changed", Some(2))],
    ),
    (
        "time of recording of an event and its block",
        "update es.events set recorded_at = recorded_at - interval '1 day' where seq = 2; \
         update es.log_blocks set recorded_at = recorded_at - interval '1 day' where last_seq = 2",
        &[("block_changed", Some(2)), ("command_differs", Some(2))],
    ),
    ("first event removed", "delete from es.events where seq = 1", &[("event_missing", Some(1))]),
    ("middle event removed", "delete from es.events where seq = 3", &[("event_missing", Some(3))]),
    ("last event removed", "delete from es.events where seq = 5", &[("event_missing", Some(5))]),
    (
        "event added at the end",
        "create temp table one as select * from es.events where seq = 5; update one set seq = 6; \
         insert into es.events select * from one; drop table one",
        &[("block_missing", Some(6))],
    ),
    (
        "two events swapped",
        "update es.events set seq = 100 where seq = 2; update es.events set seq = 2 where seq = 4; \
         update es.events set seq = 4 where seq = 100",
        &[("block_changed", Some(2)), ("block_changed", Some(4))],
    ),
    (
        "block removed",
        "delete from es.log_blocks where last_seq = 3",
        &[("block_missing", Some(3)), ("chain_broken", Some(4))],
    ),
    (
        "block computed again by a careful forger",
        "update es.log_blocks set hash = sha256('anything') where last_seq = 3",
        &[("block_changed", Some(3)), ("chain_broken", Some(4))],
    ),
    (
        "block torn from the one before",
        "update es.log_blocks set prev_hash = sha256('anything') where last_seq = 3",
        &[("chain_broken", Some(3)), ("block_changed", Some(3))],
    ),
    (
        "format of a block",
        "update es.log_blocks set format = 2 where last_seq = 3",
        &[("block_changed", Some(3))],
    ),
    (
        "end cut off",
        "delete from es.events where seq = 5; delete from es.log_blocks where last_seq = 5",
        &[("head_differs", Some(4))],
    ),
    ("head ahead", "update es.log_head set last_seq = 9", &[("head_differs", Some(5))]),
    ("head behind", "update es.log_head set last_seq = 4", &[("head_differs", Some(5))]),
    ("head's hash", "update es.log_head set last_block_hash = sha256('x')", &[("head_differs", Some(5))]),
    (
        "head's time",
        "update es.log_head set last_recorded_at = last_recorded_at - interval '1 day'",
        &[("head_differs", Some(5))],
    ),
    (
        "version of a stream",
        "update es.streams set version = 7 where last_seq = 3",
        &[("stream_differs", Some(3))],
    ),
    (
        "family of a stream",
        "update es.streams set family = 'issue' where last_seq = 3",
        &[("stream_differs", Some(3))],
    ),
    (
        "workspace of a stream",
        "update es.streams set workspace_id = gen_random_uuid() where last_seq = 3",
        &[("stream_differs", Some(3))],
    ),
    ("stream removed", "delete from es.streams where last_seq = 3", &[("stream_differs", Some(3))]),
    (
        "stream added",
        "insert into es.streams select log_id, gen_random_uuid(), family, workspace_id, 1, 3 from es.streams limit 1",
        &[("stream_differs", Some(3))],
    ),
    ("command removed", "delete from es.commands where position = 2", &[("command_differs", Some(2))]),
    (
        "count of a command",
        "update es.commands set event_count = 2 where position = 2",
        &[("command_differs", Some(2))],
    ),
    (
        "position of a command",
        "update es.commands set position = 3 where position = 2",
        &[("command_differs", Some(2))],
    ),
    (
        "command refused afterwards",
        "update es.commands set outcome = 1 where position = 2",
        &[("command_differs", Some(2))],
    ),
    (
        "text changed",
        "update es.contents set bytes = 'forged' where id = (select stream_id from es.events where seq = 2)",
        &[("content_changed", Some(2))],
    ),
    (
        "text removed that nobody erased",
        "delete from es.contents where id = (select stream_id from es.events where seq = 2)",
        &[("content_missing", Some(2))],
    ),
    (
        "reservation added",
        "insert into es.reservations values (1, 'name/x', 'name', gen_random_uuid())",
        &[("reservation_differs", None)],
    ),
    (
        "row of a read model changed",
        "update rm.toy_projects__v1 set \"row\" = '{}' where position = 2",
        &[("row_differs", Some(2))],
    ),
    (
        "row of a read model removed",
        "delete from rm.toy_projects__v1 where position = 2",
        &[("row_missing", Some(2))],
    ),
    (
        "row of a read model added",
        "create temp table one as select * from rm.toy_projects__v1 where position = 2; \
         update one set key = 'x'; insert into rm.toy_projects__v1 select * from one; drop table one",
        &[("row_unknown", Some(2))],
    ),
    (
        "schema of an event type",
        "update es.event_types set sha256 = sha256('x') where event_type = 'project.created'",
        &[("event_type_differs", None)],
    ),
    (
        "event type removed",
        "delete from es.event_types where event_type = 'project.created'",
        &[("event_type_differs", None)],
    ),
];

const TABLES: [&str; 9] = [
    "es.log_head",
    "es.events",
    "es.log_blocks",
    "es.streams",
    "es.commands",
    "es.contents",
    "es.reservations",
    "es.event_types",
    "rm.toy_projects__v1",
];

/// Keeps a copy of everything, from which all can be brought back.
async fn keep(superuser: &Client, name: &str) {
    superuser.batch_execute(&format!("create schema {name}")).await.unwrap();
    for table in TABLES {
        let copy = table.replace('.', "_");
        superuser.batch_execute(&format!("create table {name}.{copy} as table {table}")).await.unwrap();
    }
}

async fn bring_back(superuser: &Client, name: &str) {
    for table in TABLES {
        let copy = table.replace('.', "_");
        let back = format!("delete from {table}; insert into {table} table {name}.{copy}");
        superuser.batch_execute(&back).await.unwrap();
    }
}

/// Codes and positions of what is found, with these seals.
async fn found(rig: &Rig, seals: &[Sealed]) -> Vec<(&'static str, Option<i64>)> {
    let verified = run(&rig.store, &rig.registry, seals.to_vec(), &|_, _, _| {}).await.unwrap();
    for finding in &verified.findings {
        assert!(finding.sentence.len() > 20 && finding.next_step.len() > 20, "{finding:?}");
    }
    verified.findings.iter().map(|finding| (finding.code, finding.position)).collect()
}

async fn of_five() -> (Rig, Client) {
    let rig = Rig::new().await;
    event_types::fill(
        &rig.db.owner,
        multica::kernel::limits::Limits::default().database_wait,
        &Schemas::catalogue(),
    )
    .await
    .unwrap();
    for _ in 0..4 {
        rig.writer.submit(create()).await.unwrap();
    }
    let superuser = rig.db.superuser().await;
    keep(&superuser, "four").await;
    rig.writer.submit(create()).await.unwrap();
    keep(&superuser, "five").await;
    (rig, superuser)
}

async fn seal(rig: &Rig) -> Sealed {
    let (position, hash) = read::head_block(&rig.store).await.unwrap();
    Sealed { position, block: hex(&hash) }
}

#[tokio::test]
async fn every_damage_is_found_and_named_with_its_place() {
    let (rig, superuser) = of_five().await;
    for (what, change, expected) in DAMAGE {
        superuser.batch_execute(change).await.unwrap();
        let named = found(&rig, &[]).await;
        for one in *expected {
            assert!(named.contains(one), "{what}: {one:?} is not in {named:?}");
        }
        bring_back(&superuser, "five").await;
        assert_eq!(found(&rig, &[]).await, [], "after {what}");
    }
}

#[tokio::test]
async fn an_end_cut_off_without_a_trace_is_found_by_a_seal_alone() {
    let (rig, superuser) = of_five().await;
    let seals = [seal(&rig).await];
    assert_eq!(found(&rig, &seals).await, []);
    bring_back(&superuser, "four").await;
    assert_eq!(found(&rig, &[]).await, [], "the log of before is whole");
    assert_eq!(found(&rig, &seals).await, [("log_cut_off", Some(5))]);
}

#[tokio::test]
async fn a_chain_computed_again_is_found_by_a_seal_alone() {
    let (rig, superuser) = of_five().await;
    let seals = [seal(&rig).await];
    let forge = "update es.events set actor_id = 'another' where seq = 2";
    superuser.batch_execute(forge).await.unwrap();
    // As a careful forger does it: every block from there on.
    let mut prev = vec![0; 32];
    for event in read::range_in(&superuser, 0, 10).await.unwrap() {
        let hash = block_hash(&prev, event.seq, event.recorded_at, &[event.leaf()]).to_vec();
        let write = "update es.log_blocks set prev_hash = $1, hash = $2 where last_seq = $3";
        superuser.execute(write, &[&prev, &hash, &event.seq]).await.unwrap();
        prev = hash;
    }
    superuser.execute("update es.log_head set last_block_hash = $1", &[&prev]).await.unwrap();
    assert_eq!(found(&rig, &[]).await, [], "the forged log is whole in itself");
    assert_eq!(found(&rig, &seals).await, [("seal_broken", Some(5))]);
}

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
