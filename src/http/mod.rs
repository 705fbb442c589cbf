//! Routes, authentication and the feed: the only place that knows HTTP on the server's side.
//!
//! Invariants: a request names a known host, carries an identity wherever it touches a workspace, and
//! sees that workspace only; every mutation is one command with its position in the answer; every error
//! is a problem document; every body is bounded and without NUL; streams and long polls end on shutdown.
//!
//! Not here: rules (`app`, `domain`), reads (`readmodel`), pages (`web`).

pub mod assign;
pub mod auth;
pub mod body;
pub mod error;
pub mod explain;
pub mod feed;
pub mod hosts;
pub mod idempotency;
pub mod limits;
pub mod objects;
pub mod pages;
pub mod position;
mod router;
pub mod routes;
pub mod speaker;
pub mod tail;
pub mod token;

use std::ops::Deref;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use self::router::router;
use crate::app::writer::Writer;
use crate::kernel::limits::Limits;
use crate::kernel::world::World;
use crate::readmodel::Registry;
use crate::store::Store;

/// What every route may use; cheap to clone.
#[derive(Clone)]
pub struct App(pub Arc<Parts>);

/// See [`App`].
pub struct Parts {
    /// Writes commands.
    pub writer: Writer,
    /// The database.
    pub store: Store,
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
    /// Fires when the server stops.
    pub shutdown: CancellationToken,
}

impl Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Serves until `App::shutdown` fires, then until the open requests are done or the drain's time is over.
///
/// # Errors
/// Those of the listener.
pub async fn serve(app: App, listener: TcpListener) -> std::io::Result<()> {
    let shutdown = app.shutdown.clone();
    let deadline = app.limits.server_stop.duration();
    let server =
        axum::serve(listener, router(app)).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    tokio::select! {
        ended = std::future::IntoFuture::into_future(server) => ended,
        () = async { shutdown.cancelled().await; tokio::time::sleep(deadline).await } => Ok(()),
    }
}
