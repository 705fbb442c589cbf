//! A database that answers that it can't: it is said by name, with what helps, and is over when it is over.

use std::time::{Duration, Instant};

use multica::kernel::limits::{Limits, Millis};
use serde_json::json;

use super::client::{Served, limits};
use crate::support::eventually;

/// Every append fails with that state.
async fn fail_appends(served: &Served, state: &str) {
    let sql = format!(
        "create or replace function es.cannot() returns trigger language plpgsql as $$ \
         begin raise exception 'could not extend file' using errcode = '{state}'; end $$; \
         create or replace trigger cannot before insert on es.log_blocks for each row execute function es.cannot()"
    );
    served.db.superuser().await.batch_execute(&sql).await.unwrap();
}

async fn mend(served: &Served) {
    let sql = "drop trigger cannot on es.log_blocks; drop function es.cannot()";
    served.db.superuser().await.batch_execute(sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_and_its_kind_are_named_and_the_same_request_works_afterwards() {
    let served = Served::with(Limits { database_wait: Millis(700), ..limits() }).await;
    let body = json!({"title": "A"});
    for (state, code, sentence, again) in [
        ("53100", "database_disk_full", "the disk of the database is full", "30"),
        ("53200", "database_out_of_memory", "the database is out of memory", "1"),
        ("53300", "database_connections_exhausted", "the database has no connection left", "1"),
        ("53000", "database_out_of_resources", "the database is out of resources", "1"),
        ("57P03", "database_starting", "the database is starting", "1"),
        ("25006", "database_read_only", "the database takes no writes: it is read-only", "30"),
    ] {
        fail_appends(&served, state).await;
        let asked = Instant::now();
        let answer = served.keyed("once", "/api/projects", &body).await;
        assert_eq!(answer.problem(503), code);
        assert_eq!(answer.body["error"], sentence);
        assert_eq!(answer.header("retry-after"), Some(again), "{code}");
        // What somebody has to mend isn't waited for, and holds up no other command.
        let waited = asked.elapsed() >= Duration::from_millis(700);
        assert_eq!(waited, again == "1", "{code} after {:?}", asked.elapsed());
        mend(&served).await;
    }
    served.keyed("once", "/api/projects", &body).await.is(201);
    assert_eq!(served.get("/api/projects").await.is(200)["total"], 1);
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_a_read_only_time_do_not_outlive_it_for_long() {
    let served = Served::with(Limits { connection_age: Millis(300), ..limits() }).await;
    let superuser = served.db.superuser().await;
    let database: String = superuser.query_one("select current_database()", &[]).await.unwrap().get(0);
    let everyone_anew = "select pg_terminate_backend(pid) from pg_stat_activity \
                         where datname = current_database() and usename = 'multica_app'";
    let set = format!("alter database {database} set default_transaction_read_only = on");
    superuser.batch_execute(&set).await.unwrap();
    superuser.batch_execute(everyone_anew).await.unwrap();
    let body = json!({"title": "A"});
    eventually(Duration::from_secs(10), || async {
        let answer = served.post("/api/projects", &body).await;
        (answer.body["code"] == "database_read_only").then_some(()).ok_or_else(|| answer.body.to_string())
    })
    .await;
    // A superuser of before isn't read-only: it takes the setting back, and nobody else is told.
    superuser
        .batch_execute(&format!("alter database {database} reset default_transaction_read_only"))
        .await
        .unwrap();
    // A heartbeat goes through the pool, whose connections began read-only.
    let register = super::client::registration(
        &served,
        multica::kernel::ids::MachineId::from_machine_file("test"),
        uuid::Uuid::now_v7(),
    );
    eventually(Duration::from_secs(10), || async {
        let answer = served.post("/api/daemon/register", &register).await;
        (answer.status == 200).then_some(()).ok_or_else(|| answer.body.to_string())
    })
    .await;
    served.finish().await;
}
