//! A server that speaks the daemon protocol, and a machine with a daemon on it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::support::waiting::{eventually, pace};

pub const WORKSPACE: &str = "0190aaaa-0000-7000-8000-000000000001";
pub const RUNTIME: &str = "0190aaaa-0000-7000-8000-000000000002";
pub const LIMITS: &str = r#"{"claim_poll":200,"order_poll":100,"heartbeat":200,"report_retry_first":10,
    "report_retry_max":100,"kill_grace":300,"transcript_drain":300,"lock_wait":100,"lock_retry":50,"transcript_flush":20,"http_timeout":5000}"#;

#[derive(Default)]
struct Inner {
    offered: Vec<Value>,
    claimed: HashMap<String, Value>,
    calls: Vec<(String, String, Instant)>,
    reports: Vec<(String, String, String, Value)>,
    messages: Vec<(String, Value)>,
    orders: Vec<Value>,
    ordered: i64,
    failures: HashMap<String, (u16, u32)>,
    refusals: HashMap<String, (u16, &'static str)>,
    silent: HashSet<String>,
    slow: HashMap<String, Duration>,
    assignments: HashMap<String, Value>,
    standings: HashMap<String, &'static str>,
    largest: HashMap<String, usize>,
    queue: bool,
    registrations: Vec<Value>,
}

#[derive(Clone)]
pub struct Fake {
    inner: Arc<Mutex<Inner>>,
    pub url: String,
}

/// Waits for a fact, within a bound that only a failure reaches.
pub async fn until(what: &str, fact: impl Fn() -> bool) {
    let look = || {
        let holds = fact();
        async move { if holds { Ok(()) } else { Err(format!("waited in vain until {what}")) } }
    };
    eventually(Duration::from_secs(60), look).await;
}

/// An assignment of provider `command` without a directory, running a shell script.
pub fn assignment(script: &str) -> Value {
    let task = uuid::Uuid::now_v7();
    json!({
        "id": task, "generation": 1, "name": "TEST-1#1", "runtime_id": RUNTIME, "workspace_id": WORKSPACE,
        "agent_id": "0190aaaa-0000-7000-8000-000000000003",
        "agent": {
            "id": "0190aaaa-0000-7000-8000-000000000003", "name": "Dev", "provider": "command",
            "instructions": "", "model": null,
            "command": {"program": "/bin/sh", "arguments": ["-c", script], "prompt": "stdin"},
            "custom_args": [], "skills": []
        },
        "issue_id": "7f0c0f4e-0000-4000-8000-000000000004", "issue_key": "TEST-1", "thread_name": "Do it",
        "issue_description": "", "comments": [], "status": "dispatched", "priority": 0, "attempt": 1,
        "max_attempts": 2, "auth_token": "mat_test", "project_id": null, "project_title": "",
        "project_description": "", "project_resources": [], "repos": [], "left_out": [],
        "prior_session_id": null, "prior_work_dir": null, "directory": null, "delivered_comment_ids": [],
        "leader_role_resolved": true, "created_at": "2026-05-01T12:00:00Z", "dispatched_at": "2026-05-01T12:00:00Z"
    })
}

/// The same, in a directory of this machine.
pub fn in_directory(script: &str, path: &std::path::Path) -> Value {
    let mut assignment = assignment(script);
    assignment["project_resources"] = json!([{
        "id": "0190aaaa-0000-7000-8000-000000000005", "resource_type": "local_directory",
        "resource_ref": {"local_path": path, "daemon_id": "machine-of-the-test"}
    }]);
    assignment
}

impl Fake {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let fake = Self { inner: Arc::default(), url };
        let whole = axum::extract::DefaultBodyLimit::disable();
        let router = Router::new().fallback(answer).layer(whole).with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("whole")
    }

    /// Offers a task to the next claim, and gives its id.
    pub fn offer(&self, assignment: Value) -> String {
        let task = assignment["id"].as_str().expect("an id").to_owned();
        let mut inner = self.lock();
        inner.assignments.insert(task.clone(), assignment.clone());
        inner.offered.push(assignment);
        task
    }

    /// What is given for a task when its assignment is asked for again.
    pub fn assign(&self, task: &str, assignment: Value) {
        self.lock().assignments.insert(task.to_owned(), assignment);
    }

    /// Where a task stands, for who asks.
    pub fn stands(&self, task: &str, status: &'static str) {
        self.lock().standings.insert(task.to_owned(), status);
    }

    /// Answers those who want to enter a directory that they have to wait.
    pub fn queue(&self) {
        self.lock().queue = true;
    }

    /// Answers the next `times` calls of a path with a status, although the work is done.
    pub fn fail(&self, path: &str, status: u16, times: u32) {
        self.lock().failures.insert(path.to_owned(), (status, times));
    }

    /// Refuses every call of a path.
    pub fn refuse(&self, path: &str, status: u16, code: &'static str) {
        self.lock().refusals.insert(path.to_owned(), (status, code));
    }

    /// Answers calls of a path as ever again.
    pub fn allow(&self, path: &str) {
        let mut inner = self.lock();
        inner.refusals.remove(path);
        inner.failures.remove(path);
        inner.silent.remove(path);
    }

    /// Never answers calls of a path.
    pub fn silence(&self, path: &str) {
        self.lock().silent.insert(path.to_owned());
    }

    /// Takes its time with every call of a path.
    pub fn slow(&self, path: &str, by: Duration) {
        self.lock().slow.insert(path.to_owned(), by);
    }

    /// Gives an order, and says its position.
    pub fn order(&self, body: Value) -> i64 {
        let mut inner = self.lock();
        let position = inner.orders.len() as i64 + 100;
        inner.orders.push(json!({"id": uuid::Uuid::now_v7(), "position": position, "body": body}));
        position
    }

    /// What was said with each registration.
    pub fn registrations(&self) -> Vec<Value> {
        self.lock().registrations.clone()
    }

    /// Up to where the daemon has the orders.
    pub fn ordered(&self) -> i64 {
        self.lock().ordered
    }

    /// The bytes of the largest request to a path.
    pub fn largest_request(&self, path: &str) -> usize {
        self.lock().largest.get(path).copied().unwrap_or_default()
    }

    /// The idempotency keys of the calls of a path, in order.
    pub fn keys(&self, path: &str) -> Vec<String> {
        self.lock().calls.iter().filter(|call| call.0 == path).map(|call| call.1.clone()).collect()
    }

    /// When a path was called.
    pub fn times(&self, path: &str) -> Vec<Instant> {
        self.lock().calls.iter().filter(|call| call.0 == path).map(|call| call.2).collect()
    }

    /// The paths of all writes but heartbeats, in order.
    pub fn calls(&self) -> Vec<String> {
        let inner = self.lock();
        inner.calls.iter().map(|call| call.0.clone()).filter(|path| !path.ends_with("heartbeat")).collect()
    }

    /// The kinds of the accepted reports of a task, in order.
    pub fn kinds(&self, task: &str) -> Vec<String> {
        self.lock().reports.iter().filter(|r| r.0 == task).map(|r| r.1.clone()).collect()
    }

    pub fn has(&self, task: &str, kind: &str) -> bool {
        self.kinds(task).iter().any(|known| known == kind)
    }

    pub fn report(&self, task: &str, kind: &str) -> Value {
        let inner = self.lock();
        inner.reports.iter().find(|r| r.0 == task && r.1 == kind).map(|r| r.3.clone()).unwrap_or_default()
    }

    pub fn messages(&self, task: &str) -> Vec<Value> {
        self.lock().messages.iter().filter(|(t, _)| t == task).map(|(_, m)| m.clone()).collect()
    }

    fn respond(&self, method: &Method, path: &str, query: &str, key: &str, body: &Value) -> (u16, Value) {
        let mut inner = self.lock();
        if *method == Method::POST {
            inner.calls.push((path.to_owned(), key.to_owned(), Instant::now()));
        }
        if let Some((status, code)) = inner.refusals.get(path) {
            return (*status, json!({"error": "refused", "code": code}));
        }
        let answer = inner.work(path, query, key, body);
        if let Some((status, times)) = inner.failures.get_mut(path).filter(|(_, times)| *times > 0) {
            *times -= 1;
            return (*status, json!({"error": "not now"}));
        }
        answer
    }
}

impl Inner {
    fn work(&mut self, path: &str, query: &str, key: &str, body: &Value) -> (u16, Value) {
        match path {
            "/api/daemon/workspaces" => (200, json!([{"id": WORKSPACE, "name": "Test"}])),
            "/api/daemon/register" => {
                self.registrations.push(body.clone());
                let runtime = json!({"id": RUNTIME, "name": "r", "provider": "command", "status": "online"});
                (200, json!({"runtimes": [runtime], "repos": [], "repos_version": "", "settings": {}}))
            }
            "/api/daemon/tasks/claim" => {
                if let Some(known) = self.claimed.get(key) {
                    return (200, known.clone());
                }
                let tasks: Vec<Value> = self.offered.drain(..).collect();
                let answer = json!({"tasks": tasks});
                if !tasks.is_empty() {
                    self.claimed.insert(key.to_owned(), answer.clone());
                }
                (200, answer)
            }
            "/api/daemon/orders" => {
                let after: i64 = query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix("after="))
                    .and_then(|text| text.parse().ok())
                    .unwrap_or(0);
                self.ordered = after;
                let open: Vec<&Value> =
                    self.orders.iter().filter(|o| o["position"].as_i64() > Some(after)).collect();
                let last = open.last().and_then(|o| o["position"].as_i64()).unwrap_or(after);
                (200, json!({"orders": open, "after": last}))
            }
            _ => self.of_task(path, key, body),
        }
    }

    fn of_task(&mut self, path: &str, key: &str, body: &Value) -> (u16, Value) {
        let Some((task, kind)) =
            path.strip_prefix("/api/daemon/tasks/").and_then(|rest| rest.split_once('/'))
        else {
            return (200, json!({"status": "ok"}));
        };
        if kind == "messages" {
            let messages = body["messages"].as_array().cloned().unwrap_or_default();
            self.messages.extend(messages.into_iter().map(|m| (task.to_owned(), m)));
            return (200, Value::Null);
        }
        if kind == "status" {
            let status = self.standings.get(task).copied().unwrap_or("dispatched");
            return (200, json!({"status": status, "generation": 1}));
        }
        if kind == "assignment" {
            let mut assignment = self.assignments.get(task).cloned().unwrap_or_default();
            let entered = self.reports.iter().find(|r| r.0 == task && r.1 == "enter-directory");
            if assignment["directory"].is_null() {
                assignment["directory"] = entered.map(|r| r.3["directory"].clone()).unwrap_or_default();
            }
            return (200, assignment);
        }
        if !self.reports.iter().any(|r| r.2 == key) {
            self.reports.push((task.to_owned(), kind.to_owned(), key.to_owned(), body.clone()));
        }
        let grant = match (kind, self.queue) {
            ("enter-directory", true) => json!({"grant": "queued", "place": 1}),
            ("enter-directory", false) => json!({"grant": "acquired"}),
            _ => Value::Null,
        };
        (200, json!({"status": "dispatched", "generation": 1, "grant": grant}))
    }
}

async fn answer(
    State(fake): State<Fake>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let key = headers.get("idempotency-key").and_then(|k| k.to_str().ok()).unwrap_or_default().to_owned();
    let largest = fake.largest_request(uri.path()).max(body.len());
    fake.lock().largest.insert(uri.path().to_owned(), largest);
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let query = uri.query().unwrap_or_default();
    let (status, answer) = fake.respond(&method, uri.path(), query, &key, &body);
    if fake.lock().silent.contains(uri.path()) {
        std::future::pending::<()>().await;
    }
    let slow = fake.lock().slow.get(uri.path()).copied();
    if let Some(by) = slow {
        pace(by).await;
    }
    let idle = answer["tasks"] == json!([]) || answer["orders"] == json!([]);
    if idle && status == 200 {
        // The long poll's wait, shortened: an idle daemon must not spin.
        pace(Duration::from_millis(50)).await;
    }
    (StatusCode::from_u16(status).expect("a status"), axum::Json(answer)).into_response()
}

/// A home directory with a daemon.
pub struct Machine {
    home: tempfile::TempDir,
    arguments: Vec<String>,
    child: Option<tokio::process::Child>,
    url: String,
    more: Vec<(&'static str, String)>,
}

impl Machine {
    pub fn start(fake: &Fake, arguments: &[&str]) -> Self {
        Self::with(fake, arguments, Vec::new())
    }

    /// One with some of its environment set otherwise.
    pub fn with(fake: &Fake, arguments: &[&str], more: Vec<(&'static str, String)>) -> Self {
        let home = tempfile::tempdir().expect("a home");
        let arguments = arguments.iter().map(|a| (*a).to_owned()).collect();
        // As root, directories of root are open to agents only where the machine's owner says so.
        std::fs::create_dir_all(home.path().join(".multica")).expect("made");
        // One that can be reached only through another, and isn't there: nobody's business but its own.
        let allowed = ["repo/below", "repo", "other"].map(|entry| home.path().join(entry));
        let allowed = json!({"allowed_directories": allowed});
        std::fs::write(home.path().join(".multica/config.json"), allowed.to_string()).expect("written");
        for directory in ["repo", "other"] {
            std::fs::create_dir(home.path().join(directory)).expect("made");
        }
        let mut machine = Self { home, arguments, child: None, url: fake.url.clone(), more };
        machine.start_again(fake);
        machine
    }

    pub fn start_again(&mut self, fake: &Fake) {
        let log = std::fs::File::options().create(true).append(true).open(self.log_path()).expect("a log");
        let mut command = tokio::process::Command::new(assert_cmd::cargo::cargo_bin("multica"));
        command.args(["daemon", "start", "--foreground", "--health-port", "0", "--workspaces-root"]);
        command.arg(self.work_root()).args(&self.arguments);
        command.env_clear().envs(self.environment()).envs(self.more.iter().cloned());
        command.env("MULTICA_SERVER_URL", &fake.url);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        self.child = Some(command.spawn().expect("started"));
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("HOME", self.home.path().display().to_string()),
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("MULTICA_TOKEN", "mul_test".to_owned()),
            ("MULTICA_DAEMON_ID", "machine-of-the-test".to_owned()),
            ("MULTICA_SERVER_URL", self.url.clone()),
            ("MULTICA_LIMITS", LIMITS.to_owned()),
        ]
    }

    /// Another command of the same person.
    pub fn command(&self, words: &[&str]) -> assert_cmd::Command {
        let mut command = assert_cmd::Command::cargo_bin("multica").expect("built");
        command.env_clear().envs(self.environment()).current_dir(self.home.path()).args(words);
        command
    }

    /// A directory that agents may work in.
    pub fn repo(&self) -> PathBuf {
        self.home.path().join("repo")
    }

    /// Another one.
    pub fn other(&self) -> PathBuf {
        self.home.path().join("other")
    }

    pub fn work_root(&self) -> PathBuf {
        self.home.path().join("work")
    }

    fn log_path(&self) -> PathBuf {
        self.home.path().join("daemon.test.log")
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// The files of runs that the daemon keeps.
    pub fn recorded(&self) -> Vec<PathBuf> {
        let tasks = self.home.path().join(".multica/daemon/tasks");
        std::fs::read_dir(tasks).map(|all| all.flatten().map(|e| e.path()).collect()).unwrap_or_default()
    }

    /// What the running daemon says of itself to its own account's programs.
    pub fn local_state(&self) -> Value {
        let text = std::fs::read(self.home.path().join(".multica/daemon/daemon.json")).expect("it runs");
        serde_json::from_slice(&text).expect("json")
    }

    /// As `kill -9` does.
    pub async fn kill(&mut self) {
        let mut child = self.child.take().expect("running");
        child.start_kill().expect("killed");
        child.wait().await.expect("gone");
    }

    pub async fn exit_code(&mut self) -> Option<i32> {
        let child = self.child.as_mut().expect("running");
        let ended = tokio::time::timeout(Duration::from_secs(60), child.wait()).await;
        ended.expect("it ends").expect("its exit").code()
    }

    /// Stops it cleanly, at once.
    pub async fn stop(mut self) {
        self.command(&["daemon", "stop", "--now"]).assert().success();
        assert_eq!(self.exit_code().await, Some(0), "{}", self.log());
    }
}
