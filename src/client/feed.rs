//! Reading the feed: server-sent events, resumed where they broke off.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Method;

use super::api::Api;
use super::error::{ClientError, Refused};
use crate::wire::feed::{Entry, PositionFrame};

/// One thing the feed says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedItem {
    /// An event.
    Entry(Box<Entry>),
    /// How far the reader is; also the keep-alive.
    Position(PositionFrame),
}

/// A reader of the feed that survives broken connections: it goes on after the last id it has seen.
pub struct Feed {
    api: Api,
    query: Vec<(&'static str, String)>,
    last_id: Option<i64>,
    open: Option<Connection>,
    wait: Duration,
}

struct Connection {
    response: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<Vec<u8>>> + Send + Sync>>,
    frames: Frames,
}

impl Feed {
    /// Reads from after `after`, with the filters of `query` (project, agent, type, directory, task).
    #[must_use]
    pub fn new(api: Api, after: Option<i64>, query: Vec<(&'static str, String)>) -> Self {
        let wait = api.limits().report_retry_first.duration();
        Self { api, query, last_id: after, open: None, wait }
    }

    /// The next item; waits for it, and reconnects as often as needed.
    ///
    /// # Errors
    /// Only what no waiting mends: a refusal by the server.
    pub async fn next(&mut self) -> Result<FeedItem, ClientError> {
        loop {
            match self.try_next().await {
                Ok(Some(item)) => return Ok(item),
                Ok(None) => self.open = None,
                Err(error) if error.is_transient() => {
                    self.open = None;
                    tokio::time::sleep(self.wait).await;
                    self.wait = (self.wait * 2).min(self.api.limits().report_retry_max.duration());
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_next(&mut self) -> Result<Option<FeedItem>, ClientError> {
        if self.open.is_none() {
            self.open = Some(self.connect().await?);
        }
        let silence = self.api.limits().feed_keep_alive.duration() * 3;
        let Some(open) = self.open.as_mut() else { return Ok(None) };
        loop {
            if let Some(frame) = open.frames.next() {
                if let Some(id) = frame.id {
                    self.last_id = Some(id);
                }
                if let Some(item) = frame.item()? {
                    self.wait = self.api.limits().report_retry_first.duration();
                    return Ok(Some(item));
                }
                continue;
            }
            // Three keep-alives missed: the connection is dead though nobody said so.
            match tokio::time::timeout(silence, open.response.next()).await {
                Ok(Some(Ok(bytes))) => open.frames.push(&bytes),
                Ok(Some(Err(error))) => return Err(self.api.transport(error)),
                Ok(None) | Err(_) => return Ok(None),
            }
        }
    }

    async fn connect(&self) -> Result<Connection, ClientError> {
        let mut request =
            self.api.request(Method::GET, "/api/feed", &self.query).header("Accept", "text/event-stream");
        if let Some(id) = self.last_id {
            request = request.header("Last-Event-ID", id.to_string());
        }
        let response = request.send().await.map_err(|e| self.api.transport(e))?;
        let status = response.status();
        if !status.is_success() {
            let body = response.bytes().await.map_err(|e| self.api.transport(e))?;
            return Err(ClientError::Refused(Box::new(Refused::from_body(status.as_u16(), &body, None))));
        }
        let stream = response.bytes_stream().map(|chunk| chunk.map(Into::into));
        Ok(Connection { response: Box::pin(stream), frames: Frames::default() })
    }
}

/// Cuts a byte stream into frames.
#[derive(Debug, Default)]
struct Frames {
    buffer: Vec<u8>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct RawFrame {
    id: Option<i64>,
    event: String,
    data: String,
}

impl Frames {
    fn push(&mut self, bytes: &[u8]) {
        // Carriage returns only ever end a line: data is JSON, which holds none.
        self.buffer.extend(bytes.iter().filter(|b| **b != b'\r'));
    }

    fn next(&mut self) -> Option<RawFrame> {
        let end = self.buffer.windows(2).position(|pair| pair == b"\n\n")?;
        let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
        let mut frame = RawFrame::default();
        for line in String::from_utf8_lossy(&block).lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => frame.id = value.parse().ok(),
                "event" => value.clone_into(&mut frame.event),
                "data" => {
                    if !frame.data.is_empty() {
                        frame.data.push('\n');
                    }
                    frame.data.push_str(value);
                }
                _ => {}
            }
        }
        Some(frame)
    }
}

impl RawFrame {
    fn item(&self) -> Result<Option<FeedItem>, ClientError> {
        let unreadable = |source| ClientError::Unreadable { call: "GET /api/feed".to_owned(), source };
        match self.event.as_str() {
            "entry" => Ok(Some(FeedItem::Entry(serde_json::from_str(&self.data).map_err(unreadable)?))),
            "position" => Ok(Some(FeedItem::Position(serde_json::from_str(&self.data).map_err(unreadable)?))),
            // A kind of frame that a newer server sends.
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_only_when_it_is_whole() {
        let mut frames = Frames::default();
        frames.push(b"id: 7\r\nevent: position\ndata: {\"posi");
        assert_eq!(frames.next(), None);
        frames.push(b"tion\":7,\"head\":9}\n\n: comment\n\n");
        let frame = frames.next().expect("a frame");
        assert_eq!(frame.id, Some(7));
        assert_eq!(
            frame.item().expect("readable"),
            Some(FeedItem::Position(PositionFrame { position: 7, head: 9 }))
        );
        assert_eq!(frames.next().expect("the comment").item().expect("readable"), None);
        assert_eq!(frames.next(), None);
    }
}
