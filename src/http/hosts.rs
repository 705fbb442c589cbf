//! Which names this server answers under: loopback is no border, a page elsewhere may name us.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
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
    if all_known(&app.hosts, request.headers(), request.uri()) {
        return next.run(request).await;
    }
    ApiError::UnknownHost.into_response()
}

/// Whether a request names this server, and nobody else beside it: of two names somebody in between may
/// have looked at the other one.
fn all_known(hosts: &Hosts, headers: &HeaderMap, uri: &Uri) -> bool {
    let of_header = headers.get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or_default());
    let of_uri = uri.authority().map(Authority::as_str);
    let named: Vec<&str> = of_header.chain(of_uri).collect();
    !named.is_empty() && named.iter().all(|host| hosts.knows(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_that_a_request_gives_has_to_be_known() {
        let hosts = Hosts::new(SocketAddr::from(([127, 0, 0, 1], 4000)), &[]);
        let asked = |names: &[&'static str], uri: &'static str| {
            let mut headers = HeaderMap::new();
            for name in names {
                headers.append(header::HOST, axum::http::HeaderValue::from_static(name));
            }
            all_known(&hosts, &headers, &Uri::from_static(uri))
        };
        let (ours, other) = ("127.0.0.1:4000", "evil.example");
        assert!(asked(&[ours], "/") && asked(&[ours], "http://localhost:4000/"));
        assert!(!asked(&[], "/") && !asked(&[other], "/"));
        assert!(!asked(&[ours, other], "/") && !asked(&[ours], "http://evil.example/"));
    }

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
