//! A small client of the server's JSON API.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::error::{AddressError, ClientError, Refused};
use super::http::http_client;
use crate::kernel::limits::Limits;

/// Where a server is and as whom it is asked.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Its address.
    pub server_url: String,
    /// The token, if there is one.
    pub token: Option<SecretString>,
    /// The workspace asked for, by id or slug, where the token isn't bound to one.
    pub workspace: Option<String>,
    /// `cli` or `daemon`.
    pub platform: &'static str,
    /// Agent and task of the run this process is inside of.
    pub run: Option<(String, String)>,
    /// The bounds in force.
    pub limits: Limits,
    /// The newest position that a write has answered; reads ask for it.
    pub written: Written,
    /// The moment as of which is read.
    pub past: Past,
}

/// The moment as of which is read, shared by all calls of a verb: what the first answer settled, the others ask for.
/// The default is now.
#[derive(Debug, Clone, Default)]
pub struct Past(Option<Arc<Mutex<Asked>>>);

#[derive(Debug)]
struct Asked {
    moment: String,
    answered: Option<Answered>,
}

/// As of when the server has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The position.
    pub position: String,
    /// When it was recorded.
    pub time: String,
}

impl Past {
    /// A moment, as the server takes it.
    #[must_use]
    pub fn of(moment: String) -> Self {
        Self(Some(Arc::new(Mutex::new(Asked { moment, answered: None }))))
    }

    /// As of when the server has answered, once it has.
    #[must_use]
    pub fn answered(&self) -> Option<Answered> {
        self.asked(|asked| asked.answered.clone()).flatten()
    }

    fn asked<T>(&self, with: impl FnOnce(&mut Asked) -> T) -> Option<T> {
        let asked = self.0.as_ref()?;
        Some(with(&mut asked.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn note(&self, headers: &HeaderMap) {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let Some(position) = text(AS_OF) else { return };
        self.asked(|asked| {
            asked.moment.clone_from(&position);
            asked.answered = Some(Answered { position, time: text(AS_OF_TIME).unwrap_or_default() });
        });
    }
}

/// The newest position that a write has answered, shared by those who want to see each other's writes; and
/// what reads have left out. The default sees nothing: a daemon's calls wait for no follower.
#[derive(Debug, Clone, Default)]
pub struct Written(Option<Arc<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    position: AtomicI64,
    left_out: Mutex<BTreeSet<String>>,
}

impl Written {
    /// One that counts.
    #[must_use]
    pub fn seen() -> Self {
        Self(Some(Arc::default()))
    }

    fn note(&self, headers: &HeaderMap) {
        let position = headers.get(POSITION).and_then(|value| value.to_str().ok()?.parse().ok());
        let Some(known) = &self.0 else { return };
        if let Some(position) = position {
            known.position.fetch_max(position, Ordering::Relaxed);
        }
        if let Some(names) = headers.get(LEFT_OUT).and_then(|value| value.to_str().ok()) {
            let mut left_out = known.left_out.lock().unwrap_or_else(PoisonError::into_inner);
            left_out.extend(names.split(", ").map(str::to_owned));
        }
    }

    fn position(&self) -> Option<i64> {
        self.0.as_ref().map(|known| known.position.load(Ordering::Relaxed)).filter(|position| *position > 0)
    }

    /// What answers have left out because the log is damaged there: `task/<id>`, `+<n>` for further ones.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let seen = self.0.iter();
        seen.flat_map(|known| known.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }
}

const POSITION: &str = "x-multica-position";
const LEFT_OUT: &str = "x-multica-left-out";
const AT_LEAST: &str = "x-multica-at-least";
const AS_OF: &str = "x-multica-as-of";
const AS_OF_TIME: &str = "x-multica-as-of-time";

/// The client.
#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
    base: Url,
    headers: HeaderMap,
    limits: Limits,
    written: Written,
    past: Past,
}

/// One call.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    method: Method,
    path: &'a str,
    query: Vec<(&'a str, String)>,
    body: Option<Vec<u8>>,
    key: Option<String>,
    wait: Duration,
}

impl<'a> Call<'a> {
    /// A read.
    #[must_use]
    pub fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, query: vec![], body: None, key: None, wait: Duration::ZERO }
    }

    /// A write; it gets a fresh key unless [`Call::key`] gives one.
    ///
    /// # Errors
    /// When the body can't be JSON.
    pub fn write(method: Method, path: &'a str, body: &impl Serialize) -> Result<Self, ClientError> {
        let bytes = serde_json::to_vec(body)
            .map_err(|source| ClientError::Unwritable { call: format!("{method} {path}"), source })?;
        Ok(Self {
            method,
            path,
            query: vec![],
            body: Some(bytes),
            key: Some(Uuid::now_v7().to_string()),
            wait: Duration::ZERO,
        })
    }

    /// `POST` with a body.
    ///
    /// # Errors
    /// When the body can't be JSON.
    pub fn post(path: &'a str, body: &impl Serialize) -> Result<Self, ClientError> {
        Self::write(Method::POST, path, body)
    }

    /// Adds a parameter to the query.
    #[must_use]
    pub fn query(mut self, name: &'a str, value: impl ToString) -> Self {
        self.query.push((name, value.to_string()));
        self
    }

    /// Adds a parameter to the query where there is a value.
    #[must_use]
    pub fn query_some(self, name: &'a str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Sets the key under which the write is known: the same key gets the same answer.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Says that the server waits so long on purpose before it answers.
    #[must_use]
    pub const fn waits(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

impl Api {
    /// Makes a client.
    ///
    /// # Errors
    /// When the address is none or the token can't be a header.
    pub fn new(connection: &Connection) -> Result<Self, ClientError> {
        let base = server_address(&connection.server_url)?;
        let http = http_client(&connection.limits, &base).map_err(ClientError::Setup)?;
        let (limits, written) = (connection.limits.clone(), connection.written.clone());
        let past = connection.past.clone();
        Ok(Self { http, base, headers: headers(connection)?, limits, written, past })
    }

    /// The server's address, without a trailing slash.
    #[must_use]
    pub fn server_url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// The bounds in force.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Reads something.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(Call::get(path)).await
    }

    /// Sends a `POST`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.call(Call::post(path, body)?).await
    }

    /// Makes a call and reads its answer; an empty answer is read as `null`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn call<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, ClientError> {
        let name = call.name();
        let body = self.bytes(call).await?;
        let bytes: &[u8] = if body.is_empty() { b"null" } else { &body };
        serde_json::from_slice(bytes).map_err(|source| ClientError::Unreadable { call: name, source })
    }

    /// Makes a call whose answer is a text.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn text(&self, call: Call<'_>) -> Result<String, ClientError> {
        Ok(String::from_utf8_lossy(&self.bytes(call).await?).into_owned())
    }

    async fn bytes(&self, mut call: Call<'_>) -> Result<Vec<u8>, ClientError> {
        if let Some(moment) = self.past.asked(|asked| asked.moment.clone()) {
            // Also a write says it: the server refuses to do now what was meant for then.
            call = call.query("as_of", moment);
        }
        let timeout = self.limits.http_timeout.duration() + call.wait;
        let (name, asked) = (call.name(), Instant::now());
        let is_read = call.method == Method::GET;
        let mut request = self.request(call.method, call.path, &call.query).timeout(timeout);
        if let Some(position) = self.written.position().filter(|_| is_read) {
            request = request.header(AT_LEAST, position);
        }
        if let Some(key) = call.key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(body) = call.body {
            request = request.header("Content-Type", "application/json").body(body);
        }
        let response = request.send().await.map_err(|e| self.transport(e))?;
        let status = response.status();
        tracing::debug!(call = name, status = status.as_u16(), took = ?asked.elapsed(), "answered");
        self.written.note(response.headers());
        self.past.note(response.headers());
        let retry_after = retry_after(response.headers());
        let body = response.bytes().await.map_err(|e| self.transport(e))?;
        if status.is_success() {
            return Ok(body.into());
        }
        Err(ClientError::Refused(Box::new(Refused::from_body(status.as_u16(), &body, retry_after))))
    }

    /// Starts a request with this client's headers, for those that read the answer as a stream.
    pub(super) fn request(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
    ) -> reqwest::RequestBuilder {
        let mut url = self.base.clone();
        let joined = format!("{}{}", self.base.path().trim_end_matches('/'), path);
        url.set_path(&joined);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.http.request(method, url).headers(self.headers.clone())
    }

    /// Says what went wrong below HTTP.
    pub(super) fn transport(&self, source: reqwest::Error) -> ClientError {
        let base = self.server_url().to_owned();
        // The address stands in our own message already, and a query may hold what a log should not.
        let source = source.without_url();
        if source.is_timeout() && !source.is_connect() {
            ClientError::TimedOut { base, source }
        } else {
            ClientError::Unreachable { base, source }
        }
    }
}

/// One segment of a path, safe whatever the text is.
#[must_use]
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Reads a server's address; `ws` and `wss` are taken for `http` and `https`.
///
/// # Errors
/// When it is no address.
pub fn server_address(text: &str) -> Result<Url, ClientError> {
    let mapped = match text.split_once("://") {
        Some(("ws", rest)) => format!("http://{rest}"),
        Some(("wss", rest)) => format!("https://{rest}"),
        Some(_) => text.to_owned(),
        None => format!("http://{text}"),
    };
    let refuse = |source| ClientError::Address { text: text.to_owned(), source };
    let url = Url::parse(mapped.trim()).map_err(|e| refuse(AddressError::Form(e)))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse(AddressError::Scheme));
    }
    Ok(url)
}

fn headers(connection: &Connection) -> Result<HeaderMap, ClientError> {
    let mut map = HeaderMap::new();
    if let Some(token) = &connection.token {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()))
            .map_err(|_| ClientError::BadToken)?;
        value.set_sensitive(true);
        map.insert(AUTHORIZATION, value);
    }
    let mut plain = vec![
        ("x-client-platform", connection.platform.to_owned()),
        ("x-client-version", env!("CARGO_PKG_VERSION").to_owned()),
        ("x-client-os", std::env::consts::OS.to_owned()),
    ];
    if let Some(workspace) = &connection.workspace {
        // Asked for by id or by slug: the server looks a slug up.
        let is_id = uuid::Uuid::try_parse(workspace).is_ok();
        plain.push((if is_id { "x-workspace-id" } else { "x-workspace-slug" }, workspace.clone()));
    }
    if let Some((agent, task)) = &connection.run {
        plain.push(("x-agent-id", agent.clone()));
        plain.push(("x-task-id", task.clone()));
    }
    for (name, value) in plain {
        // A value that no header can hold is left out: the server then says what it misses.
        if let Ok(value) = HeaderValue::try_from(value) {
            map.insert(HeaderName::from_static(name), value);
        }
    }
    Ok(map)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get("retry-after")?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_can_not_leave_its_place_in_the_path() {
        assert_eq!(segment("GAME-12#3"), "GAME-12%233");
        assert_eq!(segment("../a b?x"), "..%2Fa%20b%3Fx");
    }

    #[test]
    fn a_workspace_is_asked_for_by_id_or_by_slug() {
        let asked = |workspace: &str| {
            let connection = Connection {
                server_url: "http://127.0.0.1:1".to_owned(),
                token: None,
                workspace: Some(workspace.to_owned()),
                platform: "cli",
                run: None,
                limits: Limits::default(),
                written: Written::default(),
                past: Past::default(),
            };
            let headers = headers(&connection).expect("headers");
            ["x-workspace-id", "x-workspace-slug"]
                .map(|name| headers.get(name).is_some_and(|v| v == workspace))
        };
        assert_eq!(asked("01890a5d-ac96-774b-bcce-b302099a8057"), [true, false]);
        assert_eq!(asked("local"), [false, true]);
    }

    #[test]
    fn websocket_and_bare_addresses_are_taken_for_http() {
        for (text, url) in [
            ("ws://h:1", "http://h:1/"),
            ("wss://h", "https://h/"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
            ("https://h/base", "https://h/base"),
        ] {
            assert_eq!(server_address(text).expect("an address").as_str(), url);
        }
        assert!(server_address("ftp://h").is_err());
    }
}
