//! Which names this server answers under: loopback is no border, a page elsewhere may name us.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::error::ApiError;

/// The known values of `Host`.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    known: BTreeSet<String>,
}

impl Hosts {
    /// The loopback names with the address' port, the address itself, and what was configured (with or
    /// without a port).
    #[must_use]
    pub fn new(address: SocketAddr, configured: &[String]) -> Self {
        let port = address.port();
        let mut known: BTreeSet<String> =
            ["127.0.0.1", "localhost", "[::1]"].iter().map(|host| format!("{host}:{port}")).collect();
        if !address.ip().is_unspecified() {
            known.insert(address.to_string());
        }
        for host in configured {
            let host = host.to_ascii_lowercase();
            known.insert(format!("{host}:{port}"));
            known.insert(host);
        }
        Self { known }
    }

    /// Whether this server answers under that name.
    #[must_use]
    pub fn knows(&self, host: &str) -> bool {
        self.known.contains(&host.to_ascii_lowercase())
    }
}

/// Refuses requests that name another host.
pub async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let named = request
        .headers()
        .get(header::HOST)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned)
        .or_else(|| request.uri().authority().map(ToString::to_string));
    match named {
        Some(host) if app.hosts.knows(&host) => next.run(request).await,
        Some(_) | None => ApiError::UnknownHost.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_with_the_port_and_configured_names_are_known() {
        let hosts = Hosts::new(SocketAddr::from(([127, 0, 0, 1], 4000)), &["multica.example".to_owned()]);
        for known in ["127.0.0.1:4000", "LOCALHOST:4000", "[::1]:4000", "multica.example"] {
            assert!(hosts.knows(known), "{known}");
        }
        for unknown in ["127.0.0.1", "127.0.0.1:4001", "evil.example:4000", ""] {
            assert!(!hosts.knows(unknown), "{unknown}");
        }
    }
}
