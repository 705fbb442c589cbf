//! A private PostgreSQL: found, made, started, reused, restarted, stopped.
//!
//! Invariants: at most one process runs a data directory (a lock held for life); a server that still
//! lives after our crash is reused, never killed; the server outlives us on kill -9 and is stopped on a
//! clean stop; nothing listens on a port.
//!
//! Not here: schemas (`migrate`), the pool (`pool`), what an outside DATABASE_URL needs.

mod cluster;
mod error;
mod find;
pub mod postmaster;
pub mod reap;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use error::EmbeddedError;
use tokio_postgres::Config;

use self::cluster::Layout;
use self::find::{Places, Programs};
use crate::process::account::Account;

/// The product's database in its own cluster.
pub const DATABASE: &str = "multica";

/// How to run it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The profile's data directory; the cluster lies in `pg/` below it.
    pub data_dir: PathBuf,
    /// Whether acknowledged means on disk. Only tests say no.
    pub durable: bool,
    /// A folder of server programs; then nothing else is looked at (`MULTICA_PG_BIN`).
    pub bin: Option<PathBuf>,
    /// As root: the account to run it as (`MULTICA_PG_ACCOUNT`).
    pub account: Option<String>,
    /// The entries of PATH.
    pub path: Vec<PathBuf>,
    /// How long to wait for another process to let go of the lock.
    pub lock_patience: Duration,
    /// How long the server may take until it answers (crash recovery).
    pub start_patience: Duration,
    /// Between two looks whether it still lives.
    pub watch_interval: Duration,
}

impl Options {
    /// The options of an installation, with what the environment says.
    #[must_use]
    pub fn from_environment(data_dir: PathBuf) -> Self {
        Self {
            data_dir,
            durable: true,
            bin: std::env::var_os("MULTICA_PG_BIN").map(PathBuf::from),
            account: std::env::var("MULTICA_PG_ACCOUNT").ok(),
            path: std::env::var_os("PATH")
                .map(|path| std::env::split_paths(&path).collect())
                .unwrap_or_default(),
            lock_patience: Duration::from_secs(2),
            start_patience: Duration::from_secs(60),
            watch_interval: Duration::from_millis(250),
        }
    }
}

/// A running private PostgreSQL. Dropping it leaves the server running; [`Self::stop`] stops it.
#[derive(Debug)]
pub struct Embedded {
    options: Options,
    layout: Layout,
    programs: Programs,
    account: Account,
    reused: bool,
    /// Our child, when it is one: to be reaped when it ends.
    child: Mutex<Option<Child>>,
    /// It is to end: nobody starts it again.
    stopping: AtomicBool,
    _lock: File,
}

/// A data directory that is this process' alone: whatever is made, changed or emptied in it at a start waits
/// for this first. It holds until dropped, however the process ends.
#[derive(Debug)]
pub struct Claim {
    /// The directory, without symlinks: the server's working directory is compared with it.
    data_dir: PathBuf,
    lock: File,
}

impl Claim {
    /// The name of the lock's file in the data directory; it stays there.
    pub const FILE: &str = "pg.lock";

    /// Makes the directory if it isn't there and takes it.
    ///
    /// # Errors
    /// [`EmbeddedError::InUse`] when another process keeps it for longer than `patience`.
    pub async fn take(data_dir: &Path, patience: Duration) -> Result<Self, EmbeddedError> {
        let file = |action, source| EmbeddedError::File { action, path: data_dir.to_owned(), source };
        std::fs::create_dir_all(data_dir).map_err(|source| file("make", source))?;
        let data_dir = std::fs::canonicalize(data_dir).map_err(|source| file("resolve", source))?;
        let lock = cluster::take_lock(&data_dir.join(Self::FILE), patience).await?;
        Ok(Self { data_dir, lock })
    }

    /// The directory.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }
}

impl Embedded {
    /// Takes the data directory, then [`Self::start_in`].
    ///
    /// # Errors
    /// [`EmbeddedError`]: each says what to do now.
    pub async fn start(options: Options) -> Result<Self, EmbeddedError> {
        let claim = Claim::take(&options.data_dir, options.lock_patience).await?;
        Self::start_in(claim, options).await
    }

    /// Starts or reuses the cluster of that data directory and makes the product's database.
    ///
    /// # Errors
    /// [`EmbeddedError`]: each says what to do now.
    pub async fn start_in(claim: Claim, options: Options) -> Result<Self, EmbeddedError> {
        let Claim { data_dir, lock } = claim;
        let options = Options { data_dir, ..options };
        let account = cluster::server_account(options.account.as_deref())?;
        let layout = Layout::new(&options.data_dir, account.uid);
        cluster::make_folders(&layout, &account)?;
        let places = Places {
            given: options.bin.clone(),
            path: options.path.clone(),
            own: Some(options.data_dir.join("pg-dist")),
        };
        let programs = find::programs(&places, &layout.data, cluster::existing_major(&layout.data))?;
        cluster::initialise(&layout, &programs, &account, options.durable)?;
        let mut embedded = Self {
            options,
            layout,
            programs,
            account,
            reused: false,
            child: Mutex::new(None),
            stopping: AtomicBool::new(false),
            _lock: lock,
        };
        embedded.reused = embedded.bring_up().await?;
        if let Err(error) = embedded.make_database().await {
            // Nobody would stop it later; why there is no database is the answer, whatever its stop says.
            drop(embedded.stop().await);
            return Err(error);
        }
        Ok(embedded)
    }

    /// Whether a server of an earlier process was still there.
    #[must_use]
    pub const fn reused(&self) -> bool {
        self.reused
    }

    /// The process id of the server, if it lives.
    #[must_use]
    pub fn postmaster(&self) -> Option<i32> {
        postmaster::alive(&self.layout.data)
    }

    /// The folder of its socket.
    #[must_use]
    pub fn socket_folder(&self) -> &Path {
        &self.layout.run
    }

    /// How the application connects.
    #[must_use]
    pub fn app_config(&self, database: &str) -> Config {
        self.config("multica_app", database)
    }

    /// How migrations connect.
    #[must_use]
    pub fn owner_config(&self, database: &str) -> Config {
        self.config("multica", database)
    }

    /// Restarts the server whenever it has died. Runs until dropped, or until a stop was asked for.
    pub async fn watch(&self) {
        loop {
            tokio::time::sleep(self.options.watch_interval).await;
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            self.reap();
            if self.postmaster().is_some() {
                continue;
            }
            tracing::warn!(log = %self.layout.log.display(), "PostgreSQL has died, starting it again");
            if let Err(error) = self.bring_up().await {
                tracing::error!(
                    error = %crate::kernel::error_chain::Chain(&error),
                    next_step = error.next_step(),
                    "PostgreSQL can't be started again, trying on"
                );
            }
        }
    }

    /// Stops the server: sessions are ended and a checkpoint is written; after 20 s at once.
    ///
    /// # Errors
    /// [`EmbeddedError::File`] when it can't be signalled.
    pub async fn stop(&self) -> Result<(), EmbeddedError> {
        self.stopping.store(true, Ordering::SeqCst);
        postmaster::stop(&self.layout.data, || self.reap()).await
    }

    /// Waits for a living server, else starts one. Says whether there was one.
    async fn bring_up(&self) -> Result<bool, EmbeddedError> {
        let start = postmaster::Start {
            layout: &self.layout,
            programs: &self.programs,
            account: &self.account,
            durable: self.options.durable,
            patience: self.options.start_patience,
            probe: self.owner_config("postgres"),
            reap: &|| self.reap(),
        };
        let (child, reused) = start.run().await?;
        if child.is_some() {
            *self.child.lock().unwrap_or_else(PoisonError::into_inner) = child;
        }
        Ok(reused)
    }

    async fn make_database(&self) -> Result<(), EmbeddedError> {
        let failed = |source| EmbeddedError::Database { database: DATABASE.to_owned(), source };
        let (client, connection) =
            self.owner_config("postgres").connect(tokio_postgres::NoTls).await.map_err(failed)?;
        let driver = tokio::spawn(connection);
        let there = client
            .query_opt(include_str!("../sql/database_exists.sql"), &[&DATABASE])
            .await
            .map_err(failed)?;
        if there.is_none() {
            client.batch_execute(include_str!("../sql/create_database.sql")).await.map_err(failed)?;
        }
        drop(client);
        driver.abort();
        Ok(())
    }

    fn config(&self, user: &str, database: &str) -> Config {
        let mut config = Config::new();
        config.host_path(&self.layout.run).user(user).dbname(database).application_name("multica");
        config
    }

    fn reap(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None))) {
            *child = None;
        }
    }
}
