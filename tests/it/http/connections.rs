//! How long a connection may ask, how long an answer may take, and what becomes of a client that leaves.

use std::time::Duration;

use multica::kernel::limits::{Limits, Millis};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{Scene, Served, limits};
use crate::support::eventually;
use crate::support::waiting::pace;

const PATIENCE: Duration = Duration::from_secs(10);

/// Reads until the server closes; what it said before.
async fn until_closed(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await;
    // A reset is an end, too.
    drop(read.expect("the server closes the connection"));
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_never_finishes_asking_is_closed() {
    let served = Served::with(Limits { header_read: Millis(200), ..limits() }).await;
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    assert_eq!(until_closed(&mut silent).await, "");
    let mut half = TcpStream::connect(served.address).await.unwrap();
    half.write_all(b"GET /health HTTP/1.1\r\nHost: ").await.unwrap();
    until_closed(&mut half).await;
    // Each byte that comes doesn't begin the time anew.
    let mut trickling = TcpStream::connect(served.address).await.unwrap();
    trickling.write_all(b"GET /health HTTP/1.1\r\nX-Long: ").await.unwrap();
    let mut drops = 0;
    while trickling.write_all(b"x").await.is_ok() {
        drops += 1;
        assert!(drops < 500, "it trickles on and on");
        pace(Duration::from_millis(20)).await;
    }
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_never_comes_whole_is_its_sender_s_fault() {
    let served = Served::with(Limits { body_read: Millis(200), ..limits() }).await;
    let mut half = TcpStream::connect(served.address).await.unwrap();
    let ask = format!(
        "POST /api/issues HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"title\":",
        served.address, served.token
    );
    half.write_all(ask.as_bytes()).await.unwrap();
    let said = until_closed(&mut half).await;
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("body_too_slow"), "{said}");
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_kept_between_requests_and_closed_when_no_more_come() {
    let served = Served::with(Limits { header_read: Millis(400), ..limits() }).await;
    let mut kept = TcpStream::connect(served.address).await.unwrap();
    let ask = format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
    for _ in 0..3 {
        kept.write_all(ask.as_bytes()).await.unwrap();
        let mut some = [0; 1024];
        let read = kept.read(&mut some).await.unwrap();
        assert!(some[..read].starts_with(b"HTTP/1.1 200"));
    }
    assert_eq!(until_closed(&mut kept).await, "");
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_may_take_longer_than_the_asking() {
    let short = Limits { header_read: Millis(100), claim_poll: Millis(500), ..limits() };
    let scene = Scene::on(Served::with(short).await).await;
    let poll = json!({"daemon_id": super::client::DAEMON, "runtime_ids": [scene.runtime], "max_tasks": 1,
        "incarnation": scene.incarnation, "wait_ms": 500});
    let asked = std::time::Instant::now();
    let polled = scene.served.post("/api/daemon/tasks/claim", &poll).await.is(200);
    assert_eq!(polled["tasks"], json!([]));
    assert!(asked.elapsed() >= Duration::from_millis(500), "the poll waited its time");
    // The feed's keep-alive comes every 300 ms: three of them are far beyond the limit.
    let mut feed = TcpStream::connect(scene.served.address).await.unwrap();
    let head = format!(
        "GET /api/feed?type=task.claimed HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\n\
         Authorization: Bearer {}\r\n\r\n",
        scene.served.address, scene.served.token
    );
    feed.write_all(head.as_bytes()).await.unwrap();
    let mut said = String::new();
    while said.matches("event: position").count() < 3 {
        let mut some = [0; 4096];
        let read = tokio::time::timeout(PATIENCE, feed.read(&mut some)).await.unwrap().unwrap();
        assert!(read > 0, "the feed was cut: {said}");
        said.push_str(&String::from_utf8_lossy(&some[..read]));
    }
    drop(feed);
    scene.served.finish().await;
}

/// How many connections wait to read the log's blocks, which only a verification does.
async fn walkers(watcher: &tokio_postgres::Client) -> i64 {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() \
               and wait_event_type = 'Lock' and query like '%prev_hash, hash, recorded_at%'";
    watcher.query_one(sql, &[]).await.unwrap().get(0)
}

const LOCK: &str = "begin; lock table es.log_blocks in access exclusive mode";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_takes_as_long_as_it_takes_while_others_are_bounded() {
    let short = Limits { http_timeout: Millis(400), ..limits() };
    let served = Served::with(short).await;
    let (locker, watcher) = (served.db.superuser().await, served.db.superuser().await);
    locker.batch_execute(LOCK).await.unwrap();
    let nothing = json!({});
    let verifying = served.post("/api/verify", &nothing);
    let meanwhile = async {
        eventually(PATIENCE, || async { walkers(&watcher).await == 1 }).await;
        let bounded = served.post("/api/projects", &json!({"title": "Waits"})).await;
        assert_eq!(bounded.problem(503), "timed_out");
        locker.batch_execute("commit").await.unwrap();
    };
    let (verified, ()) = tokio::join!(verifying, meanwhile);
    assert_eq!(verified.is(200)["findings"], json!([]));
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verification_has_a_bound_of_its_own() {
    let served = Served::with(Limits { slow_request: Millis(300), ..limits() }).await;
    let locker = served.db.superuser().await;
    locker.batch_execute(LOCK).await.unwrap();
    assert_eq!(served.post("/api/verify", &json!({})).await.problem(503), "timed_out");
    locker.batch_execute("commit").await.unwrap();
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_ends_the_verification_and_its_statement() {
    let served = Served::new().await;
    let (locker, watcher) = (served.db.superuser().await, served.db.superuser().await);
    locker.batch_execute(LOCK).await.unwrap();
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "POST /api/verify HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: 2\r\n\r\n{{}}",
        served.address, served.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    eventually(PATIENCE, || async { walkers(&watcher).await == 1 }).await;
    drop(stream);
    eventually(PATIENCE, || async { walkers(&watcher).await == 0 }).await;
    locker.batch_execute("commit").await.unwrap();
    served.finish().await;
}
