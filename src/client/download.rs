//! Answers that are read as they come, however long they are.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use reqwest::Method;
use uuid::Uuid;

use super::api::Api;
use super::error::{ClientError, Refused};

/// An answer on its way.
pub struct Download {
    api: Api,
    headers: reqwest::header::HeaderMap,
    chunks: Pin<Box<dyn Stream<Item = reqwest::Result<Vec<u8>>> + Send + Sync>>,
    silence: Duration,
}

impl Download {
    /// Sends a `POST` without a body whose answer is long.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn post(api: &Api, path: &str, query: &[(&str, String)]) -> Result<Self, ClientError> {
        let request =
            api.request(Method::POST, path, query).header("Idempotency-Key", Uuid::now_v7().to_string());
        let response = request.send().await.map_err(|error| api.transport(error))?;
        let status = response.status();
        if !status.is_success() {
            let body = response.bytes().await.map_err(|error| api.transport(error))?;
            return Err(ClientError::Refused(Box::new(Refused::from_body(status.as_u16(), &body, None))));
        }
        // A search that finds little is silent for long.
        let headers = response.headers().clone();
        let chunks = Box::pin(response.bytes_stream().map(|chunk| chunk.map(Into::into)));
        Ok(Self { api: api.clone(), headers, chunks, silence: api.limits().slow_request.duration() })
    }

    /// A header of the answer.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The next piece; none at the answer's end.
    ///
    /// # Errors
    /// [`ClientError`] when the answer breaks off or falls silent before its end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        match tokio::time::timeout(self.silence, self.chunks.next()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(chunk))) => Ok(Some(chunk)),
            Ok(Some(Err(error))) => Err(self.api.transport(error)),
            Err(_) => Err(ClientError::Silent { base: self.api.server_url().to_owned() }),
        }
    }
}
