//! Serves connections until the server stops.
//!
//! Invariants: a connection that asks nothing, or never finishes asking, is closed after the limit's time;
//! one whose request is being answered is held as long as the answer takes; a client that leaves ends what
//! was being done for it.
//!
//! Not here: how long an answer may take (`limits`).

use std::io;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{App, router};

type Service = TowerToHyperService<Router>;

/// Serves until `App::shutdown` fires, then until the open requests are done or the drain's time is over.
///
/// # Errors
/// None now; a listener that can't accept is tried again.
pub async fn serve(app: App, listener: TcpListener) -> io::Result<()> {
    let (limits, shutdown) = (app.limits.clone(), app.shutdown.clone());
    let service = TowerToHyperService::new(router(app));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_read.duration());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(hold(http.clone(), stream, service.clone(), shutdown.clone()));
                }
                Err(error) if is_the_clients(&error) => {}
                Err(error) => {
                    // Out of file descriptors, most likely: some come free, and the others go on meanwhile.
                    tracing::error!(%error, "no connection can be accepted, trying again");
                    tokio::time::sleep(limits.accept_pause.duration()).await;
                }
            }
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.server_stop.duration(), all).await.is_err() {
        tracing::warn!("some requests were still being answered when the server stopped");
    }
    Ok(())
}

/// Answers one connection's requests.
async fn hold(http: http1::Builder, stream: TcpStream, service: Service, shutdown: CancellationToken) {
    // Without it small frames of the feed wait for others; a socket that refuses it works all the same.
    drop(stream.set_nodelay(true));
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Whether the client was gone before it was accepted.
fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
