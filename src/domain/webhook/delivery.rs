//! One delivery: what it is called, what came of an attempt, when the next one is due.
//!
//! Invariants: a delivery's id follows from webhook and event, so that every attempt and every replay has the same;
//! the wait before an attempt is never shorter than the schedule says.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kernel::ids::{WebhookId, digest_uuid};
use crate::kernel::limits::Limits;

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// The operator doesn't allow the address that the name leads to.
    AddressRefused,
    /// The event can't be read in the log.
    EventUnreadable,
    /// The receiver wants nothing any more (410).
    Gone,
    /// The name leads nowhere.
    NameUnknown,
    /// The receiver sent it somewhere else; redirects aren't followed.
    Redirected,
    /// The secret can't be read with this installation's key.
    SecretUnreadable,
    /// The receiver answered with another status than 2xx.
    Status,
    /// The receiver's certificate isn't one that is trusted, or there was no TLS at all.
    Tls,
    /// The receiver took too long.
    TimedOut,
    /// The receiver could not be reached, or broke the connection off.
    Unreachable,
}

impl Problem {
    /// Every problem there is.
    pub const ALL: [Self; 10] = [
        Self::AddressRefused,
        Self::EventUnreadable,
        Self::Gone,
        Self::NameUnknown,
        Self::Redirected,
        Self::SecretUnreadable,
        Self::Status,
        Self::Tls,
        Self::TimedOut,
        Self::Unreachable,
    ];

    /// The word for it in tables and answers, as in the event.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AddressRefused => "address_refused",
            Self::EventUnreadable => "event_unreadable",
            Self::Gone => "gone",
            Self::NameUnknown => "name_unknown",
            Self::Redirected => "redirected",
            Self::SecretUnreadable => "secret_unreadable",
            Self::Status => "status",
            Self::Tls => "tls",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
        }
    }

    /// The problem of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|problem| problem.name() == name)
    }

    /// What it means, as part of a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::AddressRefused => "the operator doesn't allow its address",
            Self::EventUnreadable => "the event can't be read",
            Self::Gone => "the receiver wants nothing any more",
            Self::NameUnknown => "its name leads nowhere",
            Self::Redirected => "the receiver sent it somewhere else",
            Self::SecretUnreadable => "its secret can't be read",
            Self::Status => "the receiver didn't take it",
            Self::Tls => "no trusted certificate",
            Self::TimedOut => "the receiver took too long",
            Self::Unreachable => "the receiver can't be reached",
        }
    }
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Why it failed; none when the receiver took it.
    pub problem: Option<Problem>,
    /// The status that the receiver answered with, if it did.
    pub status: Option<u16>,
    /// How long the receiver asks to be left alone, seconds.
    pub retry_after: Option<u64>,
}

impl Outcome {
    /// It failed before the receiver said anything.
    #[must_use]
    pub const fn failed(problem: Problem) -> Self {
        Self { problem: Some(problem), status: None, retry_after: None }
    }

    /// What an answer's status means.
    #[must_use]
    pub const fn of_status(status: u16, retry_after: Option<u64>) -> Self {
        let problem = match status {
            200..=299 => None,
            300..=399 => Some(Problem::Redirected),
            410 => Some(Problem::Gone),
            _ => Some(Problem::Status),
        };
        Self { problem, status: Some(status), retry_after }
    }
}

/// The id of an event's delivery to a webhook: the same for every attempt, so that a receiver knows it again.
#[must_use]
pub fn id(webhook: WebhookId, position: i64) -> String {
    let id = digest_uuid(&[b"webhook-delivery", webhook.0.as_bytes(), &position.to_be_bytes()]);
    format!("msg_{}", id.simple())
}

/// How long after a failed attempt the next one is due; none when that was the last. `attempts` have been made,
/// `random` spreads those that failed together.
#[must_use]
pub fn wait(limits: &Limits, attempts: u32, outcome: Outcome, random: u32) -> Option<Duration> {
    let done = usize::try_from(attempts).unwrap_or(usize::MAX);
    let base = limits.webhook_retries.get(done.checked_sub(1)?)?.duration();
    let spread = base.mul_f64(f64::from(limits.webhook_jitter_percent) / 100.0);
    let jittered = base + spread.mul_f64(f64::from(random) / f64::from(u32::MAX));
    let asked = Duration::from_secs(outcome.retry_after.unwrap_or_default());
    Some(jittered.max(asked.min(limits.webhook_retry_after.duration())))
}
