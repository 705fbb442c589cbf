//! PostgreSQL as our own child: started, reused, killed, restarted, refused.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use multica::app::AppError;
use multica::app::decision::Submission;
use multica::kernel::ids::CommandId;
use multica::process::pg::{self, Stop};
use multica::store::embedded::{DATABASE, Embedded, EmbeddedError, Options};
use multica::store::{Durability, Store, migrate, read, verify};
use uuid::Uuid;

use crate::support::cluster::{options, own_folder};
use crate::support::toy::{self, Create, command_as};
use crate::support::{connect, eventually, limits, writer};

const HOLD: &str = "MULTICA_TEST_HOLD";

/// Also the other process of the next test, which names a folder in the environment and kills it.
#[tokio::test]
async fn a_cluster_starts_and_stops() {
    if let Some(folder) = std::env::var_os(HOLD) {
        let embedded = Embedded::start(options(&PathBuf::from(folder))).await.unwrap();
        println!("\nready {}", embedded.postmaster().unwrap());
        std::future::pending::<()>().await;
    }
    let folder = own_folder("starts");
    let embedded = Embedded::start(options(&folder)).await.unwrap();
    assert!(!embedded.reused());
    let pid = embedded.postmaster().unwrap();
    let client = connect(&embedded.owner_config(DATABASE)).await;
    let row = client
        .query_one(
            "select current_setting('listen_addresses'), current_setting('data_checksums'), \
             (select datcollate || ' ' || datctype from pg_database where datname = current_database()), \
             lower('ÄШ')",
            &[],
        )
        .await
        .unwrap();
    let facts: Vec<String> = (0..4).map(|column| row.get(column)).collect();
    assert_eq!(facts, ["", "on", "C C.UTF-8", "äш"]);
    // Its own session, so that Ctrl-C reaches us, not it.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string());
    if multica::process::account::effective_uid() == 0 {
        assert_ne!(std::fs::metadata(format!("/proc/{pid}")).unwrap().uid(), 0, "never as root");
    }
    embedded.stop().await.unwrap();
    assert_eq!(embedded.postmaster(), None);
}

#[tokio::test]
async fn a_server_outlives_the_kill_of_its_starter_and_is_reused() {
    let folder = own_folder("outlives");
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::embedded::a_cluster_starts_and_stops", "--nocapture"])
        .env(HOLD, &folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).find(|line| line.starts_with("ready ")).unwrap();
    // While it lives nobody else gets the cluster.
    let impatient = Options { lock_patience: Duration::from_millis(50), ..options(&folder) };
    let error = Embedded::start(impatient).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::InUse { .. }), "{error:?}");
    other.kill().unwrap();
    other.wait().unwrap();
    let embedded = Embedded::start(options(&folder)).await.unwrap();
    assert!(embedded.reused());
    assert_eq!(ready, format!("ready {}", embedded.postmaster().unwrap()));
    embedded.stop().await.unwrap();
}

#[tokio::test]
async fn of_two_starters_at_once_one_gets_the_cluster_and_the_other_is_told() {
    let folder = own_folder("two");
    let quick = Options { lock_patience: Duration::from_millis(100), ..options(&folder) };
    let (a, b) = tokio::join!(Embedded::start(quick.clone()), Embedded::start(quick));
    let (won, lost) = match (a, b) {
        (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
        other => panic!("{other:?}"),
    };
    assert!(matches!(lost, EmbeddedError::InUse { .. }), "{lost:?}");
    assert!(lost.next_step().contains("Stop the other one"));
    won.stop().await.unwrap();
}

#[tokio::test]
async fn what_a_killed_initdb_left_is_cleared_away() {
    let folder = own_folder("initdb");
    let left = folder.join("pg/data.new");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("PG_VERSION"), "15\n").unwrap();
    let embedded = Embedded::start(options(&folder)).await.unwrap();
    assert!(!left.exists());
    embedded.stop().await.unwrap();
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_gets_a_short_one() {
    let folder = own_folder("long").join("x".repeat(120));
    let embedded = Embedded::start(options(&folder)).await.unwrap();
    assert!(embedded.socket_folder().starts_with("/tmp/"));
    connect(&embedded.owner_config(DATABASE)).await;
    embedded.stop().await.unwrap();
    std::fs::remove_dir_all(embedded.socket_folder()).unwrap();
}

#[tokio::test]
async fn a_folder_without_a_server_is_refused_with_what_to_do() {
    let folder = own_folder("none");
    let nowhere = Options { bin: Some(folder.clone()), ..options(&folder) };
    let error = Embedded::start(nowhere).await.unwrap_err();
    assert!(matches!(error, EmbeddedError::NotAServer { .. }), "{error:?}");
    assert!(error.next_step().contains("MULTICA_PG_BIN"));
}

#[tokio::test]
async fn a_place_that_the_account_cannot_reach_is_refused_by_name() {
    let folder = own_folder("private");
    let private = folder.join("private");
    std::fs::create_dir(&private).unwrap();
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o700)).unwrap();
    let started = Embedded::start(options(&private.join("data"))).await;
    if multica::process::account::effective_uid() == 0 {
        let error = started.unwrap_err();
        assert!(matches!(&error, EmbeddedError::NotWalkable { folder, .. } if *folder == private));
    } else {
        // One's own folder is no obstacle.
        started.unwrap().stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_cluster_that_gives_up_durability_is_refused() {
    let folder = own_folder("fsync");
    let embedded = Embedded::start(options(&folder)).await.unwrap();
    migrate::run(&embedded.owner_config(DATABASE), multica::kernel::limits::Limits::default().database_wait)
        .await
        .unwrap();
    let app = embedded.app_config(DATABASE);
    let error = Store::open(app.clone(), &limits(), Durability::Required).await.unwrap_err();
    assert!(error.next_step().unwrap().contains("fsync"));
    Store::open(app, &limits(), Durability::Waived).await.unwrap();
    embedded.stop().await.unwrap();
    drop(embedded);
    let durable = Options { durable: true, ..options(&folder) };
    let embedded = Embedded::start(durable).await.unwrap();
    let store = Store::open(embedded.app_config(DATABASE), &limits(), Durability::Required).await.unwrap();
    assert_eq!(read::head(&store).await.unwrap(), 0);
    embedded.stop().await.unwrap();
}

/// Sends one command until it is answered, as every client of ours does.
async fn insist(writer: &multica::app::writer::Writer, command: impl Fn() -> Submission) -> i64 {
    loop {
        match writer.submit(command()).await {
            Ok(done) => return done.position,
            Err(AppError::Unavailable { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_every_end_of_postgres_under_load() {
    let folder = own_folder("killed");
    let durable = Options { durable: true, ..options(&folder) };
    let embedded = Arc::new(Embedded::start(durable).await.unwrap());
    migrate::run(&embedded.owner_config(DATABASE), multica::kernel::limits::Limits::default().database_wait)
        .await
        .unwrap();
    let store = Store::open(embedded.app_config(DATABASE), &limits(), Durability::Required).await.unwrap();
    let registry = Arc::new(toy::registry());
    multica::readmodel::install::run(&store, &registry).await.unwrap();
    let writer = writer(&store, &registry);
    let watching = tokio::spawn({
        let embedded = Arc::clone(&embedded);
        async move { embedded.watch().await }
    });
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let writer = writer.clone();
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for _ in 0..150 {
                    let (id, project) = (CommandId(Uuid::now_v7()), Uuid::now_v7());
                    let create = || command_as(id, [1; 16], Create { project, title: String::new() });
                    acknowledged.push((project, insist(&writer, create).await));
                }
                acknowledged
            })
        })
        .collect();
    // As a crash ends it, an impatient operator and a patient one.
    for (kill, how) in (1..).zip([Stop::Kill, Stop::Immediate, Stop::Fast]) {
        let head = store.head();
        eventually(Duration::from_secs(60), || async { *head.borrow() > kill * 100 }).await;
        let pid = embedded.postmaster().unwrap();
        pg::stop(pid, how).unwrap();
        eventually(Duration::from_secs(60), || async { embedded.postmaster().is_some_and(|now| now != pid) })
            .await;
    }
    let mut acknowledged = Vec::new();
    for client in clients {
        acknowledged.extend(client.await.unwrap());
    }
    let events = read::range(&store, 0, 10_000).await.unwrap();
    let mut stored: Vec<_> = events.iter().map(|e| (e.stream.id, e.position.unwrap())).collect();
    stored.sort_unstable();
    acknowledged.sort_unstable();
    assert_eq!(acknowledged, stored, "each once, at the position that was answered");
    assert_eq!(verify::run(&store).await.unwrap().findings, []);
    assert_eq!(multica::readmodel::verify::all(&store, &registry).await.unwrap(), []);
    watching.abort();
    embedded.stop().await.unwrap();
}
