//! The live feed.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;

use super::client::{Scene, Served};

struct Stream {
    lines: Lines<BufReader<TcpStream>>,
}

struct Frame {
    id: i64,
    event: String,
    data: Value,
}

impl Stream {
    async fn open(served: &Served, path: &str, more: &str) -> Self {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nAuthorization: Bearer {}\r\n{more}\r\n",
            served.address, served.token
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { lines: BufReader::new(stream).lines() }
    }

    /// The next frame; none when the stream has ended.
    async fn next(&mut self) -> Option<Frame> {
        let mut frame = Frame { id: 0, event: String::new(), data: Value::Null };
        loop {
            let line = tokio::time::timeout(Duration::from_secs(10), self.lines.next_line()).await.unwrap();
            let line = line.ok()??;
            if let Some(id) = line.strip_prefix("id: ") {
                frame.id = id.parse().unwrap();
            } else if let Some(event) = line.strip_prefix("event: ") {
                frame.event = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                frame.data = serde_json::from_str(data).unwrap();
            } else if line.is_empty() && !frame.event.is_empty() {
                return Some(frame);
            }
        }
    }

    async fn entry(&mut self) -> Frame {
        loop {
            let frame = self.next().await.unwrap();
            if frame.event == "entry" {
                return frame;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_resumes_misses_nothing_and_sees_nothing_twice() {
    let scene = Scene::new().await;
    let all = scene.served.get("/api/feed?after=0&limit=1000").await.is(200);
    let known: Vec<i64> =
        all["entries"].as_array().unwrap().iter().map(|entry| entry["position"].as_i64().unwrap()).collect();
    assert!(known.len() > 5);
    let mut stream = Stream::open(&scene.served, "/api/feed?after=0", "").await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(stream.entry().await.id);
    }
    drop(stream);
    // Last-Event-ID beats ?after=.
    let resume = format!("Last-Event-ID: {}\r\n", seen[2]);
    let mut stream = Stream::open(&scene.served, "/api/feed?after=0", &resume).await;
    while seen.len() < known.len() {
        seen.push(stream.entry().await.id);
    }
    assert_eq!(seen, known);
    scene.issue("Live").await;
    let live = stream.entry().await;
    assert_eq!(live.data["type"], "issue.created");
    assert_eq!(live.data["position"], live.id);
    assert_eq!(live.data["actor"]["name"], "Ada");
    assert!(live.data["text"].as_str().unwrap().contains("LOCA-1"), "{}", live.data["text"]);
    scene.served.shutdown.cancel();
    while stream.next().await.is_some() {}
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_filter_hides_shows_as_positions() {
    let scene = Scene::new().await;
    let mut stream = Stream::open(&scene.served, "/api/feed?after=0&type=task.claimed", "").await;
    scene.issue("One").await;
    let head = scene.served.get("/api/feed?after=0&limit=1").await.is(200)["head"].as_i64().unwrap();
    loop {
        let frame = stream.next().await.unwrap();
        assert_eq!(frame.event, "position");
        assert_eq!(frame.data["position"], frame.id);
        if frame.id >= head {
            break;
        }
    }
    let claimed = scene.claim(1).await;
    let entry = stream.entry().await;
    assert_eq!(entry.data["type"], "task.claimed");
    assert_eq!(entry.data["stream"]["id"], claimed[0]["id"]);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_that_is_none_is_a_problem() {
    let served = Served::new().await;
    let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", "x")];
    let answer = served.send(&served.token, "GET", "/api/feed", None, &headers).await;
    assert_eq!(answer.problem(400), "invalid_field");
    let page = served.get("/api/feed?limit=2").await.is(200);
    assert_eq!(page["entries"].as_array().unwrap().len(), 2);
    assert_eq!(page["position"], page["entries"][1]["position"]);
    served.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_are_asked_for_without_knowing_where_the_log_ends() {
    let scene = Scene::new().await;
    let all = scene.served.get("/api/feed?after=0&limit=1000").await.is(200);
    let all = all["entries"].as_array().unwrap();
    for last in [0, 1, 3, 1000] {
        let page = scene.served.get(&format!("/api/feed?last={last}")).await.is(200);
        let newest = &all[all.len().saturating_sub(last)..];
        assert_eq!(page["entries"].as_array().unwrap(), newest, "{last}");
        assert_eq!(page["position"], page["head"]);
    }
    let of_type = scene.served.get("/api/feed?last=1&type=daemon.registered").await.is(200);
    assert_eq!(of_type["entries"][0]["type"], "daemon.registered");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verb_shows_the_newest_all_of_it_or_what_came_after() {
    let scene = Scene::new().await;
    let all = scene.served.get("/api/feed?after=0&limit=1000").await.is(200);
    let all: Vec<String> = all["entries"].as_array().unwrap().iter().map(Value::to_string).collect();
    let feed = async |words: &[&str]| {
        let words = [&["feed", "--output", "json"], words].concat();
        let text = scene.served.cli(&words).await;
        text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(feed(&["--limit", "3"]).await, all[all.len() - 3..]);
    assert_eq!(feed(&["--all"]).await, all);
    let after = serde_json::from_str::<Value>(&all[1]).unwrap()["position"].to_string();
    assert_eq!(feed(&["--after", &after, "--limit", "2"]).await, all[2..4]);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_newer_build_wrote_is_named_everywhere_and_breaks_nothing() {
    let scene = Scene::new().await;
    let (task, _) = scene.running("One").await;
    let superuser = scene.served.db.superuser().await;
    // A server that starts on such a log has nothing of it in memory.
    let sql = format!(
        "update es.events set event_type = 'task.danced', schema_version = 7 \
         where stream_id = '{task}' and event_type = 'task.started'"
    );
    assert_eq!(superuser.execute(&sql, &[]).await.unwrap(), 1);
    let mut stream = Stream::open(&scene.served, "/api/feed?after=0", "").await;
    let danced = loop {
        let entry = stream.entry().await;
        if entry.data["type"] == "task.danced" {
            break entry.data;
        }
    };
    let said = "did something with LOCA-1#1 that only a newer version of the program can tell (task.danced, version 7)";
    assert!(danced["text"].as_str().unwrap().ends_with(said), "{danced:#}");
    // The stream goes on.
    let other = scene.issue("Two").await;
    let queued = loop {
        let entry = stream.entry().await;
        if entry.data["type"] == "task.queued" && entry.data["stream"]["id"] == other.as_str() {
            break entry.id;
        }
    };
    assert!(queued > danced["position"].as_i64().unwrap());
    let served = &scene.served;
    for path in [
        "/api/feed?after=0&limit=1000".to_owned(),
        format!("/api/feed?after=0&limit=1000&task={task}"),
        format!("/api/tasks/{task}/history"),
        "/api/audit?limit=1000".to_owned(),
        "/".to_owned(),
    ] {
        let told = served.get(&path).await.is(200).to_string();
        assert!(told.contains("(task.danced, version 7)"), "{path}: {told}");
    }
    // Nothing is made up about the task itself, and the others are listed.
    let listed = served.get("/api/tasks").await;
    assert_eq!(listed.header("x-multica-left-out"), Some(format!("task/{task}").as_str()));
    assert!(listed.is(200).to_string().contains(&other));
    let page = served.get("/tasks").await.is(200).to_string();
    assert!(page.contains("One thing is missing here"), "{page}");
    let shown = served.get(&format!("/api/tasks/{task}")).await;
    assert_eq!(shown.problem(500), "log_damaged");
    assert!(shown.body.to_string().contains("task.danced, version 7, at position"), "{}", shown.body);
    let shown = served.get(&format!("/tasks/{task}")).await;
    assert!(shown.body.to_string().contains("task.danced, version 7"), "{}", shown.body);
    let sick = served.cli_fails(&["doctor"]).await;
    assert!(sick.contains("events of a newer version of the program"), "{sick}");
    let mend = "update es.events set event_type = 'task.started', schema_version = 1 where event_type = 'task.danced'";
    superuser.batch_execute(mend).await.unwrap();
    drop(stream);
    // What was passed by while it was unknown is there once the read models are rebuilt.
    served.cli(&["projections", "rebuild", "--all"]).await;
    scene.finish().await;
}
