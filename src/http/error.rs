//! What a request can come to grief on, and the one place where that becomes a problem document.
//!
//! Invariants: every error answer of every route is `application/problem+json` with `error`, `code` and
//! `next_step`; a cause that isn't the caller's is logged once, here, and never shown.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::app::AppError;
use crate::app::writer::check::EventRefusal;
use crate::domain::codec::CodecError;
use crate::domain::{Refusal, RefusalKind};
use crate::kernel::error_chain::Chain;
use crate::kernel::limits::Millis;
use crate::kernel::text;
use crate::readmodel::ReadModelError;
use crate::store::StoreError;
use crate::wire::problem::Problem;

/// Why a request isn't answered as asked.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// A rule says no.
    #[error("refused")]
    Refused(#[source] Refusal),
    /// Nobody known asks.
    #[error("not signed in")]
    Unauthenticated,
    /// A known one asks for what isn't theirs.
    #[error("not allowed")]
    Forbidden {
        /// Stable code.
        code: &'static str,
        /// A sentence.
        sentence: &'static str,
    },
    /// The route knows other methods only.
    #[error("method not allowed")]
    MethodNotAllowed,
    /// The named thing isn't there, or not for this caller.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// No route has that path.
    #[error("no such route")]
    NoRoute,
    /// What the caller calls by name or id isn't there, or not for this caller.
    #[error("no {kind} is called {reference}")]
    Unknown {
        /// task, issue, ….
        kind: &'static str,
        /// As it was given.
        reference: String,
        /// What it may have meant, as a sentence; empty when nothing is near.
        near: String,
    },
    /// A sign-in link that signs nobody in any more.
    #[error("sign-in link spent")]
    LinkSpent,
    /// A reference fits several things.
    #[error("ambiguous reference")]
    Ambiguous {
        /// What it fits.
        matches: Vec<String>,
    },
    /// The request can't be right.
    #[error("invalid request")]
    Invalid {
        /// Stable code.
        code: &'static str,
        /// The field that is wrong, where it can be said.
        field: Option<String>,
        /// A sentence.
        sentence: String,
    },
    /// The request can't be right, and what helps is known.
    #[error("wrong request")]
    Wrong {
        /// Stable code.
        code: &'static str,
        /// The field that is wrong, where it can be said.
        field: Option<String>,
        /// A sentence.
        sentence: String,
        /// What to do now.
        next_step: String,
    },
    /// The body is longer than this server reads.
    #[error("body over {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: usize,
    },
    /// The body trickles, or never ends.
    #[error("the body didn't come in time")]
    BodyTooSlow {
        /// The time there is.
        within: Millis,
    },
    /// The request names a host that this server isn't.
    #[error("unknown host")]
    UnknownHost,
    /// The answer took too long.
    #[error("request timed out")]
    TimedOut,
    /// The reader is behind what was asked for.
    #[error("reader at {at}, asked for {wanted}")]
    Behind {
        /// How far it is.
        at: i64,
        /// How far it should be.
        wanted: i64,
    },
    /// A command failed.
    #[error("command failed")]
    App(#[from] AppError),
    /// A read failed.
    #[error("read failed")]
    Read(#[from] ReadModelError),
    /// The store failed.
    #[error("store failed")]
    Store(#[from] StoreError),
    /// A read model that doesn't stand still has nothing to pass over.
    #[error("read model {name} doesn't stand still")]
    NotStopped {
        /// Its name.
        name: String,
    },
    /// A stream can't be folded: the log is corrupt there, or a newer build wrote it.
    #[error("a stream can't be folded")]
    Unfoldable {
        /// Where.
        #[source]
        source: crate::domain::Impossible,
    },
    /// A value that the program itself made can't be written.
    #[error("answer can't be written")]
    Encode(#[from] serde_json::Error),
    /// A part of the program panicked.
    #[error("panic")]
    Panic,
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl ApiError {
    /// Tells whether the log itself, or a table made from it, is damaged there.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Unfoldable { .. } => true,
            Self::App(error) => error.is_damage(),
            Self::Read(error) => error.is_damage(),
            Self::Store(error) => error.is_damage(),
            _ => false,
        }
    }

    /// The event of a newer build that is in the way, where that is what is wrong: position, type, version.
    fn newer(&self) -> Option<(i64, &str, i16)> {
        let error: &StoreError = match self {
            Self::App(AppError::Store(error)) => error,
            Self::App(AppError::ReadModel(error)) => match error.as_ref() {
                ReadModelError::Store(error) => error,
                _ => return None,
            },
            Self::Read(ReadModelError::Store(error)) | Self::Store(error) => error,
            _ => return None,
        };
        match error {
            StoreError::Undecodable {
                position,
                source: CodecError::Unknown { event_type, schema_version },
            } => Some((*position, event_type, *schema_version)),
            _ => None,
        }
    }

    /// Nothing is called so.
    pub fn unknown(kind: &'static str, reference: impl std::fmt::Display) -> Self {
        Self::Unknown { kind, reference: reference.to_string(), near: String::new() }
    }

    /// A field that can't be right.
    pub fn field(name: &str, sentence: impl Into<String>) -> Self {
        Self::Invalid { code: "invalid_field", field: Some(name.to_owned()), sentence: sentence.into() }
    }
}

struct Shown {
    status: StatusCode,
    code: String,
    sentence: String,
    next_step: String,
    extra: Map<String, Value>,
    retry_after: Option<&'static str>,
}

/// Seconds until what is short-lived may be over.
const SOON: &str = "1";
/// Seconds between two tries of what somebody has to mend.
const MUCH_LATER: &str = "30";

impl Shown {
    fn new(
        status: StatusCode,
        code: &str,
        sentence: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Self {
        Self {
            status,
            code: code.to_owned(),
            sentence: sentence.into(),
            next_step: next_step.into(),
            extra: Map::new(),
            retry_after: None,
        }
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.extra.insert(name.to_owned(), value);
        self
    }

    fn later(mut self) -> Self {
        self.retry_after = Some(SOON);
        self
    }

    fn much_later(mut self) -> Self {
        self.retry_after = Some(MUCH_LATER);
        self
    }
}

fn refused(refusal: &Refusal) -> Shown {
    let status = match refusal.kind {
        RefusalKind::Invalid => StatusCode::BAD_REQUEST,
        RefusalKind::NotFound => StatusCode::NOT_FOUND,
        RefusalKind::Forbidden => StatusCode::FORBIDDEN,
        RefusalKind::Conflict => StatusCode::CONFLICT,
        RefusalKind::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Shown::new(status, &refusal.code, &refusal.sentence, &refusal.next_step)
        .with("reason_code", json!(refusal.code))
}

fn outage(error: &StoreError) -> Shown {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    match error {
        StoreError::Short { shortage, .. } => {
            let shown = Shown::new(status, shortage.code(), shortage.to_string(), shortage.next_step());
            if shortage.passes() { shown.later() } else { shown.much_later() }
        }
        _ => Shown::new(
            status,
            "database_unavailable",
            "the database doesn't answer",
            "Send the same request again in a few seconds.",
        )
        .later(),
    }
}

fn internal() -> Shown {
    Shown::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal_error",
        "something went wrong in the server",
        "Send the request again; if it stays, look in the server's log for the request id.",
    )
}

fn damaged() -> Shown {
    Shown::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "log_damaged",
        "a part of the log that this needs can't be read",
        "Run `multica verify`: it names the place. Then start the newest build, or restore from a backup.",
    )
}

/// Not damage, but as little to be decided by: a newer build wrote something there.
fn newer((position, event_type, version): (i64, &str, i16)) -> Shown {
    let sentence = format!(
        "a newer version of the program wrote an event that this needs: {event_type}, version {version}, at position \
         {position}"
    );
    let next_step = "Start the newest build on this server; what happened is in the history.";
    Shown::new(StatusCode::INTERNAL_SERVER_ERROR, "log_damaged", sentence, next_step)
}

fn behind(at: i64, wanted: i64) -> Shown {
    Shown::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "behind",
        format!("this reader is at {at}, not yet at {wanted}"),
        "Read again in a second.",
    )
    .with("position", json!(at))
    .later()
}

fn store(error: &StoreError) -> Shown {
    if error.is_outage() { outage(error) } else { internal() }
}

/// Why a rebuild can't be done now, and what helps.
const fn rebuild(error: &ReadModelError) -> Option<(&'static str, &'static str)> {
    match error {
        ReadModelError::Rebuilding { .. } => {
            Some(("rebuild_running", "See how far it is: `multica projections list`."))
        }
        ReadModelError::TableInUse { .. } => {
            Some(("table_in_use", "Try again in a minute, or end the transaction that reads it."))
        }
        ReadModelError::Replaced { .. } | ReadModelError::NotInstalled { .. } => {
            Some(("another_build", "Ask a server of the newer build."))
        }
        _ => None,
    }
}

fn app(error: &AppError) -> Shown {
    match error {
        AppError::Refused(refusal) => refused(refusal),
        AppError::IdempotencyKeyReused => Shown::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "idempotency_key_reused",
            "this idempotency key was used for another request",
            "Use a fresh key for another request.",
        ),
        AppError::Overloaded { .. } => Shown::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "overloaded",
            "the server has more commands than it can write",
            "Send the same request again in a second.",
        )
        .later(),
        AppError::Conflict => Shown::new(
            StatusCode::CONFLICT,
            "contended",
            "others changed the same things again and again; nothing was done",
            "Send the same request again.",
        ),
        AppError::Unavailable { source, .. } => outage(source),
        AppError::Stopping => Shown::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "stopping",
            "the server is stopping",
            "Send the same request again in a few seconds.",
        )
        .later(),
        AppError::Event(EventRefusal::TooLarge { limit, .. }) => Shown::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_much_in_one_event",
            format!("lists, names and references together take more than {limit} bytes"),
            "Shorten them; long texts belong in descriptions and comments.",
        ),
        AppError::Corrupt { .. } | AppError::Event(_) | AppError::ReadModel(_) | AppError::Store(_) => {
            internal()
        }
    }
}

fn wrong(code: &str, field: Option<&str>, sentence: &str, next_step: &str) -> Shown {
    let shown = Shown::new(StatusCode::BAD_REQUEST, code, sentence, next_step);
    match field {
        Some(field) => shown.with("field", json!(field)),
        None => shown,
    }
}

/// Nothing has the name or id that was given.
fn unknown(kind: &'static str, reference: &str, near: &str) -> Shown {
    // What is longer than any name is told apart by its beginning.
    const SHOWN: usize = 80;
    let head = text::head(reference, SHOWN);
    let more = if head.len() < reference.len() { "…" } else { "" };
    let next_step = match (near, kind) {
        ("", "task") => "List them: `multica task list --all`.".to_owned(),
        ("", "project" | "agent" | "issue" | "directory" | "daemon") => {
            format!("List them: `multica {kind} list`.")
        }
        ("", _) => "List what there is and use an id or name from there.".to_owned(),
        (near, _) => near.to_owned(),
    };
    Shown::new(StatusCode::NOT_FOUND, "not_found", format!("no {kind} is called `{head}{more}`"), next_step)
        .with("reason_code", json!("not_found"))
}

/// The whole table: error → status, code, sentence, next step.
fn shown(error: &ApiError) -> Shown {
    match error {
        damage if damage.is_damage() => damage.newer().map_or_else(damaged, newer),
        ApiError::Refused(refusal) => refused(refusal),
        ApiError::Unauthenticated => Shown::new(
            StatusCode::UNAUTHORIZED,
            "unauthenticated",
            "no valid token came with the request",
            "Sign in with `multica login`, or send a valid token.",
        ),
        ApiError::Forbidden { code, sentence } => Shown::new(
            StatusCode::FORBIDDEN,
            code,
            *sentence,
            match *code {
                "foreign_page" => "Do it on a page of this server, opened at its own address.",
                "task_token_limited" => "Ask a person to do it: a task's token does what its run needs.",
                "daemon_token_limited" => "Use a person's token: `multica login --token TOKEN`.",
                _ => "Ask an admin of the workspace, or use another token.",
            },
        ),
        ApiError::MethodNotAllowed => Shown::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this route doesn't know that method",
            "Look at the API's table of routes.",
        ),
        ApiError::Unknown { kind, reference, near } => unknown(kind, reference, near),
        ApiError::LinkSpent => Shown::new(
            StatusCode::UNAUTHORIZED,
            "sign_in_link_spent",
            "this sign-in link was used before, or is too old",
            "Make a new one: `multica login --link`.",
        ),
        ApiError::NoRoute => Shown::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "there is nothing at this address",
            "Check its spelling; the feed is at `/`, and `multica --help` names every verb.",
        ),
        ApiError::NotFound(what) => refused(&Refusal::not_found(what)),
        ApiError::Ambiguous { matches } => Shown::new(
            StatusCode::CONFLICT,
            "ambiguous_reference",
            "the reference fits more than one thing",
            "Use one of the full names.",
        )
        .with("matches", json!(matches)),
        ApiError::Invalid { code, field, sentence } => {
            wrong(code, field.as_deref(), sentence, "Correct the request and send it again.")
        }
        ApiError::Wrong { code, field, sentence, next_step } => {
            wrong(code, field.as_deref(), sentence, next_step)
        }
        ApiError::TooLarge { limit } => Shown::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            format!("the body has more than {limit} bytes"),
            "Send less at once.",
        ),
        ApiError::BodyTooSlow { within } => Shown::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_too_slow",
            format!("the body didn't come whole within {} s", within.0.div_ceil(1_000)),
            "Send the same request again; send less at once over a slow line.",
        ),
        ApiError::UnknownHost => Shown::new(
            StatusCode::MISDIRECTED_REQUEST,
            "unknown_host",
            "this server doesn't answer under that host name",
            "Use the address that the server printed; a proxy in front of it has to send that one as `Host`.",
        ),
        ApiError::TimedOut => Shown::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "timed_out",
            "the answer took too long",
            "Send the same request again.",
        )
        .later(),
        ApiError::Behind { at, wanted } => behind(*at, *wanted),
        ApiError::Read(ReadModelError::Behind { checkpoint, wanted, .. }) => behind(*checkpoint, *wanted),
        ApiError::App(error) => app(error),
        ApiError::NotStopped { .. } => Shown::new(
            StatusCode::CONFLICT,
            "not_stopped",
            error.to_string(),
            "See how the read models stand: `multica projections list`.",
        ),
        ApiError::Read(ReadModelError::Store(error)) | ApiError::Store(error) => store(error),
        ApiError::Read(error) if rebuild(error).is_some() => rebuild(error)
            .map_or_else(internal, |(code, next_step)| {
                Shown::new(StatusCode::CONFLICT, code, error.to_string(), next_step)
            }),
        ApiError::Read(_) | ApiError::Unfoldable { .. } | ApiError::Encode(_) | ApiError::Panic => internal(),
    }
}

impl ApiError {
    /// The problem document, and after how many seconds trying again is worth it. A cause that isn't the caller's
    /// is logged here.
    fn document(&self) -> (Problem, Option<&'static str>) {
        let shown = shown(self);
        if shown.status.is_server_error() {
            tracing::error!(code = %shown.code, error = %Chain(self), "request failed");
        }
        let problem = Problem {
            kind: "about:blank".to_owned(),
            title: shown.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: shown.status.as_u16(),
            detail: shown.sentence.clone(),
            error: shown.sentence,
            code: shown.code,
            next_step: shown.next_step,
            extra: shown.extra,
        };
        (problem, shown.retry_after)
    }

    /// The problem document: what pages show of it.
    #[must_use]
    pub fn problem(&self) -> Problem {
        self.document().0
    }
}

/// The problem that an answer tells, for whoever shows it otherwise.
#[derive(Clone)]
pub struct Told(pub Problem);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (problem, retry_after) = self.document();
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let told = problem.clone();
        let mut response = (status, Json(problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response.extensions_mut().insert(Told(told));
        let headers = response.headers_mut();
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
