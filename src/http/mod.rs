//! Routes, authentication and the feed: the only place that knows HTTP on the server's side.
//!
//! Invariants: a request names a known host, carries an identity wherever it touches a workspace, and
//! sees that workspace only; every mutation is one command with its position in the answer; every error
//! is a problem document; every body is bounded and without NUL; streams and long polls end on shutdown.
//!
//! Not here: rules (`app`, `domain`), reads (`readmodel`), pages (`web`).

pub mod as_of;
pub mod assign;
pub mod audit;
pub mod auth;
pub mod body;
pub mod error;
pub mod explain;
pub mod export;
pub mod feed;
pub mod hosts;
pub mod idempotency;
pub mod left_out;
pub mod limits;
pub mod objects;
pub mod pages;
pub mod position;
mod router;
pub mod routes;
mod serve;
pub mod speaker;
pub mod tail;
pub mod token;

use std::ops::Deref;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use self::router::router;
pub use self::serve::serve;
use crate::app::seals::Seals;
use crate::app::set_aside::SetAside;
use crate::app::webhooks::Webhooks;
use crate::app::writer::Writer;
use crate::kernel::ids::TaskId;
use crate::kernel::limits::Limits;
use crate::kernel::world::World;
use crate::readmodel::Registry;
use crate::store::{AsOf, Store};

/// What every route may use; cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The database: as it is, or as of the moment that a reader asked for.
    pub store: Store,
    parts: Arc<Parts>,
}

impl App {
    /// Puts it together.
    #[must_use]
    pub fn new(store: Store, parts: Parts) -> Self {
        Self { store, parts: Arc::new(parts) }
    }

    /// The same whose reads show what was at a moment.
    #[must_use]
    pub fn at(&self, moment: AsOf) -> Self {
        Self { store: self.store.at(moment), parts: Arc::clone(&self.parts) }
    }

    /// The clock that what is shown goes by: the moment asked for, or now.
    #[must_use]
    pub fn now(&self) -> jiff::Timestamp {
        self.store.as_of().map_or_else(|| self.world.now(), |moment| moment.time)
    }
}

/// See [`App`].
pub struct Parts {
    /// Writes commands.
    pub writer: Writer,
    /// The read models.
    pub registry: Arc<Registry>,
    /// Clock and randomness.
    pub world: Arc<dyn World>,
    /// The bounds in force.
    pub limits: Limits,
    /// The installation's key.
    pub key: token::InstanceKey,
    /// Names this server answers under.
    pub hosts: hosts::Hosts,
    /// What the readers of the live feed share.
    pub tail: tail::Tail,
    /// Tasks that can't be given to their daemons because the log is damaged there.
    pub damaged_tasks: SetAside<TaskId>,
    /// What seals the log.
    pub seals: Arc<Seals>,
    /// For how many days transcripts are kept; none: for ever.
    pub keep_transcripts: Option<u32>,
    /// What delivers to webhooks.
    pub webhooks: Arc<Webhooks>,
    /// Fires when the server stops.
    pub shutdown: CancellationToken,
}

impl Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.parts
    }
}
