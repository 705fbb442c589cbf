//! From an error's words, or its HTTP status, to a failure reason.
//!
//! Words that name one cause go before the status, because services say "400" for many things; words
//! that many causes share go after it.

use crate::kernel::text;

/// The most of an error's words that is looked at, bytes: the cause stands at the front.
const LOOKED_AT: usize = 8 * 1_024;

/// Words that name one cause. The first that is found decides.
const TELLING: &[(&str, &[&str])] = &[
    (
        "agent_error.context_overflow",
        &[
            "prompt is too long",
            "context_length_exceeded",
            "context length",
            "context window",
            "contextoverflow",
            "maximum context",
            "input is too long",
        ],
    ),
    (
        "agent_error.provider_quota_limit",
        &[
            "insufficient_quota",
            "quota exceeded",
            "exceeded your current quota",
            "credit balance",
            "usage limit",
            "billing_error",
            "spending limit",
            "hit your limit",
        ],
    ),
    (
        "agent_error.model_not_found_or_unavailable",
        &[
            "model_not_found",
            "modelnotfound",
            "model not found",
            "issue with the selected model",
            "unknown model",
            "model is not supported",
            "does not exist or you do not have access",
        ],
    ),
];

/// Words that several causes share, from the more to the less telling.
const HINTING: &[(&str, &[&str])] = &[
    (
        "agent_error.provider_auth_or_access",
        &[
            "unauthorized",
            "authentication",
            "failed to authenticate",
            "invalid api key",
            "incorrect api key",
            "not logged in",
            "please run /login",
            "permission_error",
            "forbidden",
        ],
    ),
    (
        "agent_error.missing_config",
        &[
            "missing environment variable",
            "no api key",
            "error loading config",
            "configinvalid",
            "cannot be used with root",
        ],
    ),
    (
        "agent_error.provider_network",
        &[
            "econnrefused",
            "connectionrefused",
            "connection refused",
            "econnreset",
            "connection reset",
            "enotfound",
            "etimedout",
            "unable to connect",
            "failed to connect",
            "error sending request",
            "connection error",
            "network error",
            "socket hang up",
            "stream disconnected",
            "request timed out",
        ],
    ),
    (
        "agent_error.provider_capacity_or_rate_limit",
        &["overloaded", "rate limit", "rate_limit", "too many requests", "high demand", "at capacity"],
    ),
    (
        "agent_error.provider_server_error",
        &[
            "internal server error",
            "unexpected server error",
            "server_error",
            "bad gateway",
            "service unavailable",
            "gateway timeout",
        ],
    ),
    (
        "agent_error.runtime_version_unsupported",
        &["version is no longer supported", "unsupported version", "requires node"],
    ),
    ("api_invalid_request", &["invalid_request", "invalid request", "bad request"]),
    ("agent_error.agent_timeout", &["timed out"]),
];

/// The reason that an error's words or status tell, if they tell one.
pub(super) fn reason(status: Option<u64>, words: &str) -> Option<&'static str> {
    let words = text::head(words, LOOKED_AT).to_lowercase();
    by_words(&words, TELLING)
        .or_else(|| status.or_else(|| status_in(&words)).and_then(|status| by_status(status, &words)))
        .or_else(|| by_words(&words, HINTING))
}

fn by_words(words: &str, table: &[(&'static str, &[&str])]) -> Option<&'static str> {
    table.iter().find(|(_, said)| said.iter().any(|phrase| words.contains(phrase))).map(|(reason, _)| *reason)
}

fn by_status(status: u64, words: &str) -> Option<&'static str> {
    match status {
        401 | 403 => Some("agent_error.provider_auth_or_access"),
        402 => Some("agent_error.provider_quota_limit"),
        404 if words.contains("model") => Some("agent_error.model_not_found_or_unavailable"),
        408 => Some("agent_error.provider_network"),
        413 => Some("agent_error.context_overflow"),
        429 | 529 => Some("agent_error.provider_capacity_or_rate_limit"),
        500..=599 => Some("agent_error.provider_server_error"),
        400..=499 => Some("api_invalid_request"),
        _ => None,
    }
}

/// An HTTP error status that the words name as one.
fn status_in(words: &str) -> Option<u64> {
    let mut before = "";
    for word in words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let named = matches!(before, "status" | "error" | "code" | "http" | "rejected" | "statuscode");
        if named
            && word.len() == 3
            && let Ok(status @ 400..=599) = word.parse()
        {
            return Some(status);
        }
        before = word;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::task::failure;

    #[test]
    fn every_reason_stands_in_the_catalogue() {
        for (reason, _) in TELLING.iter().chain(HINTING) {
            assert!(failure::find(reason).is_some(), "{reason}");
        }
        for status in 400..600 {
            let reason = by_status(status, "model").unwrap_or_default();
            assert!(failure::find(reason).is_some(), "{status}");
        }
    }

    #[test]
    fn what_the_clis_were_seen_to_say_is_understood() {
        for (words, expected) in [
            (
                "API Error: 529 scripted. This is a server-side issue",
                "agent_error.provider_capacity_or_rate_limit",
            ),
            ("API Error: Request rejected (429) · scripted", "agent_error.provider_capacity_or_rate_limit"),
            (
                "We’re currently experiencing high demand, which may cause",
                "agent_error.provider_capacity_or_rate_limit",
            ),
            ("API Error: 500 scripted", "agent_error.provider_server_error"),
            (
                "Failed to authenticate. API Error: 401 Incorrect API key",
                "agent_error.provider_auth_or_access",
            ),
            ("API Error: 400 scripted", "api_invalid_request"),
            (
                "unexpected status 401 Unauthorized: scripted, url: http://127.0.0.1:3/v1",
                "agent_error.provider_auth_or_access",
            ),
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                "agent_error.provider_capacity_or_rate_limit",
            ),
            ("Quota exceeded. Check your plan and billing details.", "agent_error.provider_quota_limit"),
            ("Codex ran out of room in the model's context window.", "agent_error.context_overflow"),
            (
                "The model gpt-5 does not exist or you do not have access to it.",
                "agent_error.model_not_found_or_unavailable",
            ),
            ("API Error: Unable to connect to API (ConnectionRefused)", "agent_error.provider_network"),
            ("Unexpected server error. Check server logs for details.", "agent_error.provider_server_error"),
        ] {
            assert_eq!(reason(None, words), Some(expected), "{words}");
        }
    }

    #[test]
    fn numbers_that_are_no_status_and_unknown_words_tell_nothing() {
        for words in ["", "wrote 500 files", "listening on port 429", "it broke", "status 200"] {
            assert_eq!(reason(None, words), None, "{words}");
        }
    }
}
