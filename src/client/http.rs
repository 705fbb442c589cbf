//! The one constructor of HTTP clients.
//!
//! Invariants: TLS by rustls with the ring provider, installed once for the process; a loopback server is
//! never asked through a proxy; redirects aren't followed, so that a token goes only where it was meant to;
//! certificates are read where TLS can be spoken, and nowhere else.

use std::sync::Once;

use crate::kernel::limits::{Limits, Millis};

/// The methods of HTTP, for those that don't import the library.
pub mod method {
    use reqwest::Method;

    /// Takes something away.
    pub const DELETE: Method = Method::DELETE;
    /// Replaces something.
    pub const PUT: Method = Method::PUT;
}

/// The HTTP client could not be made.
#[derive(Debug, thiserror::Error)]
#[error("can't set up HTTP")]
pub struct HttpSetupError(#[source] reqwest::Error);

static PROVIDER: Once = Once::new();

/// Makes an HTTP client for a server at `base`.
///
/// It has no total time limit: each call sets its own, because a long poll and a feed wait on purpose.
///
/// # Errors
/// When the system's certificates can't be read.
pub fn http_client(limits: &Limits, base: &reqwest::Url) -> Result<reqwest::Client, HttpSetupError> {
    let mut builder = builder()
        .connect_timeout(limits.http_timeout.duration())
        .pool_idle_timeout(limits.connection_idle.duration())
        .redirect(reqwest::redirect::Policy::none())
        .tcp_nodelay(true);
    if is_loopback(base) {
        builder = builder.no_proxy();
        if base.scheme() == "http" {
            // Neither the server nor a proxy nor a redirect speaks TLS: a command need not read the machine's
            // hundreds of certificates first, which takes longer than most answers.
            builder = builder.tls_certs_only([]);
        }
    }
    builder.build().map_err(HttpSetupError)
}

/// Makes an HTTP client for receivers that strangers name: whose names `resolver` resolves, and nobody else (no
/// proxy either); each request on a connection of its own, and over within `within`.
///
/// # Errors
/// When the system's certificates can't be read.
pub fn outside_client<R: reqwest::dns::Resolve + 'static>(
    within: Millis,
    resolver: R,
    secure: bool,
) -> Result<reqwest::Client, HttpSetupError> {
    let mut builder = builder()
        .no_proxy()
        .dns_resolver(std::sync::Arc::new(resolver))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .timeout(within.duration())
        .pool_max_idle_per_host(0)
        .referer(false)
        .user_agent(concat!("multica/", env!("CARGO_PKG_VERSION")))
        .https_only(secure);
    if !secure {
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(HttpSetupError)
}

fn builder() -> reqwest::ClientBuilder {
    PROVIDER.call_once(|| {
        // An error here only says that one is installed already, which is what is wanted.
        drop(rustls::crypto::ring::default_provider().install_default());
    });
    reqwest::Client::builder()
}

/// Whether the address is this machine itself.
#[must_use]
pub fn is_loopback(url: &reqwest::Url) -> bool {
    url.host_str().is_some_and(|host| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_in_all_its_spellings() {
        for text in ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:80"] {
            assert!(is_loopback(&reqwest::Url::parse(text).expect("a url")), "{text}");
        }
        assert!(!is_loopback(&reqwest::Url::parse("https://example.org").expect("a url")));
    }
}
