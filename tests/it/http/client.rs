//! A server on a database of one's own, and a client that sends raw HTTP/1.1.

use std::net::SocketAddr;
use std::sync::Arc;

use multica::kernel::ids::{DirectoryId, MachineId, WorkspaceId};
use multica::kernel::limits::{Limits, Millis};
use multica::seal::Place;
use multica::store::Durability;
use multica::system::{Bootstrap, RealWorld, Server, Setup, SystemError, bootstrap};
use multica::webhook::address::Allowed;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::TestDb;

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The body of an answer of that status.
    #[track_caller]
    pub fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:#}", self.body);
        self.body
    }

    /// The code of a problem of that status.
    #[track_caller]
    pub fn problem(&self, status: u16) -> &str {
        assert_eq!(self.status, status, "{:#}", self.body);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        for member in ["type", "title", "detail", "error", "next_step"] {
            assert!(self.body[member].is_string(), "{member} in {:#}", self.body);
        }
        assert_eq!(self.body["status"], status);
        self.body["code"].as_str().unwrap()
    }
}

/// A served database.
pub struct Served {
    pub app: multica::http::App,
    pub address: SocketAddr,
    pub token: String,
    pub workspace: WorkspaceId,
    pub shutdown: CancellationToken,
    pub serving: JoinHandle<Result<(), SystemError>>,
    pub db: TestDb,
}

/// Small durations, so that what waits for a clock doesn't wait long.
pub fn limits() -> Limits {
    Limits {
        sweep: Millis(50),
        // A machine that is played here sends no heartbeats, and a test may take longer than a minute.
        unreachable: Millis(600_000),
        claim_receipt: Millis(60_000),
        claim_poll: Millis(300),
        order_poll: Millis(300),
        at_least_wait: Millis(5_000),
        feed_keep_alive: Millis(300),
        database_wait: Millis(2_000),
        probe_wait: Millis(2_000),
        ..Limits::default()
    }
}

/// Receivers of tests are on this machine.
fn loopback() -> Allowed {
    Allowed::parse(["127.0.0.1"]).unwrap()
}

impl Served {
    pub async fn new() -> Self {
        Self::with(limits()).await
    }

    pub async fn with(limits: Limits) -> Self {
        Self::sealing(Vec::new(), limits).await
    }

    /// One that seals its log to these places.
    pub async fn sealing(seals: Vec<Place>, limits: Limits) -> Self {
        let db = TestDb::new().await;
        let (app, owner) = (db.app.clone(), db.owner.clone());
        Self::start(db, app, owner, limits, seals, (loopback(), None)).await
    }

    /// One that delivers webhooks only where it is allowed.
    pub async fn delivering(to: Allowed, limits: Limits) -> Self {
        let db = TestDb::new().await;
        let (app, owner) = (db.app.clone(), db.owner.clone());
        Self::start(db, app, owner, limits, Vec::new(), (to, None)).await
    }

    /// Another server on the same database.
    pub async fn beside(&self, to: Allowed, limits: Limits) -> Self {
        let (app, owner) = (self.db.app.clone(), self.db.owner.clone());
        let db = TestDb { app: app.clone(), owner: owner.clone() };
        Self::start(db, app, owner, limits, Vec::new(), (to, None)).await
    }

    /// One that removes transcripts after so many days.
    pub async fn keeping(days: u32, limits: Limits) -> Self {
        let db = TestDb::new().await;
        let (app, owner) = (db.app.clone(), db.owner.clone());
        Self::start(db, app, owner, limits, Vec::new(), (loopback(), Some(days))).await
    }

    pub async fn on(
        db: TestDb,
        app: multica::store::Address,
        owner: multica::store::Address,
        limits: Limits,
    ) -> Self {
        Self::start(db, app, owner, limits, Vec::new(), (loopback(), None)).await
    }

    async fn start(
        db: TestDb,
        app: multica::store::Address,
        owner: multica::store::Address,
        limits: Limits,
        seals: Vec<Place>,
        (webhooks_to, keep_transcripts): (Allowed, Option<u32>),
    ) -> Self {
        let shutdown = CancellationToken::new();
        let setup = Setup {
            database: app,
            owner,
            durability: Durability::Waived,
            limits,
            key: [7; 32],
            listener: multica::system::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap(),
            hosts: Vec::new(),
            seals,
            keep_transcripts,
            webhooks_to,
            shutdown: shutdown.clone(),
            world: Arc::new(RealWorld),
        };
        let server = Server::start(setup).await.unwrap();
        let Bootstrap { workspace, token, .. } = bootstrap(server.app(), "Ada", None).await.unwrap();
        let address = server.address();
        let app = server.app().clone();
        let serving = tokio::spawn(server.run());
        Self { app, address, token, workspace, shutdown, serving, db }
    }

    /// Stops the server and checks that the log is whole and the read models equal their rebuild.
    pub async fn finish(self) {
        self.shutdown.cancel();
        self.serving.await.unwrap().unwrap();
        let registry = multica::readmodel::Registry::new(multica::fold::registry::all()).unwrap();
        self.db.finish_inline(&registry).await;
    }

    pub async fn send(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
        more: &[(&str, &str)],
    ) -> Answer {
        let body = body.map(Value::to_string).unwrap_or_default();
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("Authorization", bearer.as_str())];
        headers.extend_from_slice(more);
        raw(self.address, method, path, &headers, body.as_bytes()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(&self.token, "GET", path, None, &[]).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(&self.token, "POST", path, Some(body), &[]).await
    }

    /// What a verb of the command line prints.
    pub async fn cli(&self, words: &[&str]) -> String {
        let output = self.verb(words).await;
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a verb that succeeds has to note, beside its answer.
    pub async fn cli_notes(&self, words: &[&str]) -> String {
        let output = self.verb(words).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words:?}: {said}");
        said
    }

    /// The exit code of a verb that fails, and what it says.
    pub async fn cli_refused(&self, words: &[&str]) -> (i32, String) {
        let output = self.verb(words).await;
        assert!(!output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
        assert!(output.stdout.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    /// What a verb prints that does its work and finds faults.
    pub async fn cli_fails(&self, words: &[&str]) -> String {
        let output = self.verb(words).await;
        assert!(!output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stdout).unwrap()
    }

    async fn verb(&self, words: &[&str]) -> std::process::Output {
        let mut command = assert_cmd::Command::cargo_bin("multica").unwrap();
        let home = tempfile::tempdir().unwrap();
        command.env_clear().env("HOME", home.path()).env("MULTICA_TOKEN", &self.token);
        command.args(words).args(["--server-url", &format!("http://{}", self.address)]);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    pub async fn keyed(&self, key: &str, path: &str, body: &Value) -> Answer {
        self.send(&self.token, "POST", path, Some(body), &[("Idempotency-Key", key)]).await
    }
}

/// One request on a connection of its own.
pub async fn raw(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that refuses a long body may close before it has read it.
    let _ = stream.write_all(body).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Answer {
    let split = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&bytes[..split]);
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let rest = &bytes[split + 4..];
    let chunked = headers.iter().any(|(n, v)| n == "transfer-encoding" && v == "chunked");
    let body = if chunked { dechunk(rest) } else { rest.to_vec() };
    let body = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
    Answer { status, headers, body }
}

fn dechunk(mut rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = rest.windows(2).position(|w| w == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            break;
        }
        out.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    out
}

/// A daemon that has registered, an agent on it, a project with a directory of it.
pub struct Scene {
    pub served: Served,
    pub machine: MachineId,
    pub incarnation: uuid::Uuid,
    pub runtime: String,
    pub agent: String,
    pub project: String,
    pub resource: String,
}

pub const DAEMON: &str = "machine-1";

impl Scene {
    pub async fn new() -> Self {
        Self::on(Served::new().await).await
    }

    pub async fn on(served: Served) -> Self {
        let machine = MachineId::from_machine_file("test");
        let incarnation = uuid::Uuid::now_v7();
        let registered =
            served.post("/api/daemon/register", &registration(&served, machine, incarnation)).await;
        assert!(registered.header("x-multica-position").is_some());
        let runtime = registered.is(200)["runtimes"][0]["id"].as_str().unwrap().to_owned();
        let agent = json!({"name": "Dev", "runtime_id": runtime, "max_concurrent_tasks": 2,
            "command": {"program": "/bin/sh", "arguments": ["-c", "cat"]}});
        let agent = served.post("/api/agents", &agent).await.is(201)["id"].as_str().unwrap().to_owned();
        let project = served.post("/api/projects", &json!({"title": "Game"})).await.is(201);
        let project = project["id"].as_str().unwrap().to_owned();
        // Nobody answers probes here: attached before the daemon says that it could.
        let resource = json!({"resource_type": "local_directory",
            "resource_ref": {"local_path": "/srv/game", "daemon_id": DAEMON}});
        let path = format!("/api/projects/{project}/resources");
        let resource = served.post(&path, &resource).await.is(201)["id"].as_str().unwrap().to_owned();
        Self { served, machine, incarnation, runtime, agent, project, resource }
    }

    /// Creates an issue for the agent and says its task.
    pub async fn issue(&self, title: &str) -> String {
        let body = json!({"title": title, "project_id": self.project, "assignee_type": "agent",
            "assignee_id": self.agent});
        self.served.post("/api/issues", &body).await.is(201)["task_id"].as_str().unwrap().to_owned()
    }

    pub async fn claim(&self, max: u32) -> Vec<Value> {
        let body = json!({"daemon_id": DAEMON, "runtime_ids": [self.runtime], "max_tasks": max,
            "incarnation": self.incarnation, "wait_ms": 0});
        self.served.post("/api/daemon/tasks/claim", &body).await.is(200)["tasks"].as_array().unwrap().clone()
    }

    pub async fn report(&self, task: &str, generation: u32, ordinal: u64, kind: &str, more: Value) -> Answer {
        let mut body = json!({"generation": generation, "ordinal": ordinal,
            "occurred_at": "2026-01-01T00:00:00Z", "report": kind.replace('-', "_")});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let key = format!("report/{task}/{generation}/{kind}/{ordinal}");
        self.served.keyed(&key, &format!("/api/daemon/tasks/{task}/{kind}"), &body).await
    }

    pub fn directory(&self) -> DirectoryId {
        DirectoryId::of(self.served.workspace, self.machine, b"/srv/game")
    }

    pub async fn enter(&self, task: &str, generation: u32, ordinal: u64) -> Answer {
        self.enter_by("/srv/game", "b", task, generation, ordinal).await
    }

    /// The same directory by that path, seen in that boot.
    pub async fn enter_by(
        &self,
        path: &str,
        boot: &str,
        task: &str,
        generation: u32,
        ordinal: u64,
    ) -> Answer {
        let place = json!({"machine": self.machine, "real_path": path, "device": 1, "inode": 2,
            "boot_id": boot, "label": path.rsplit('/').next()});
        let directory = DirectoryId::of(self.served.workspace, self.machine, path.as_bytes());
        let more = json!({"directory": directory, "place": place, "resource": self.resource});
        self.report(task, generation, ordinal, "enter-directory", more).await
    }

    /// Claimed, received, entered, prepared, started.
    pub async fn running(&self, title: &str) -> (String, u32) {
        let task = self.issue(title).await;
        let claimed = self.claim(1).await;
        assert_eq!(claimed[0]["id"], task.as_str());
        let generation = u32::try_from(claimed[0]["generation"].as_u64().unwrap()).unwrap();
        self.report(&task, generation, 1, "receipt", json!({})).await.is(200);
        assert_eq!(self.enter(&task, generation, 2).await.is(200)["grant"]["grant"], "acquired");
        let prepared = json!({"place": "in_place", "work_dir": "/srv/game", "env_root": "/e", "sidecars": 1,
            "git": null});
        self.report(&task, generation, 3, "prepared", prepared).await.is(200);
        self.report(&task, generation, 4, "start", json!({})).await.is(200);
        (task, generation)
    }

    /// A task that waits for the directory.
    pub async fn parked(&self, title: &str) -> (String, u32) {
        let task = self.issue(title).await;
        let claimed = self.claim(1).await;
        assert_eq!(claimed[0]["id"], task.as_str());
        let generation = u32::try_from(claimed[0]["generation"].as_u64().unwrap()).unwrap();
        self.report(&task, generation, 1, "receipt", json!({})).await.is(200);
        let answer = self.enter(&task, generation, 2).await.is(200);
        assert_eq!(answer["status"], "waiting_local_directory");
        (task, generation)
    }

    pub async fn status(&self, task: &str) -> String {
        self.served.get(&format!("/api/tasks/{task}")).await.is(200)["status"].as_str().unwrap().to_owned()
    }

    pub async fn orders(&self) -> Vec<Value> {
        let path = format!("/api/daemon/orders?daemon_id={DAEMON}&after=0&wait_ms=0");
        self.served.get(&path).await.is(200)["orders"].as_array().unwrap().clone()
    }

    pub async fn finish(self) {
        self.served.finish().await;
    }
}

pub fn registration(served: &Served, machine: MachineId, incarnation: uuid::Uuid) -> Value {
    json!({"workspace_id": served.workspace, "daemon_id": DAEMON, "machine_id": machine,
        "incarnation": incarnation, "device_name": "box", "cli_version": "0.1.0", "os": "linux",
        "capabilities": [], "runtimes": [{"type": "command", "name": "Command", "version": "1"}]})
}
