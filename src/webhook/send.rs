//! One attempt: a signed request, and what the receiver's answer means.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};

use super::address::{Allowed, Refused, Target};
use super::sign::signatures;
use crate::client::http::{HttpSetupError, outside_client};
use crate::domain::webhook::{Outcome, Problem};
use crate::kernel::error_chain::Chain;
use crate::kernel::limits::Limits;

/// Sends to receivers that the operator allows.
#[derive(Debug, Clone)]
pub struct Sender {
    secure: reqwest::Client,
    plain: reqwest::Client,
    allowed: Arc<Allowed>,
}

/// What is sent.
#[derive(Debug, Clone)]
pub struct Message {
    /// Its id: the same for every attempt.
    pub id: String,
    /// When it is sent, seconds since 1970.
    pub timestamp: i64,
    /// What is signed and sent, byte for byte.
    pub body: Vec<u8>,
}

impl Sender {
    /// One that heeds these rules.
    ///
    /// # Errors
    /// When the system's certificates can't be read.
    pub fn new(limits: &Limits, allowed: Allowed) -> Result<Self, HttpSetupError> {
        let allowed = Arc::new(allowed);
        let client = |secure| {
            let guard = Guard { allowed: Arc::clone(&allowed), secure };
            outside_client(limits.webhook_timeout, guard, secure)
        };
        Ok(Self { secure: client(true)?, plain: client(false)?, allowed })
    }

    /// Whether a receiver may be sent to, as its name leads now; a name that leads nowhere may come to.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn may(&self, target: &Target) -> Result<(), Refused> {
        if let Some(address) = target.literal() {
            return self.allowed.may(&target.host, address, target.secure);
        }
        match resolved(&self.allowed, &target.host, target.secure).await {
            Err(NoAddress::Refused(refused)) => Err(refused),
            Ok(_) | Err(NoAddress::Unknown(_)) => Ok(()),
        }
    }

    /// Sends a message once; says how long it took besides.
    pub async fn send(&self, target: &Target, message: Message, secrets: &[Vec<u8>]) -> (Outcome, Duration) {
        let started = Instant::now();
        // Nobody resolves an address: it is looked at here.
        let allowed = target.literal().map(|address| self.allowed.may(&target.host, address, target.secure));
        if let Some(Err(refused)) = allowed {
            tracing::debug!(host = target.host, %refused, "a webhook's address is refused");
            return (Outcome::failed(Problem::AddressRefused), started.elapsed());
        }
        let client = if target.secure { &self.secure } else { &self.plain };
        let signature = signatures(secrets, &message.id, message.timestamp, &message.body);
        let answer = client
            .post(target.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", message.timestamp.to_string())
            .header("webhook-signature", signature)
            .body(message.body)
            .send()
            .await;
        let outcome = match answer {
            Ok(answer) => {
                let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
                // Its body is a stranger's and is left where it is; the connection ends with the answer.
                Outcome::of_status(
                    answer.status().as_u16(),
                    retry_after.and_then(|text| text.trim().parse().ok()),
                )
            }
            Err(error) => {
                let outcome = Outcome::failed(problem(&error));
                tracing::debug!(host = target.host, error = %Chain(&error.without_url()), "a delivery failed");
                outcome
            }
        };
        (outcome, started.elapsed())
    }
}

fn problem(error: &reqwest::Error) -> Problem {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(cause) = next {
        match cause.downcast_ref::<NoAddress>() {
            Some(NoAddress::Refused(_)) => return Problem::AddressRefused,
            Some(NoAddress::Unknown(_)) => return Problem::NameUnknown,
            None => {}
        }
        if cause.is::<rustls::Error>() {
            return Problem::Tls;
        }
        // An I/O error that wraps another one passes it over: it names that one's cause as its own.
        let wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = wrapped.map(|inner| inner as &(dyn Error + 'static)).or_else(|| cause.source());
    }
    if error.is_timeout() { Problem::TimedOut } else { Problem::Unreachable }
}

/// A name has no address that may be spoken to.
#[derive(Debug, thiserror::Error)]
enum NoAddress {
    /// It leads nowhere.
    #[error("the name leads nowhere")]
    Unknown(#[source] io::Error),
    /// It leads only where nothing may be sent.
    #[error("the address is refused")]
    Refused(#[source] Refused),
}

/// Resolves names for the connections of a client; what it answers is connected to and not looked up again.
struct Guard {
    allowed: Arc<Allowed>,
    secure: bool,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (allowed, secure) = (Arc::clone(&self.allowed), self.secure);
        Box::pin(async move {
            let found = resolved(&allowed, name.as_str(), secure).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The addresses of a name that may be spoken to.
async fn resolved(allowed: &Allowed, host: &str, secure: bool) -> Result<Vec<SocketAddr>, NoAddress> {
    let found: Vec<SocketAddr> =
        tokio::net::lookup_host((host, 0)).await.map_err(NoAddress::Unknown)?.collect();
    permitted(allowed, host, secure, found)
}

fn permitted(
    allowed: &Allowed,
    host: &str,
    secure: bool,
    found: Vec<SocketAddr>,
) -> Result<Vec<SocketAddr>, NoAddress> {
    let mut refused = None;
    let mut may = Vec::new();
    for address in found {
        match allowed.may(host, address.ip(), secure) {
            Ok(()) => may.push(address),
            Err(reason) => refused = Some(reason),
        }
    }
    match refused {
        Some(reason) if may.is_empty() => Err(NoAddress::Refused(reason)),
        _ if may.is_empty() => Err(NoAddress::Unknown(io::Error::from(io::ErrorKind::NotFound))),
        _ => Ok(may),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_name_s_addresses_only_those_are_connected_to_that_may_be() {
        let found = ["169.254.169.254:0", "93.184.216.34:0", "[::1]:0"].map(|text| text.parse().expect(text));
        let may =
            permitted(&Allowed::default(), "two.example.com", true, found.to_vec()).expect("one may be");
        assert_eq!(may, [found[1]]);
        let none = permitted(&Allowed::default(), "inside.example.com", true, vec![found[0], found[2]]);
        assert!(matches!(none, Err(NoAddress::Refused(Refused::NotPublic))), "{none:?}");
        let nothing = permitted(&Allowed::default(), "nowhere.example.com", true, Vec::new());
        assert!(matches!(nothing, Err(NoAddress::Unknown(_))), "{nothing:?}");
    }
}
