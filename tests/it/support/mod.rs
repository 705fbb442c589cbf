//! What integration tests stand on: one cluster per run, one database per test.

pub mod cluster;
pub mod past;
pub mod proxy;
pub mod receiver;
pub mod toy;
pub mod waiting;
pub mod world;

use std::sync::Arc;

use multica::app::writer::check::Schemas;
use multica::app::writer::{Writer, WriterParts};
use multica::kernel::limits::Limits;
use multica::readmodel::{self, Registry};
use multica::store::{Durability, Store, verify};
use tokio_postgres::{Client, Config, NoTls};

pub use self::waiting::eventually;
use self::world::TestWorld;

/// A database of one's own, made from the run's template.
pub struct TestDb {
    pub app: Config,
    pub owner: Config,
}

impl TestDb {
    pub async fn new() -> Self {
        let cluster = cluster::shared();
        let name = format!("t{}", uuid::Uuid::now_v7().simple());
        let admin = connect(&cluster.config("multica", "postgres")).await;
        admin
            .batch_execute(&format!("create database {name} template multica_template strategy file_copy"))
            .await
            .unwrap();
        Self { app: cluster.config("multica_app", &name), owner: cluster.config("multica", &name) }
    }

    pub async fn store(&self) -> Store {
        self.store_with(&limits()).await
    }

    pub async fn store_with(&self, limits: &Limits) -> Store {
        Store::open(self.app.clone(), limits, Durability::Waived).await.unwrap()
    }

    /// A connection that may do everything: what an attacker with the database's password has.
    pub async fn superuser(&self) -> Client {
        connect(&self.owner).await
    }

    pub async fn app_client(&self) -> Client {
        connect(&self.app).await
    }

    /// The same where the server was stopped: its followers are brought to the head first.
    pub async fn finish_inline(&self, registry: &Registry) {
        let store = self.store().await;
        readmodel::follower::step_all(&store, registry).await;
        self.finish(registry).await;
    }

    /// What must hold at the end of every test: a dense, unbroken log, and rows equal to a rebuild.
    pub async fn finish(&self, registry: &Registry) {
        let store = self.store().await;
        let report = verify::run(&store).await.unwrap();
        assert_eq!(report.findings, [], "the log is as it was written");
        let differences = readmodel::verify::all(&store, registry).await.unwrap();
        assert_eq!(differences, [], "read models equal their rebuild");
    }
}

/// A database with read models and a writer.
pub struct Rig {
    pub db: TestDb,
    pub store: Store,
    pub registry: Arc<Registry>,
    pub writer: Writer,
}

impl Rig {
    pub async fn new() -> Self {
        Self::with(toy::registry(), &limits()).await
    }

    pub async fn with(registry: Registry, limits: &Limits) -> Self {
        let db = TestDb::new().await;
        let store = db.store_with(limits).await;
        readmodel::install::run(&store, &registry).await.unwrap();
        let registry = Arc::new(registry);
        let writer = writer(&store, &registry);
        Self { db, store, registry, writer }
    }

    pub async fn finish(&self) {
        self.db.finish(&self.registry).await;
    }
}

pub fn writer(store: &Store, registry: &Arc<Registry>) -> Writer {
    let parts = WriterParts {
        store: store.clone(),
        registry: Arc::clone(registry),
        check: Arc::new(Schemas::embedded().unwrap()),
        world: Arc::new(TestWorld),
        version: "test".to_owned(),
    };
    Writer::start(parts).0
}

pub fn limits() -> Limits {
    Limits::default()
}

pub async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
