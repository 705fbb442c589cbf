//! Webhooks: what a real receiver gets, whatever it does.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use multica::kernel::limits::{Limits, Millis};
use multica::webhook::address::Allowed;
use serde_json::{Value, json};

use super::client::{Scene, Served, limits};
use crate::support::eventually;
use crate::support::receiver::{Got, Receiver, Reply};

pub(super) const SOON: Duration = Duration::from_secs(20);

/// Waits that a test can see the end of.
pub(super) fn quick() -> Limits {
    Limits {
        webhook_retries: vec![Millis(40), Millis(40), Millis(40)],
        webhook_pause: Millis(10),
        head_poll: Millis(50),
        webhook_timeout: Millis(2_000),
        ..limits()
    }
}

/// One whose waits never end a delivery by themselves.
pub(super) fn patient() -> Limits {
    Limits { webhook_retries: vec![Millis(40); 1_000], ..quick() }
}

pub(super) async fn hook(served: &Served, receiver: &Receiver, types: &[&str]) -> Value {
    let body = json!({"name": "chat", "url": receiver.url(), "types": types});
    served.post("/api/webhooks", &body).await.is(201)
}

pub(super) async fn shown(served: &Served) -> Value {
    served.get("/api/webhooks/chat").await.is(200)
}

/// The positions of the workspace's events behind one, those of webhooks aside.
async fn happened(served: &Served, after: i64) -> Vec<i64> {
    let feed = served.get(&format!("/api/feed?after={after}&limit=1000")).await.is(200);
    let entries = feed["entries"].as_array().unwrap().iter();
    let others = entries.filter(|entry| !entry["type"].as_str().unwrap().starts_with("webhook."));
    let mut positions: Vec<i64> = others.map(|entry| entry["position"].as_i64().unwrap()).collect();
    positions.sort_unstable();
    positions
}

/// Waits until nothing waits any more, and all of the log was gone through.
pub(super) async fn settled(served: &Served) {
    eventually(SOON, || async {
        let shown = shown(served).await;
        let progress = &shown["progress"];
        let head = *served.app.store.head().borrow();
        let done =
            progress["waiting"] == 0 && progress["position"] == head && progress["replays"] == json!([]);
        if done { Ok(()) } else { Err(format!("{shown:#} at {head}")) }
    })
    .await;
}

/// What was taken: of each delivery its first coming.
fn firsts(got: &[Got]) -> Vec<i64> {
    let mut seen = BTreeSet::new();
    let mut positions: Vec<i64> = got.iter().filter(|one| seen.insert(one.id())).map(Got::position).collect();
    positions.sort_unstable();
    positions
}

/// Within each stream, nothing came before what happened before it, but for repeats.
fn assert_ordered(got: &[Got]) {
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    for one in got {
        let before = last.entry(one.stream()).or_default();
        assert!(one.position() >= *before, "{} came after {before}", one.position());
        *before = one.position();
    }
}

/// What Python's own library says of a signature.
pub(super) fn python_signs(secret: &str, got: &Got) -> String {
    const SCRIPT: &str = r"
import base64, hashlib, hmac, sys
secret, id, timestamp = sys.argv[1:4]
key = base64.b64decode(secret.removeprefix('whsec_'))
signed = f'{id}.{timestamp}.'.encode() + sys.stdin.buffer.read()
print('v1,' + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode(), end='')
";
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT, secret, &got.headers["webhook-id"], &got.headers["webhook-timestamp"]])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    python.stdin.take().unwrap().write_all(got.body.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_delivered_signed_as_another_program_computes_it_and_without_what_is_private() {
    let scene = Scene::on(Served::with(quick()).await).await;
    let served = &scene.served;
    let receiver = Receiver::new();
    let words = ["webhook", "create", "--name", "chat", "--url", &receiver.url()];
    let secret = served.cli(&words).await.trim().to_owned();
    assert!(secret.starts_with("whsec_"), "{secret}");
    let began = *served.app.store.head().borrow();
    let (task, _) = scene.running("hush-title").await;
    settled(served).await;
    let got = receiver.got();
    assert_eq!(firsts(&got), happened(served, began).await, "all that happened, and nothing else");
    assert_ordered(&got);
    assert!(got.iter().any(|one| one.event_type() == "directory.acquired"));
    assert!(got.iter().any(|one| one.event_type() == "task.started" && one.stream() == task));
    for one in &got {
        assert_eq!(one.path, "/hook?key=hush-key");
        assert_eq!(one.headers["content-type"], "application/json");
        assert_eq!(one.headers["webhook-signature"], python_signs(&secret, one));
        for private in ["/srv/game", "hush", "Ada", "/e\""] {
            assert!(!one.body.contains(private), "{private} in {}", one.body);
        }
    }
    assert!(got.iter().any(|one| one.body.contains("[redacted]")));
    // The secret is shown to nobody again, and lies nowhere as it is.
    let id = shown(served).await["id"].as_str().unwrap().to_owned();
    let bare = secret.trim_start_matches("whsec_");
    for path in ["/api/webhooks", &format!("/api/webhooks/{id}"), "/webhooks", "/api/audit?limit=1000"] {
        let said = served.get(path).await.is(200).to_string();
        assert!(!said.contains(bare), "{path}");
    }
    let db = served.db.superuser().await;
    let rows = db.query("select name, encode(sealed, 'base64') from es.secrets", &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert!(!rows[0].get::<_, String>(1).contains(bare));
    let again = json!({"name": "chat", "url": receiver.url()});
    assert_eq!(served.post("/api/webhooks", &again).await.problem(409), "name_taken");
    let keyed = json!({"name": "other", "url": receiver.url()});
    served.keyed("k", "/api/webhooks", &keyed).await.is(201);
    assert_eq!(served.keyed("k", "/api/webhooks", &keyed).await.problem(409), "secret_already_shown");
    let kept: i64 = db.query_one("select count(*) from es.secrets", &[]).await.unwrap().get(0);
    assert_eq!(kept, 2, "secrets that came to nothing are forgotten");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_delivery_holds_back_its_own_task_and_nothing_else() {
    let scene = Scene::on(Served::with(patient()).await).await;
    let served = &scene.served;
    let receiver = Receiver::new();
    hook(served, &receiver, &[]).await;
    let began = *served.app.store.head().borrow();
    let first = Mutex::new(None);
    receiver.answers(move |got| {
        let mut first = first.lock().unwrap();
        if first.is_none() && got.event_type() == "task.queued" {
            *first = Some(got.stream());
        }
        Reply::Status(if *first == Some(got.stream()) { 503 } else { 200 })
    });
    let (refused, _) = scene.running("One").await;
    scene.parked("Two").await;
    let (other, refused) = (happened(served, began).await, refused.as_str());
    eventually(SOON, || async {
        let got = receiver.got();
        let tried = got.iter().filter(|one| one.stream() == refused).count();
        let taken = firsts(&got).len();
        // Of the failing task only its first event is tried, again and again.
        let held = happened_of(served, refused).await.len() - 1;
        if tried > 3 && taken == other.len() - held {
            Ok(())
        } else {
            Err(format!("{tried} tries, {taken} taken"))
        }
    })
    .await;
    let got = receiver.got();
    let tries: BTreeSet<(String, i64)> =
        got.iter().filter(|one| one.stream() == refused).map(|one| (one.id(), one.position())).collect();
    assert_eq!(tries.len(), 1, "one delivery under one id: {tries:?}");
    receiver.answers(|_| Reply::Status(200));
    settled(served).await;
    assert_eq!(firsts(&receiver.got()), happened(served, began).await);
    assert_ordered(&receiver.got());
    scene.finish().await;
}

async fn happened_of(served: &Served, task: &str) -> Vec<Value> {
    let history = served.get(&format!("/api/audit?limit=1000&type=task&target=task/{task}")).await.is(200);
    let entries = history["entries"].as_array().unwrap().iter();
    entries.filter(|entry| entry["stream"]["id"] == task && entry["outcome"] == "done").cloned().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_hangs_redirects_answers_without_end_or_without_sense_stays_in_its_own_line() {
    let limits = Limits { webhook_timeout: Millis(400), webhook_at_once: 4, ..patient() };
    let scene = Scene::on(Served::with(limits).await).await;
    let served = &scene.served;
    let receiver = Receiver::new();
    let elsewhere = Receiver::new();
    hook(served, &receiver, &["issue"]).await;
    let began = *served.app.store.head().borrow();
    let location = format!("location: {}", elsewhere.url());
    let streams = Mutex::new(Vec::<String>::new());
    receiver.answers(move |got| {
        let mut streams = streams.lock().unwrap();
        let at = streams.iter().position(|one| *one == got.stream()).unwrap_or_else(|| {
            streams.push(got.stream());
            streams.len() - 1
        });
        match at {
            0 => Reply::Hang,
            1 => Reply::With(307, location.clone()),
            2 => Reply::Garbage,
            3 => Reply::Endless,
            _ => Reply::Status(200),
        }
    });
    for title in ["Hangs", "Redirects", "Garbage", "Endless", "Well", "Well too"] {
        scene.issue(title).await;
    }
    let all = happened_issues(served, began).await;
    eventually(SOON, || async {
        let answer = served.get("/api/webhooks/chat/deliveries").await.is(200);
        let states: Vec<(String, String)> = answer["deliveries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (text(one, "state"), text(one, "problem")))
            .collect();
        let count =
            |state: &str, problem: &str| states.iter().filter(|(s, p)| s == state && p == problem).count();
        let done = count("delivered", "null") == all.len() - 3
            && count("waiting", "timed_out") == 1
            && count("waiting", "redirected") == 1
            && count("waiting", "unreachable") == 1;
        if done { Ok(()) } else { Err(format!("{states:?} of {}", all.len())) }
    })
    .await;
    assert!(elsewhere.got().is_empty(), "redirects aren't followed");
    receiver.answers(|_| Reply::Status(200));
    receiver.let_go();
    settled(served).await;
    assert_eq!(firsts(&receiver.got()), all);
    assert_ordered(&receiver.got());
    scene.finish().await;
}

pub(super) fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or("null").to_owned()
}

async fn happened_issues(served: &Served, after: i64) -> Vec<i64> {
    let feed = served.get(&format!("/api/feed?after={after}&limit=1000&type=issue")).await.is(200);
    let mut positions: Vec<i64> =
        feed["entries"].as_array().unwrap().iter().map(|entry| entry["position"].as_i64().unwrap()).collect();
    positions.sort_unstable();
    positions
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_is_gone_switches_the_webhook_off_and_what_waited_waits() {
    let scene = Scene::on(Served::with(patient()).await).await;
    let served = &scene.served;
    let receiver = Receiver::new();
    hook(served, &receiver, &["issue"]).await;
    let began = *served.app.store.head().borrow();
    receiver.answers(|_| Reply::Status(410));
    scene.issue("One").await;
    eventually(SOON, || async { shown(served).await["status"] == "off" }).await;
    assert_eq!(shown(served).await["off_because"], "gone");
    let waited = happened_issues(served, began).await;
    let quiet = *served.app.store.head().borrow();
    // While it is off, what happens isn't delivered, and nothing is sent.
    scene.issue("Unseen").await;
    eventually(SOON, || async {
        let at = shown(served).await["progress"]["position"].as_i64().unwrap();
        at > quiet && at == *served.app.store.head().borrow()
    })
    .await;
    let sent = receiver.got().len();
    let feed = served.cli(&["webhook", "show", "chat"]).await;
    assert!(feed.contains("410"), "{feed}");
    receiver.answers(|_| Reply::Status(200));
    assert_eq!(receiver.got().len(), sent);
    served.cli(&["webhook", "update", "chat", "--enable"]).await;
    let on = *served.app.store.head().borrow();
    scene.issue("Seen").await;
    settled(served).await;
    let expected: Vec<i64> = waited.into_iter().chain(happened_issues(served, on).await).collect();
    assert_eq!(firsts(&receiver.got()), expected);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_given_up_is_seen_everywhere_lets_the_rest_go_on_and_can_be_tried_again() {
    let scene = Scene::on(Served::with(quick()).await).await;
    let served = &scene.served;
    let receiver = Receiver::new();
    hook(served, &receiver, &["task"]).await;
    let began = *served.app.store.head().borrow();
    receiver.answers(|got| Reply::Status(if got.event_type() == "task.queued" { 500 } else { 200 }));
    let (task, _) = scene.running("One").await;
    eventually(SOON, || async {
        let shown = shown(served).await;
        if shown["dead"] == 1 && shown["progress"]["waiting"] == 0 { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    let got = receiver.got();
    let dead: Vec<&Got> = got.iter().filter(|one| one.event_type() == "task.queued").collect();
    assert_eq!(dead.len(), 4, "once, and as often as the schedule says");
    let later = got.iter().position(|one| one.event_type() == "task.claimed").unwrap();
    assert!(later > 3, "its task's later events came after its end");
    assert_ordered(&got);
    let position = dead[0].position();
    // CLI, API, page, feed and audit say so.
    let listed = served.cli(&["webhook", "deliveries", "chat", "--state", "dead"]).await;
    assert!(listed.contains(&position.to_string()) && listed.contains("500"), "{listed}");
    let page = served.get("/webhooks").await.is(200).to_string();
    assert!(page.contains("1 delivery was given up") && page.contains("Given up"), "{page}");
    let said = served.get("/api/feed?type=webhook.dead_lettered").await.is(200);
    let sentence = said["entries"][0]["text"].as_str().unwrap();
    assert!(sentence.contains(&format!("event {position}")) && sentence.contains("4 attempts"), "{sentence}");
    assert!(sentence.contains("chat") && sentence.contains("500"), "{sentence}");
    let doctor = served.cli_fails(&["doctor"]).await;
    assert!(doctor.contains("!!  A delivery of the webhook chat was given up"), "{doctor}");
    let metrics = served.get("/api/metrics").await.is(200);
    let told = metrics.as_str().unwrap().lines().find(|line| line.starts_with("multica_webhook_dead{"));
    assert!(told.is_some_and(|line| line.ends_with("} 1")), "{metrics}");
    let (code, said) = served.cli_refused(&["webhook", "retry", "chat", "1"]).await;
    assert!(code == 1 && said.contains("was given up"), "{said}");
    receiver.answers(|_| Reply::Status(200));
    let said = served.cli(&["webhook", "retry", "chat", &position.to_string()]).await;
    assert_eq!(said.trim(), "1 delivery to chat is tried again.");
    settled(served).await;
    let got = receiver.got();
    let last = got.last().unwrap();
    assert_eq!((last.position(), last.id()), (position, dead[0].id()));
    assert_eq!(shown(served).await["dead"], 0);
    let all: BTreeSet<i64> = got.iter().map(Got::position).collect();
    let of_tasks = happened_of(served, &task).await.len();
    assert_eq!(all.range(began..).count(), of_tasks);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_never_takes_anything_is_switched_off_in_the_end() {
    let limits = Limits { webhook_retries: vec![Millis(10)], webhook_dead: 3, ..quick() };
    let scene = Scene::on(Served::with(limits).await).await;
    let served = &scene.served;
    let receiver = Receiver::new();
    hook(served, &receiver, &[]).await;
    receiver.answers(|_| Reply::Status(500));
    for title in ["One", "Two", "Three", "Four", "Five"] {
        scene.issue(title).await;
    }
    eventually(SOON, || async { shown(served).await["off_because"] == "failing" }).await;
    // It is well again: all is asked for again, and what waited goes out.
    receiver.answers(|_| Reply::Status(200));
    served.cli(&["webhook", "retry", "chat", "--all"]).await;
    served.cli(&["webhook", "update", "chat", "--enable"]).await;
    settled(served).await;
    assert_eq!(shown(served).await["dead"], 0);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_sends_again_under_the_same_ids_in_order_from_any_position() {
    let scene = Scene::on(Served::with(quick()).await).await;
    let served = &scene.served;
    served.post("/api/issues", &json!({"title": "Before"})).await.is(201);
    let receiver = Receiver::new();
    hook(served, &receiver, &["issue", "task"]).await;
    let began = *served.app.store.head().borrow();
    scene.running("One").await;
    settled(served).await;
    let before: BTreeMap<i64, String> = receiver.got().iter().map(|one| (one.position(), one.id())).collect();
    let first = receiver.got().len();
    // What it never had, because it wasn't there yet, and what it has had.
    let said = served.cli(&["webhook", "replay", "chat", "--from", "1"]).await;
    assert!(said.starts_with("Events 1 to "), "{said}");
    settled(served).await;
    let again = receiver.got().split_off(first);
    assert_ordered(&again);
    let ids: BTreeMap<i64, String> = again.iter().map(|one| (one.position(), one.id())).collect();
    assert_eq!(ids.len(), again.len(), "each once");
    assert!(before.iter().all(|(position, id)| ids.get(position) == Some(id)), "under the same ids");
    let wanted: Vec<i64> = happened_issues(served, 0).await;
    assert!(wanted.iter().all(|position| ids.contains_key(position)), "{wanted:?} in {ids:?}");
    assert!(ids.keys().next().unwrap() < &began);
    // A stretch, with both ends.
    let (from, to) = (wanted[0].to_string(), wanted[0].to_string());
    let sent = receiver.got().len();
    served.cli(&["webhook", "replay", "chat", "--from", &from, "--to", &to]).await;
    settled(served).await;
    assert_eq!(receiver.got().len(), sent + 1);
    for (from, code) in [(0, "bad_replay"), (1_000_000, "bad_replay")] {
        let refused = served.post("/api/webhooks/chat/replay", &json!({"from": from})).await;
        assert_eq!(refused.problem(400), code);
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_secret_signs_beside_the_old_one_for_a_while_and_then_alone() {
    let scene = Scene::on(Served::with(quick()).await).await;
    let served = &scene.served;
    let receiver = Receiver::new();
    let old = hook(served, &receiver, &["issue"]).await["secret"].as_str().unwrap().to_owned();
    let new = served.cli(&["webhook", "rotate-secret", "chat"]).await.trim().to_owned();
    scene.issue("One").await;
    settled(served).await;
    let one = receiver.got().pop().unwrap();
    let both = format!("{} {}", python_signs(&new, &one), python_signs(&old, &one));
    assert_eq!(one.headers["webhook-signature"], both);
    assert!(shown(served).await["old_secret_until"].is_string());
    let newest = served.cli(&["webhook", "rotate-secret", "chat", "--overlap", "0"]).await.trim().to_owned();
    scene.issue("Two").await;
    settled(served).await;
    let two = receiver.got().pop().unwrap();
    assert_eq!(two.headers["webhook-signature"], python_signs(&newest, &two));
    let long = json!({"overlap_seconds": 100 * 24 * 3_600});
    assert_eq!(served.post("/api/webhooks/chat/rotate-secret", &long).await.problem(400), "invalid_field");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_share_the_work_and_one_goes_on_where_the_other_stopped() {
    let first = Scene::on(Served::with(quick()).await).await;
    let second = first.served.beside(Allowed::parse(["127.0.0.1"]).unwrap(), quick()).await;
    let receiver = Receiver::new();
    hook(&first.served, &receiver, &[]).await;
    let began = *first.served.app.store.head().borrow();
    first.running("One").await;
    first.parked("Two").await;
    settled(&first.served).await;
    let all = happened(&first.served, began).await;
    assert_eq!(receiver.got().len(), all.len(), "each once, although two could send it");
    // One stops in the middle of a delivery; the other has it delivered, and the rest in order.
    receiver.answers(|_| Reply::Hang);
    first.issue("Three").await;
    let sent = receiver.got().len();
    eventually(SOON, || async { receiver.got().len() > sent }).await;
    receiver.answers(|_| Reply::Status(200));
    first.served.shutdown.cancel();
    receiver.let_go();
    first.served.serving.await.unwrap().unwrap();
    second.post("/api/projects", &json!({"title": "After"})).await.is(201);
    settled(&second).await;
    assert_eq!(firsts(&receiver.got()), happened(&second, began).await);
    assert_ordered(&receiver.got());
    second.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_may_wait_is_kept_by_the_log_and_delivered_in_the_end() {
    let limits = Limits { webhook_waiting: 3, webhook_page: 2, ..patient() };
    let scene = Scene::on(Served::with(limits).await).await;
    let served = &scene.served;
    let receiver = Receiver::new();
    hook(served, &receiver, &[]).await;
    let began = *served.app.store.head().borrow();
    receiver.answers(|_| Reply::Status(500));
    scene.running("One").await;
    eventually(SOON, || async { shown(served).await["progress"]["waiting"].as_i64().unwrap() >= 3 }).await;
    let progress = shown(served).await["progress"].clone();
    assert!(progress["waiting"].as_i64().unwrap() <= 4, "{progress}");
    assert!(progress["position"].as_i64() < progress["head"].as_i64(), "{progress}");
    receiver.answers(|_| Reply::Status(200));
    settled(served).await;
    assert_eq!(firsts(&receiver.got()), happened(served, began).await);
    assert_ordered(&receiver.got());
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_that_hang_hold_no_connection_to_the_database() {
    let limits = Limits { database_connections: 5, webhook_timeout: Millis(30_000), ..quick() };
    let scene = Scene::on(Served::with(limits).await).await;
    let served = &scene.served;
    let receiver = Receiver::new();
    receiver.answers(|_| Reply::Hang);
    for n in 0..6 {
        let body = json!({"name": format!("slow-{n}"), "url": receiver.url()});
        served.post("/api/webhooks", &body).await.is(201);
    }
    // Six receivers with several deliveries each: more than there are connections.
    served.post("/api/issues", &json!({"title": "One"})).await.is(201);
    served.post("/api/issues", &json!({"title": "Two"})).await.is(201);
    eventually(SOON, || async { receiver.got().len() >= 12 }).await;
    let (task, _) = scene.running("Three").await;
    served.post(&format!("/api/tasks/{task}/cancel"), &json!({})).await.is(200);
    receiver.answers(|_| Reply::Status(200));
    receiver.let_go();
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_answer_is_waited_for_and_what_comes_after_it_waits_too() {
    let limits = Limits { webhook_timeout: Millis(30_000), ..quick() };
    let scene = Scene::on(Served::with(limits).await).await;
    let served = &scene.served;
    let receiver = Receiver::new();
    hook(served, &receiver, &["issue"]).await;
    let began = *served.app.store.head().borrow();
    receiver.answers(|_| Reply::Late(200));
    let issue = served.post("/api/issues", &json!({"title": "One"})).await.is(201);
    let comments = format!("/api/issues/{}/comments", issue["id"].as_str().unwrap());
    served.post(&comments, &json!({"content": "And more"})).await.is(201);
    served.post("/api/issues", &json!({"title": "Two"})).await.is(201);
    eventually(SOON, || async { receiver.got().len() == 2 }).await;
    assert!(receiver.got().iter().all(|one| one.event_type() == "issue.created"));
    receiver.let_go();
    settled(served).await;
    let got = receiver.got();
    assert_eq!((firsts(&got), got.len()), (happened_issues(served, began).await, 3));
    assert_ordered(&got);
    scene.finish().await;
}
