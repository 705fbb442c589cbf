//! The append under load, races and broken links.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use multica::app::AppError;
use multica::domain::{Envelope, Family, StreamKey};
use multica::kernel::ids::{CommandId, CorrelationId, EventId};
use multica::kernel::limits::{Limits, Millis};
use multica::store::append::{Appended, Appender, Batch, CommandRow, Take};
use multica::store::{Durability, Store, StoreError, read, reservations};
use serde_json::json;
use uuid::Uuid;

use crate::support::proxy::Proxy;
use crate::support::toy::{self, Create, SetStatus, WORKSPACE, actor, command, command_as, create};
use crate::support::{Rig, TestDb, eventually, limits, writer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_writers_leave_no_hole_that_a_tight_reader_could_see() {
    let rig = Rig::new().await;
    let reading = tokio::spawn({
        let store = rig.store.clone();
        async move {
            let mut position = 0;
            while position < 400 {
                // A hole is an error of the read itself.
                let events = read::range(&store, position, 1_000).await.unwrap();
                if let Some(last) = events.last() {
                    position = last.position.unwrap();
                }
                tokio::task::yield_now().await;
            }
            position
        }
    });
    let writers: Vec<_> = (0..4).map(|_| writer(&rig.store, &rig.registry)).collect();
    let shared = Uuid::now_v7();
    rig.writer.submit(command(Create { project: shared, title: String::new() })).await.unwrap();
    let work = writers.iter().enumerate().map(|(n, writer)| async move {
        for round in 0..25 {
            let status = format!("{n}-{round}");
            let contended = writer.submit(command(SetStatus { project: shared, status }));
            let (a, b, c, d) = tokio::join!(
                contended,
                writer.submit(create()),
                writer.submit(create()),
                writer.submit(create())
            );
            for answer in [b, c, d] {
                answer.unwrap();
            }
            assert!(matches!(a, Ok(_) | Err(AppError::Conflict)), "{a:?}");
        }
    });
    join_all(work).await;
    let head = read::head(&rig.store).await.unwrap();
    for _ in head..400 {
        rig.writer.submit(create()).await.unwrap();
    }
    assert!(reading.await.unwrap() >= 400);
    rig.finish().await;
}

/// A proxy before the database, and how to reach the database through it.
fn proxied(db: &TestDb) -> (Proxy, tokio_postgres::Config) {
    let socket = match &db.app.get_hosts()[0] {
        tokio_postgres::config::Host::Unix(folder) => folder.clone(),
        other => panic!("{other:?}"),
    };
    let proxy = Proxy::before(&socket);
    let mut through = tokio_postgres::Config::new();
    through.host_path(proxy.folder()).user("multica_app").dbname(db.app.get_dbname().unwrap());
    (proxy, through)
}

/// A server that is stopped takes connections and answers none of them.
#[tokio::test]
async fn what_reads_the_whole_log_does_not_wait_for_a_database_that_stands_still() {
    let db = TestDb::new().await;
    let (proxy, through) = proxied(&db);
    let quick = Limits { database_wait: Millis(300), ..limits() };
    let store = Store::open(through, &quick, Durability::Waived).await.unwrap();
    let registry = toy::registry();
    multica::readmodel::install::run(&store, &registry).await.unwrap();
    multica::store::verify::run(&store).await.unwrap();
    proxy.fall_silent();
    let error = multica::store::verify::run(&store).await.unwrap_err();
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error:?}");
    let error = multica::readmodel::verify::all(&store, &registry).await.unwrap_err();
    assert!(format!("{error:?}").contains("TimedOut"), "{error:?}");
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_the_same_batch() {
    let db = TestDb::new().await;
    let direct = db.store().await;
    let registry = Arc::new(toy::registry());
    multica::readmodel::install::run(&direct, &registry).await.unwrap();
    let (proxy, through) = proxied(&db);
    let store = Store::open(through, &limits(), Durability::Waived).await.unwrap();
    let writer = writer(&store, &registry);
    writer.submit(create()).await.unwrap();
    for n in 1..=3 {
        proxy.lose_answers(n);
        let project = Uuid::now_v7();
        let done = writer.submit(command(Create { project, title: String::new() })).await.unwrap();
        assert_eq!(proxy.cuts_left(), 0, "the answer was lost");
        let stream = read::stream(&direct, StreamKey::new(Family::Project, project)).await.unwrap();
        assert_eq!(stream.len(), 1, "written once");
        assert_eq!(stream[0].position, Some(done.position));
    }
    db.finish(&registry).await;
}

#[tokio::test]
async fn a_dead_database_is_an_answer_in_bounded_time() {
    let folder = tempfile::tempdir().unwrap();
    let db = TestDb::new().await;
    let quick = Limits { database_wait: Millis(300), ..limits() };
    let mut nowhere = tokio_postgres::Config::new();
    nowhere.host_path(folder.path()).user("multica_app").dbname("none");
    let error = Store::open(nowhere, &quick, Durability::Waived).await.unwrap_err();
    assert!(error.is_outage(), "{error:?}");
    assert!(error.next_step().unwrap().contains("DATABASE_URL"));
    // A writer whose database goes away answers with 503 and when to come back.
    let store = db.store_with(&quick).await;
    let registry = Arc::new(toy::registry());
    multica::readmodel::install::run(&store, &registry).await.unwrap();
    let writer = writer(&store, &registry);
    let admin = db.superuser().await;
    let name = db.app.get_dbname().unwrap();
    let locked = format!("alter role multica_app in database {name} set statement_timeout = 100");
    admin.batch_execute(&locked).await.unwrap();
    let answer = {
        let quick_death = format!("alter database {name} allow_connections false");
        let postgres =
            crate::support::connect(&crate::support::cluster::shared().config("multica", "postgres")).await;
        postgres.batch_execute(&quick_death).await.unwrap();
        let kill = "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and usename = 'multica_app'";
        postgres.query(kill, &[&name]).await.unwrap();
        let answer = writer.submit(create()).await;
        postgres.batch_execute(&format!("alter database {name} allow_connections true")).await.unwrap();
        answer
    };
    assert!(matches!(answer, Err(AppError::Unavailable { .. } | AppError::Store(_))), "{answer:?}");
    // It comes back by itself.
    eventually(Duration::from_secs(5), || async { writer.submit(create()).await.is_ok() }).await;
    db.finish(&registry).await;
}

#[tokio::test]
async fn a_version_that_another_server_has_moved_is_decided_again() {
    let rig = Rig::new().await;
    let other = writer(&rig.store, &rig.registry);
    let project = Uuid::now_v7();
    rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
    for round in 0..10 {
        for (n, writer) in [&rig.writer, &other].into_iter().enumerate() {
            let status = format!("{round}-{n}");
            let done = writer.submit(command(SetStatus { project, status })).await.unwrap();
            // Each saw what the other had written: the result counts the events before it.
            assert_eq!(done.result, json!(2 + round * 2 + n));
        }
    }
    rig.finish().await;
}

#[tokio::test]
async fn a_refusal_that_rests_on_old_facts_is_decided_again() {
    let rig = Rig::new().await;
    let other = writer(&rig.store, &rig.registry);
    let project = Uuid::now_v7();
    // This writer remembers that there is no such project; the other makes it.
    let set = |status: &str| command(SetStatus { project, status: status.to_owned() });
    assert!(rig.writer.submit(set("a")).await.is_err());
    other.submit(command(Create { project, title: String::new() })).await.unwrap();
    rig.writer.submit(set("b")).await.unwrap();
    rig.finish().await;
}

#[tokio::test]
async fn one_command_that_cannot_be_written_does_not_stop_the_others_of_its_batch() {
    let rig = Rig::new().await;
    // jsonb has no NUL: the row of this one is refused by the database.
    let bad = Uuid::now_v7();
    rig.writer.submit(command(Create { project: bad, title: String::new() })).await.unwrap();
    let id = CommandId(Uuid::now_v7());
    let (first, nul, last) = tokio::join!(
        rig.writer.submit(create()),
        rig.writer.submit(command_as(id, [1; 16], SetStatus { project: bad, status: "nul \0".to_owned() })),
        rig.writer.submit(create()),
    );
    first.unwrap();
    last.unwrap();
    assert!(matches!(nul, Err(AppError::Store(_))), "{nul:?}");
    // Its id is free.
    let fixed = SetStatus { project: bad, status: "good".to_owned() };
    rig.writer.submit(command_as(id, [1; 16], fixed)).await.unwrap();
    rig.finish().await;
}

fn bare_batch(takes: Vec<Take>, frees: Vec<(&'static str, Uuid)>) -> Batch {
    let command = CommandRow {
        id: CommandId(Uuid::now_v7()),
        workspace: WORKSPACE,
        kind: "toy",
        fingerprint: [0; 16],
        refused: false,
        last_ordinal: 0,
        events: 0,
        result: json!(null),
        actor: actor(),
    };
    Batch { commands: vec![command], takes, frees, ..Batch::default() }
}

fn take(key: &str, holder: u128, after_frees: i32) -> Take {
    Take { key: key.to_owned(), class: "slot", holder: Uuid::from_u128(holder), after_frees, keep: true }
}

#[tokio::test]
async fn of_two_writers_that_take_one_key_exactly_one_gets_it() {
    let db = TestDb::new().await;
    let store = db.store().await;
    for round in 0..20 {
        let key = format!("agent/a/slot/{round}");
        let race = (1..=4).map(|holder| {
            let mut appender = Appender::new(&store);
            let batch = bare_batch(vec![take(&key, holder, 0)], Vec::new());
            async move { appender.commit(&batch).await.unwrap() }
        });
        let answers = join_all(race).await;
        let won = answers.iter().filter(|a| matches!(a, Appended::Committed { .. })).count();
        let lost = answers.iter().filter(|a| **a == Appended::Taken(vec![key.clone()])).count();
        assert_eq!((won, lost), (1, 3));
    }
}

#[tokio::test]
async fn a_key_is_free_for_those_who_come_after_its_release_in_the_batch() {
    let db = TestDb::new().await;
    let store = db.store().await;
    let mut appender = Appender::new(&store);
    let mut commit = async |takes, frees| appender.commit(&bare_batch(takes, frees)).await.unwrap();
    commit(vec![take("k/1", 1, 0)], Vec::new()).await;
    let one = Uuid::from_u128(1);
    // Taken before the release: a conflict; after it: fine; by its own holder: nothing happens.
    let early = commit(vec![take("k/1", 2, 0)], vec![("slot", one)]).await;
    assert_eq!(early, Appended::Taken(vec!["k/1".to_owned()]));
    assert!(matches!(commit(vec![take("k/1", 1, 0)], Vec::new()).await, Appended::Committed { .. }));
    assert!(matches!(commit(vec![take("k/1", 2, 1)], vec![("slot", one)]).await, Appended::Committed { .. }));
    let held = reservations::with_prefix(&store, "k/").await.unwrap();
    assert_eq!(held["k/1"].holder, Uuid::from_u128(2));
}

#[tokio::test]
async fn an_append_is_refused_while_generated_sql_could_run_with_the_owners_rights() {
    let rig = Rig::new().await;
    let superuser = rig.db.superuser().await;
    for (weaken, restore) in
        [("security invoker", "security definer"), ("owner to multica", "owner to multica_app")]
    {
        let function = "rm.apply_inline(text, bigint, bigint, bigint, text, text)";
        superuser.batch_execute(&format!("alter function {function} {weaken}")).await.unwrap();
        let answer = rig.writer.submit(create()).await;
        let Err(AppError::Store(error)) = answer else { panic!("{answer:?}") };
        let StoreError::Sql(error) = error.as_ref() else { panic!("{error:?}") };
        assert_eq!(error.code().unwrap().code(), "MC003");
        superuser.batch_execute(&format!("alter function {function} {restore}")).await.unwrap();
    }
    rig.writer.submit(create()).await.unwrap();
    rig.finish().await;
}

#[tokio::test]
async fn generated_sql_cannot_delete_an_event() {
    let rig = Rig::new().await;
    rig.writer.submit(create()).await.unwrap();
    let evil = "create or replace function rm.apply_inline(p_models text, p_base bigint, p_recorded bigint, \
         p_head bigint, p_marker text, p_changes text) returns void language plpgsql volatile security definer \
         as $$ begin delete from es.events; end $$";
    rig.db.app_client().await.batch_execute(evil).await.unwrap();
    let answer = rig.writer.submit(create()).await;
    assert!(matches!(answer, Err(AppError::Store(_))), "{answer:?}");
    assert_eq!(read::head(&rig.store).await.unwrap(), 1);
    assert_eq!(read::range(&rig.store, 0, 10).await.unwrap().len(), 1);
    multica::readmodel::install::run(&rig.store, &rig.registry).await.unwrap();
    rig.writer.submit(create()).await.unwrap();
    rig.finish().await;
}

#[tokio::test]
async fn the_applications_role_can_change_nothing_in_the_log() {
    let rig = Rig::new().await;
    rig.writer.submit(create()).await.unwrap();
    let app = rig.db.app_client().await;
    let tables = [
        "events",
        "events_p000000",
        "log_blocks",
        "log_head",
        "streams",
        "commands",
        "contents",
        "reservations",
    ];
    for table in tables {
        for statement in [
            format!("delete from es.{table}"),
            format!("truncate es.{table}"),
            format!("insert into es.{table} default values"),
            format!("update es.{table} set log_id = 2"),
        ] {
            let error = app.batch_execute(&statement).await.unwrap_err();
            let code = error.code().unwrap();
            assert_eq!(code, &tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE, "{statement}");
        }
    }
    // Even with the right to, rows of the log refuse to change for all but their owner.
    let superuser = rig.db.superuser().await;
    superuser.batch_execute("grant update, delete on es.events to multica_app").await.unwrap();
    assert!(app.batch_execute("delete from es.events").await.is_err());
    superuser.batch_execute("revoke update, delete on es.events from multica_app").await.unwrap();
    rig.finish().await;
}

#[tokio::test]
async fn the_pool_refuses_a_role_that_owns_the_log() {
    let db = TestDb::new().await;
    let error = Store::open(db.owner.clone(), &limits(), Durability::Waived).await.unwrap_err();
    assert!(matches!(error, StoreError::RoleTooMighty { .. }), "{error:?}");
    db.superuser().await.batch_execute("create role mighty login in role multica").await.unwrap();
    let error = Store::open(db.app.clone(), &limits(), Durability::Required).await.unwrap_err();
    assert_eq!(error.to_string(), "the database runs with fsync = off: acknowledged work could be lost");
}

#[tokio::test]
async fn the_log_grows_past_the_border_of_its_first_partition() {
    let rig = Rig::new().await;
    let superuser = rig.db.superuser().await;
    // As if 999 999 events had been written and archived.
    let far = "update es.log_head set last_seq = 999999; select es.ensure_partitions()";
    superuser.batch_execute(far).await.unwrap();
    for expected in [1_000_000, 1_000_001, 1_000_002] {
        assert_eq!(rig.writer.submit(create()).await.unwrap().position, expected);
    }
    let parts =
        superuser.query("select distinct tableoid::regclass::text from es.events", &[]).await.unwrap();
    assert_eq!(parts.len(), 2);
}

#[tokio::test]
async fn the_database_clock_can_be_moved_in_tests_and_recorded_time_never_runs_backwards() {
    let rig = Rig::new().await;
    let superuser = rig.db.superuser().await;
    let mut times = Vec::new();
    for offset in ["0", "1 hour", "-1 hour"] {
        let moved = format!("update es.clock_offset set by_interval = interval '{offset}'");
        superuser.batch_execute(&moved).await.unwrap();
        rig.writer.submit(create()).await.unwrap();
        times.push(read::range(&rig.store, times.len() as i64, 1).await.unwrap()[0].recorded_at.unwrap());
    }
    assert!(times[1].duration_since(times[0]).as_secs() >= 3_600);
    assert_eq!(times[2], times[1]);
    rig.finish().await;
}

#[tokio::test]
async fn everything_of_one_intent_is_found_by_its_correlation() {
    let rig = Rig::new().await;
    let correlation = CorrelationId(Uuid::now_v7());
    let mut positions = BTreeSet::new();
    for _ in 0..3 {
        let one = multica::app::decision::Submission { correlation, ..create() };
        positions.insert(rig.writer.submit(one).await.unwrap().position);
        rig.writer.submit(create()).await.unwrap();
    }
    let found: Vec<Envelope> = read::by_correlation(&rig.store, correlation).await.unwrap();
    assert_eq!(found.iter().filter_map(|event| event.position).collect::<BTreeSet<_>>(), positions);
    let ids: BTreeSet<EventId> = found.iter().map(|event| event.event_id).collect();
    assert_eq!(ids.len(), 3);
    rig.finish().await;
}
