//! The order of the log, proved with real processes: several servers, a standby, kills, idle transactions.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use multica::app::AppError;
use multica::domain::{Family, StreamKey};
use multica::kernel::limits::{Limits, Millis};
use multica::store::embedded::{DATABASE, Embedded};
use multica::store::{Durability, Store, listen, migrate, read, verify};
use tokio_postgres::Config;
use uuid::Uuid;

use crate::support::cluster::{options, own_folder};
use crate::support::toy::{self, Create, SetStatus, command};
use crate::support::{Rig, connect, eventually, limits, writer};

/// Names the socket's folder and a project that all write to.
const WORK: &str = "MULTICA_TEST_WRITER";
/// Commands of one writer on projects of its own.
const EACH: usize = 60;
const PATIENCE: Duration = Duration::from_secs(60);

/// Also the other processes of the next test: two writers on the database that the environment names, which
/// say what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_process_says_what_was_acknowledged() {
    let Ok(work) = std::env::var(WORK) else {
        let rig = Rig::new().await;
        let mut said = Vec::new();
        let shared = Uuid::now_v7();
        rig.writer.submit(command(Create { project: shared, title: String::new() })).await.unwrap();
        work_at(&rig.store, shared, 2, |line| said.push(line)).await;
        assert_eq!(said.len(), 4);
        return rig.finish().await;
    };
    let (socket, shared) = work.split_once(' ').unwrap();
    let mut config = Config::new();
    config.host_path(socket).user("multica_app").dbname(DATABASE);
    let store = Store::open(config, &limits(), Durability::Waived).await.unwrap();
    work_at(&store, shared.parse().unwrap(), EACH, |line| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
    })
    .await;
}

/// Two writers, each with projects of its own and now and then one that all want.
async fn work_at(store: &Store, shared: Uuid, each: usize, mut say: impl FnMut(String)) {
    let registry = Arc::new(toy::registry());
    let writers = [writer(store, &registry), writer(store, &registry)];
    for round in 0..each {
        let done = join_all(writers.iter().map(|writer| async move {
            let project = Uuid::now_v7();
            let created = writer.submit(command(Create { project, title: String::new() }));
            let status = project.to_string();
            let contended = writer.submit(command(SetStatus { project: shared, status }));
            let (created, contended) = tokio::join!(created, contended);
            assert!(matches!(contended, Ok(_) | Err(AppError::Conflict)), "{round}: {contended:?}");
            (project, created.unwrap().position)
        }))
        .await;
        for (project, position) in done {
            say(format!("acknowledged {project} {position}"));
        }
    }
}

fn process(socket: &Path, shared: Uuid) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::proof::a_server_process_says_what_was_acknowledged", "--nocapture"])
        .env(WORK, format!("{} {shared}", socket.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What a process says was acknowledged; killed after so many lines where that is said.
fn acknowledged(mut child: Child, kill_after: Option<usize>) -> Vec<(Uuid, i64)> {
    let mut found = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        // The test's own first line stands before ours where it isn't ended.
        let Some((_, said)) = line.split_once("acknowledged ") else { continue };
        let Some((project, position)) = said.split_once(' ') else { continue };
        if let (Ok(project), Ok(position)) = (project.parse(), position.parse()) {
            found.push((project, position));
        }
        if kill_after == Some(found.len()) {
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert_eq!(status.success(), kill_after.is_none());
    found
}

/// A copy of the primary that follows it.
async fn standby_of(primary: &Embedded, data: &Path) -> Embedded {
    let access = data.join("pg_hba.conf");
    let allowed = std::fs::read_to_string(&access).unwrap() + "local replication multica peer map=multica\n";
    std::fs::write(&access, allowed).unwrap();
    let admin = connect(&primary.owner_config("postgres")).await;
    admin.batch_execute("select pg_reload_conf()").await.unwrap();
    let folder = own_folder("standby");
    let (account, root) = (std::fs::metadata(data).unwrap(), folder.join("pg"));
    std::fs::create_dir(&root).unwrap();
    let postgres = std::fs::read_link(format!("/proc/{}/exe", primary.postmaster().unwrap())).unwrap();
    let mut copy = Command::new(postgres.with_file_name("pg_basebackup"));
    copy.arg("-D").arg(root.join("data")).arg("-h").arg(primary.socket_folder());
    copy.args(["-U", "multica", "-R", "-X", "stream", "--checkpoint=fast", "--no-sync"]).current_dir("/");
    if multica::process::account::effective_uid() == 0 {
        chown(&root, Some(account.uid()), Some(account.gid())).unwrap();
        copy.uid(account.uid()).gid(account.gid());
    }
    // The server takes its new rules a moment after the signal.
    let mut last = None;
    eventually(PATIENCE, || {
        let output = copy.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let done = output.status.success();
        last = Some(said.clone());
        async move { if done { Ok(()) } else { Err(said) } }
    })
    .await;
    drop(last);
    Embedded::start(options(&folder)).await.unwrap()
}

/// Reads as fast as it can until `end` is said and reached; a hole is an error of the read itself.
async fn read_tightly(store: Store, mut end: tokio::sync::watch::Receiver<i64>) -> Vec<(Uuid, i64)> {
    let mut seen = Vec::new();
    let mut position = 0;
    loop {
        let before = *end.borrow_and_update();
        for event in read::range(&store, position, 1_000).await.unwrap() {
            assert_eq!(event.position, Some(position + 1));
            position += 1;
            if event.version == 1 {
                seen.push((event.stream.id, position));
            }
        }
        if before > 0 && position >= before {
            return seen;
        }
        tokio::task::yield_now().await;
    }
}

/// The order of the log (see `store::append`): four writers in two processes, one of which is killed on the way
/// and started again; a tight reader on the primary and one on a streaming standby; and all the while
/// somebody idle in a transaction in another database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_dense_on_primary_and_standby_whoever_writes_dies_or_idles() {
    let folder = own_folder("proof");
    let primary = Embedded::start(options(&folder)).await.unwrap();
    migrate::run(&primary.owner_config(DATABASE), Limits::default().database_wait).await.unwrap();
    let store = Store::open(primary.app_config(DATABASE), &limits(), Durability::Waived).await.unwrap();
    let registry = Arc::new(toy::registry());
    multica::readmodel::install::run(&store, &registry).await.unwrap();
    let shared = Uuid::now_v7();
    let first = writer(&store, &registry);
    first.submit(command(Create { project: shared, title: String::new() })).await.unwrap();
    let standby = standby_of(&primary, &folder.join("pg/data")).await;
    let replica = Store::open(standby.app_config(DATABASE), &limits(), Durability::Waived).await.unwrap();
    // It has written and does not end: a reader that waits for all that are older would wait for it.
    let idle = connect(&primary.owner_config("postgres")).await;
    idle.batch_execute("begin; create table idles ()").await.unwrap();
    let (end, _) = tokio::sync::watch::channel(0);
    let readers: Vec<_> =
        [&store, &replica].map(|s| tokio::spawn(read_tightly(s.clone(), end.subscribe()))).into();
    let socket: PathBuf = primary.socket_folder().to_owned();
    let processes = [Some(EACH / 2), None, None].map(|kill_after| {
        let socket = socket.clone();
        move || acknowledged(process(&socket, shared), kill_after)
    });
    let [killed, lives, again] = processes;
    let one = tokio::task::spawn_blocking(move || [killed(), again()].concat());
    let other = tokio::task::spawn_blocking(lives);
    let mut all = vec![(shared, 1)];
    all.extend(one.await.unwrap());
    all.extend(other.await.unwrap());
    assert_eq!(all.len(), 1 + EACH / 2 + 4 * EACH);
    end.send_replace(read::head(&store).await.unwrap());
    let by_reader = join_all(readers).await;
    let [on_primary, on_standby] = by_reader.as_slice() else { panic!("two readers") };
    let (on_primary, on_standby) = (on_primary.as_ref().unwrap(), on_standby.as_ref().unwrap());
    assert_eq!(on_primary, on_standby);
    for acknowledged in &all {
        assert!(on_primary.contains(acknowledged), "{acknowledged:?} was acknowledged");
    }
    idle.batch_execute("rollback").await.unwrap();
    for store in [&store, &replica] {
        assert_eq!(verify::run(store).await.unwrap().findings, []);
    }
    // A comparison with the log writes its own rebuild, which a standby can't: it has the primary's very rows.
    assert_eq!(multica::readmodel::verify::all(&store, &registry).await.unwrap(), []);
    let here = read_model_rows(&store).await;
    assert!(here.iter().any(|(_, rows)| !rows.is_empty()), "{here:?}");
    eventually(PATIENCE, || async { read_model_rows(&replica).await == here }).await;
    standby.stop().await.unwrap();
    primary.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_notifications_another_server_has_the_whole_log_by_asking() {
    let rig = Rig::new().await;
    let asks = Limits { head_poll: Millis(20), ..limits() };
    let other = rig.db.store_with(&asks).await;
    // Only the process that writes would notify, and nothing in it does.
    let tasks = [
        tokio::spawn(listen::run(other.clone())),
        tokio::spawn(multica::readmodel::follower::run(
            other.clone(),
            Arc::clone(&rig.registry),
            Uuid::now_v7(),
        )),
    ];
    let mut last = 0;
    for _ in 0..30 {
        last = rig.writer.submit(toy::create()).await.unwrap().position;
    }
    let mut head = other.head();
    tokio::time::timeout(PATIENCE, head.wait_for(|head| *head >= last)).await.unwrap().unwrap();
    let feed = rig.registry.get("toy_feed").unwrap();
    multica::readmodel::query::at_least(&other, feed, last).await.unwrap();
    let rows = multica::readmodel::query::of_workspace(&other, feed, toy::WORKSPACE).await.unwrap();
    assert_eq!(rows.len(), 30);
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    rig.finish().await;
}

#[tokio::test]
async fn who_waits_for_the_head_row_sees_what_the_one_before_has_written() {
    let rig = Rig::new().await;
    let project = Uuid::now_v7();
    rig.writer.submit(command(Create { project, title: String::new() })).await.unwrap();
    let (holder, watcher) = (rig.db.superuser().await, rig.db.superuser().await);
    holder.batch_execute("begin; select from es.log_head for update").await.unwrap();
    let waits = tokio::spawn({
        let writer = rig.writer.clone();
        async move { writer.submit(command(SetStatus { project, status: "late".to_owned() })).await }
    });
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' \
                   and datname = current_database() and usename = 'multica_app'";
    eventually(PATIENCE, || async { watcher.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 1 })
        .await;
    // As a server would that has the lock: the version that the waiting one saw isn't the last any more.
    let moved = "update es.streams set version = 2; update es.log_head set last_seq = last_seq; commit; \
                 update es.streams set version = 1";
    let (first, last) = moved.split_once("commit;").unwrap();
    holder.batch_execute(&format!("{first}commit")).await.unwrap();
    // It sees the other version and writes nothing, as often as it tries.
    let answer = tokio::time::timeout(PATIENCE, waits).await.unwrap().unwrap();
    assert!(answer.is_err(), "{answer:?}");
    holder.batch_execute(last).await.unwrap();
    assert_eq!(read::stream(&rig.store, StreamKey::new(Family::Project, project)).await.unwrap().len(), 1);
    rig.writer.submit(command(SetStatus { project, status: "now".to_owned() })).await.unwrap();
    rig.finish().await;
}

/// A digest of each read model's rows; empty for one without any.
async fn read_model_rows(store: &Store) -> Vec<(String, String)> {
    let client = store.client().await.unwrap();
    let tables = "select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace \
                  where n.nspname = 'rm' and c.relkind = 'r' order by 1";
    let mut digests = Vec::new();
    for table in client.query(tables, &[]).await.unwrap() {
        let name: String = table.get(0);
        let digest = format!(
            "select coalesce(md5(string_agg(t::text, '|' order by t::text)), '') from rm.\"{name}\" t"
        );
        digests.push((name, client.query_one(&digest, &[]).await.unwrap().get(0)));
    }
    digests
}
