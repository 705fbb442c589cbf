//! A served database with a machine, an agent and a project.

use std::net::SocketAddr;
use std::sync::Arc;

use multica::http::App;
use multica::kernel::ids::{AgentId, Incarnation, MachineId, ProjectId, RuntimeId};
use multica::kernel::limits::{Limits, Millis};
use multica::system::{RealWorld, Server, Setup, SystemError, bootstrap};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::http::Connection;
use super::place::Database;
use super::story::Cast;

const DAEMON: &str = "machine-1";

pub struct Installation {
    pub app: App,
    pub address: SocketAddr,
    pub token: String,
    pub cast: Cast,
    shutdown: CancellationToken,
    serving: JoinHandle<Result<(), SystemError>>,
}

impl Installation {
    /// The first start: everybody registers.
    pub async fn found(database: &Database) -> Self {
        let mut own = Self::start(database, None, Cast::invented()).await;
        let mut http = own.http().await;
        let machine = MachineId::from_machine_file("bench");
        let incarnation = Incarnation(Uuid::now_v7());
        let registration = json!({"workspace_id": own.cast.workspace, "daemon_id": DAEMON, "machine_id": machine,
            "incarnation": incarnation, "device_name": "box", "cli_version": "0.1.0", "os": "linux",
            "capabilities": [], "runtimes": [{"type": "command", "name": "Command", "version": "1"}]});
        let answer = http.well("POST", "/api/daemon/register", &registration).await;
        let runtime = answer["runtimes"][0]["id"].as_str().unwrap().parse::<RuntimeId>().unwrap();
        let agent = json!({"name": "Dev", "runtime_id": runtime, "max_concurrent_tasks": 50,
            "command": {"program": "/bin/sh", "arguments": ["-c", "cat"]}});
        let agent = http.well("POST", "/api/agents", &agent).await["id"].as_str().unwrap().parse::<AgentId>();
        let project = http.well("POST", "/api/projects", &json!({"title": "Game"})).await;
        let project = project["id"].as_str().unwrap().parse::<ProjectId>().unwrap();
        own.cast = Cast {
            agent: agent.unwrap(),
            runtime,
            daemon: DAEMON.to_owned(),
            incarnation,
            project: Some(project),
            ..own.cast
        };
        own
    }

    /// A later start of the same.
    pub async fn again(database: &Database, before: (String, Cast)) -> Self {
        Self::start(database, Some(before.0), before.1).await
    }

    async fn start(database: &Database, token: Option<String>, cast: Cast) -> Self {
        let shutdown = CancellationToken::new();
        // Nobody seals, and no task is given up because its daemon is only invented.
        let limits = Limits {
            seal_every: Millis(u64::from(u32::MAX)),
            seal_events: i64::MAX,
            unreachable: Millis(u64::from(u32::MAX)),
            queued_ttl: Millis(u64::from(u32::MAX)),
            ..Limits::default()
        };
        let setup = Setup {
            database: database.app.clone(),
            owner: database.owner.clone(),
            durability: multica::store::Durability::Required,
            limits,
            key: [7; 32],
            listener: multica::system::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap(),
            hosts: Vec::new(),
            seals: Vec::new(),
            keep_transcripts: None,
            webhooks_to: multica::webhook::address::Allowed::default(),
            shutdown: shutdown.clone(),
            world: Arc::new(RealWorld),
        };
        let server = Server::start(setup).await.unwrap();
        let known = bootstrap(server.app(), "Ada", token.as_deref()).await.unwrap();
        let (address, app) = (server.address(), server.app().clone());
        let serving = tokio::spawn(server.run());
        let cast = Cast { workspace: known.workspace, user: known.user, ..cast };
        Self { app, address, token: known.token, cast, shutdown, serving }
    }

    pub async fn http(&self) -> Connection {
        Connection::new(self.address, &self.token).await
    }

    /// Stops the server; what [`Self::again`] needs.
    pub async fn stop(self) -> (String, Cast) {
        self.shutdown.cancel();
        self.serving.await.unwrap().unwrap();
        (self.token, self.cast)
    }
}
