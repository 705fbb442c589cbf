//! The application's connections, and what is checked before the first is used.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_postgres::{Client, Config, NoTls};
use tokio_util::task::AbortOnDropHandle;

use super::StoreError;
use crate::kernel::limits::{Limits, Millis};

/// A connection that ends with its guard.
///
/// # Errors
/// [`StoreError::TimedOut`] when the database accepts but doesn't answer, as one that is stopped does.
pub(super) async fn connect(
    config: &Config,
    wait: Millis,
) -> Result<(Client, AbortOnDropHandle<()>), StoreError> {
    let connected = tokio::time::timeout(wait.duration(), config.connect(NoTls)).await;
    let (client, connection) = connected.map_err(|_| StoreError::TimedOut { waited_ms: wait.0 })??;
    let driver = tokio::spawn(async move {
        // How it ended is told to whoever asks the client.
        drop(connection.await);
    });
    Ok((client, AbortOnDropHandle::new(driver)))
}

/// What is asked of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// fsync, full_page_writes and synchronous_commit must be on.
    Required,
    /// Tests only: acknowledged work may be lost with the machine's power.
    Waived,
}

/// A moment of the log: a position and when it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsOf {
    /// The last position that counts; 0 before the first.
    pub position: i64,
    /// When it was recorded.
    pub time: Timestamp,
}

/// The application's way to the database; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
    as_of: Option<AsOf>,
}

#[derive(Debug)]
struct Inner {
    pool: Pool,
    config: Config,
    head: watch::Sender<i64>,
    limits: Limits,
}

impl Store {
    /// Opens the pool and checks the role's rights and the cluster's durability.
    ///
    /// # Errors
    /// [`StoreError::RoleTooMighty`], [`StoreError::NotDurable`], [`StoreError::Unavailable`].
    pub async fn open(
        mut config: Config,
        limits: &Limits,
        durability: Durability,
    ) -> Result<Self, StoreError> {
        let mut options = config.get_options().unwrap_or_default().to_owned();
        let timeout = limits.statement_timeout.0;
        for setting in [
            format!(" -c statement_timeout={timeout}"),
            format!(" -c idle_in_transaction_session_timeout={timeout}"),
            " -c timezone=UTC".to_owned(),
            // Our statements are short: compiling them takes longer than running them.
            " -c jit=off".to_owned(),
        ] {
            options.push_str(&setting);
        }
        config.options(options.trim()).connect_timeout(limits.database_wait.duration());
        let manager = Manager::from_config(
            config.clone(),
            NoTls,
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let wait = Some(limits.database_wait.duration());
        let age = limits.connection_age.duration();
        let pool = Pool::builder(manager)
            .max_size(limits.database_connections)
            .pre_recycle(Hook::sync_fn(move |_, metrics| {
                if metrics.age() > age { Err(HookError::message("too old")) } else { Ok(()) }
            }))
            .runtime(Runtime::Tokio1)
            .wait_timeout(wait)
            .create_timeout(wait)
            .recycle_timeout(wait)
            .build()
            .map_err(|error| StoreError::Address(Box::new(error)))?;
        let (head, _) = watch::channel(0);
        let store =
            Self { inner: Arc::new(Inner { pool, config, head, limits: limits.clone() }), as_of: None };
        store.check(durability).await?;
        store.advance(super::read::head(&store).await?);
        Ok(store)
    }

    /// The same database as it was at a moment: streams end there, read models answer from their row history.
    #[must_use]
    pub fn at(&self, moment: AsOf) -> Self {
        Self { inner: Arc::clone(&self.inner), as_of: Some(moment) }
    }

    /// The moment that reads are limited to; none when they show what is now.
    #[must_use]
    pub const fn as_of(&self) -> Option<AsOf> {
        self.as_of
    }

    /// The last position that reads may show.
    pub(super) fn last(&self) -> i64 {
        self.as_of.map_or(i64::MAX, |moment| moment.position)
    }

    /// A connection out of the pool.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when none comes in time.
    pub async fn client(&self) -> Result<Object, StoreError> {
        Ok(self.inner.pool.get().await?)
    }

    /// A connection beside the pool that ends with its guard, and so does the statement that runs on it: for
    /// what takes long and somebody may stop waiting for.
    ///
    /// # Errors
    /// [`StoreError::TimedOut`] when the database accepts but doesn't answer, as one that is stopped does.
    pub async fn connect_alone(&self) -> Result<(Client, AbortOnDropHandle<()>), StoreError> {
        connect(&self.inner.config, self.inner.limits.database_wait).await
    }

    /// How to open a connection beside the pool, with the same role and timeouts.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The bounds in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Any single statement takes at most this long, the way to the server included.
    #[must_use]
    pub fn answer_timeout(&self) -> Duration {
        self.inner.limits.statement_timeout.duration() + self.inner.limits.database_wait.duration()
    }

    /// The highest position that this process knows of; changes wake who waits.
    #[must_use]
    pub fn head(&self) -> watch::Receiver<i64> {
        self.inner.head.subscribe()
    }

    /// Records that the log has come that far.
    pub fn advance(&self, position: i64) {
        self.inner.head.send_if_modified(|head| {
            let further = position > *head;
            if further {
                *head = position;
            }
            further
        });
    }

    async fn check(&self, durability: Durability) -> Result<(), StoreError> {
        let client = self.client().await?;
        let role = client.query_one(include_str!("sql/check_role.sql"), &[]).await?;
        let excess = if role.get("is_superuser") {
            Some("is a superuser")
        } else if role.get("owns_log") {
            Some("owns the schema of the log")
        } else {
            None
        };
        if let Some(excess) = excess {
            return Err(StoreError::RoleTooMighty { role: role.get("name"), excess });
        }
        if durability == Durability::Waived {
            return Ok(());
        }
        match client.query_opt(include_str!("sql/check_durability.sql"), &[]).await? {
            None => Ok(()),
            Some(row) => Err(StoreError::NotDurable { setting: row.get("name"), value: row.get("setting") }),
        }
    }
}
