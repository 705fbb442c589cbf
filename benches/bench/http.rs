//! A client that keeps its connection, and one that follows the feed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

pub struct Connection {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Connection {
    pub async fn new(address: SocketAddr, token: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let head = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n");
        Self { stream: BufReader::new(stream), head }
    }

    async fn send(&mut self, method: &str, path: &str, more: &str, body: &str) {
        let text = format!(
            "{method} {path} HTTP/1.1\r\n{}{more}Content-Length: {}\r\n\r\n{body}",
            self.head,
            body.len()
        );
        self.stream.get_mut().write_all(text.as_bytes()).await.unwrap();
    }

    /// The status and the length of the body; none where it comes in chunks.
    async fn answer(&mut self) -> (u16, Option<usize>) {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        let mut length = Some(0);
        loop {
            line.clear();
            self.stream.read_line(&mut line).await.unwrap();
            let text = line.trim().to_ascii_lowercase();
            if text.is_empty() {
                return (status, length);
            }
            if let Some(bytes) = text.strip_prefix("content-length: ") {
                length = bytes.parse().ok();
            }
            if text.starts_with("transfer-encoding") {
                length = None;
            }
        }
    }

    /// Sends a request and reads its answer.
    pub async fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let more = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        self.send(method, path, more, &body).await;
        let (status, length) = self.answer().await;
        let mut bytes = Vec::new();
        match length {
            Some(length) => {
                bytes.resize(length, 0);
                self.stream.read_exact(&mut bytes).await.unwrap();
            }
            None => self.chunks(&mut bytes).await,
        }
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn chunks(&mut self, bytes: &mut Vec<u8>) {
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).await.unwrap();
            let size = usize::from_str_radix(line.trim(), 16).unwrap_or_default();
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk).await.unwrap();
            if size == 0 {
                return;
            }
            bytes.extend_from_slice(&chunk[..size]);
        }
    }

    /// The body of an answer that went well.
    pub async fn well(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// How long a request took, milliseconds.
    pub async fn timed(&mut self, method: &str, path: &str, body: &Value) -> f64 {
        let begun = Instant::now();
        self.well(method, path, body).await;
        super::ms(begun.elapsed())
    }

    /// Follows the feed from after a position on.
    pub async fn follow(mut self, after: i64) -> Frames {
        let more = format!("Last-Event-ID: {after}\r\n");
        self.send("GET", "/api/feed", &format!("Accept: text/event-stream\r\n{more}"), "").await;
        let (status, _) = self.answer().await;
        assert_eq!(status, 200);
        Frames { stream: self.stream, line: String::new() }
    }
}

/// An open feed.
pub struct Frames {
    stream: BufReader<TcpStream>,
    line: String,
}

impl Frames {
    /// The position of the next entry; none when the feed has ended or nothing came for that long.
    pub async fn next(&mut self, patience: Duration) -> Option<i64> {
        let mut position = None;
        let read = async {
            loop {
                self.line.clear();
                if self.stream.read_line(&mut self.line).await.unwrap_or(0) == 0 {
                    return None;
                }
                let line = self.line.trim();
                if let Some(id) = line.strip_prefix("id: ").or_else(|| line.strip_prefix("id:")) {
                    position = id.trim().parse().ok();
                }
                if line.starts_with("data:") && line.contains("\"workspace\"") {
                    return position;
                }
            }
        };
        tokio::time::timeout(patience, read).await.ok().flatten()
    }
}
