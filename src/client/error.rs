//! What can go wrong between us and the server.

use crate::wire::problem::Problem;

use super::http::HttpSetupError;

/// A call to the server failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No HTTP client could be made.
    #[error("can't set up the connection")]
    Setup(#[source] HttpSetupError),
    /// The server's address is no URL.
    #[error("`{text}` is no server address")]
    Address {
        /// What was given.
        text: String,
        /// Why not.
        #[source]
        source: AddressError,
    },
    /// Nobody answered.
    #[error("the server at {base} can't be reached")]
    Unreachable {
        /// The server.
        base: String,
        /// What the transport says.
        #[source]
        source: reqwest::Error,
    },
    /// No answer in time; whether the server did it is not known.
    #[error("the server at {base} didn't answer in time")]
    TimedOut {
        /// The server.
        base: String,
        /// What the transport says.
        #[source]
        source: reqwest::Error,
    },
    /// The server said no.
    #[error("{sentence} ({status} {code})", sentence = .0.sentence, status = .0.status, code = .0.code)]
    Refused(Box<Refused>),
    /// The server's answer isn't what the protocol says.
    #[error("the server's answer to {call} can't be read")]
    Unreadable {
        /// The call.
        call: String,
        /// Where it went wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The request could not be written as JSON.
    #[error("the request for {call} can't be written")]
    Unwritable {
        /// The call.
        call: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A long answer began and went no further.
    #[error("the server at {base} broke off its answer")]
    Silent {
        /// The server.
        base: String,
    },
    /// The token has characters that no header can hold.
    #[error("the token can't be sent in a header")]
    BadToken,
}

/// Why a text is no server address.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It doesn't parse.
    #[error("expected something like http://127.0.0.1:8080")]
    Form(#[source] url_parse::ParseError),
    /// Another scheme.
    #[error("expected http or https (ws and wss are taken for them)")]
    Scheme,
}

/// The URL parser's error, under a name of its own: the crate is only reached through the HTTP client.
pub mod url_parse {
    /// See [`super::AddressError::Form`].
    pub type ParseError = <reqwest::Url as std::str::FromStr>::Err;
}

/// A refusal as the server worded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The HTTP status.
    pub status: u16,
    /// The stable code; empty where a server gives none.
    pub code: String,
    /// A sentence.
    pub sentence: String,
    /// What to do now; empty where a server gives none.
    pub next_step: String,
    /// How long to wait before another try, where the server says.
    pub retry_after: Option<std::time::Duration>,
}

impl Refused {
    /// Reads a refusal from an answer's body, whatever shape it has.
    #[must_use]
    pub fn from_body(status: u16, body: &[u8], retry_after: Option<std::time::Duration>) -> Self {
        if let Ok(problem) = serde_json::from_slice::<Problem>(body) {
            let Problem { detail, code, next_step, .. } = problem;
            return Self { status, code, sentence: detail, next_step, retry_after };
        }
        let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let text =
            |key: &str| value.get(key).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let mut sentence = text("detail");
        if sentence.is_empty() {
            sentence = text("error");
        }
        if sentence.is_empty() {
            sentence = format!("the server answered {status}");
        }
        Self { status, code: text("code"), sentence, next_step: text("next_step"), retry_after }
    }
}

impl ClientError {
    /// The server's refusal, if it is one.
    #[must_use]
    pub fn refused(&self) -> Option<&Refused> {
        match self {
            Self::Refused(refused) => Some(refused),
            _ => None,
        }
    }

    /// The HTTP status, if there was an answer.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.refused().map(|refused| refused.status)
    }

    /// The stable code, empty if there is none.
    #[must_use]
    pub fn code(&self) -> &str {
        self.refused().map_or("", |refused| refused.code.as_str())
    }

    /// Whether the same call may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Silent { .. } => true,
            // `contended`: nothing was decided, others were faster again and again.
            Self::Refused(refused) => {
                refused.status >= 500
                    || matches!(refused.status, 408 | 425 | 429)
                    || refused.code == "contended"
            }
            // A proxy's page between two good answers: the next answer may be ours again.
            Self::Unreadable { .. } => true,
            Self::Setup(_) | Self::Address { .. } | Self::Unwritable { .. } | Self::BadToken => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_document_and_a_bare_error_are_both_read() {
        let ours = br#"{"type":"about:blank","title":"Conflict","status":409,"detail":"It is taken.",
            "error":"It is taken.","code":"taken","next_step":"Use another."}"#;
        let read = Refused::from_body(409, ours, None);
        assert_eq!((read.code.as_str(), read.next_step.as_str()), ("taken", "Use another."));
        let other = Refused::from_body(404, br#"{"error":"task not found"}"#, None);
        assert_eq!(other.sentence, "task not found");
        assert_eq!(Refused::from_body(502, b"<html>", None).sentence, "the server answered 502");
    }

    #[test]
    fn only_what_may_pass_by_itself_is_transient() {
        let refused = |status| ClientError::Refused(Box::new(Refused::from_body(status, b"", None)));
        assert!(refused(503).is_transient() && refused(429).is_transient() && refused(408).is_transient());
        let contended = Refused::from_body(409, br#"{"error":"busy","code":"contended"}"#, None);
        assert!(ClientError::Refused(Box::new(contended)).is_transient());
        assert!(!refused(409).is_transient() && !refused(401).is_transient() && !refused(422).is_transient());
    }
}
