//! Asks for a verification and hears how far it is.

use futures_util::StreamExt;
use reqwest::Method;
use serde_json::Value;
use uuid::Uuid;

use super::api::Api;
use super::error::{ClientError, Refused};
use crate::wire::api::{VerifyLine, VerifyRequest};

const PATH: &str = "/api/verify";

impl Api {
    /// Has the log verified; `heard` is told how far it is with what.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn verify(
        &self,
        asked: &VerifyRequest,
        mut heard: impl FnMut(&str, i64, i64),
    ) -> Result<Value, ClientError> {
        let name = || format!("POST {PATH}");
        let body =
            serde_json::to_vec(asked).map_err(|source| ClientError::Unwritable { call: name(), source })?;
        // Reading the whole log takes as long as it takes: the wait is on purpose.
        let limits = self.limits();
        let response = self
            .request(Method::POST, PATH, &[])
            .timeout(limits.slow_request.duration() + limits.http_timeout.duration())
            .header("Idempotency-Key", Uuid::now_v7().to_string())
            .header("Content-Type", "application/json")
            .body(body)
            .send()
            .await
            .map_err(|error| self.transport(error))?;
        let status = response.status();
        if !status.is_success() {
            let body = response.bytes().await.map_err(|error| self.transport(error))?;
            return Err(ClientError::Refused(Box::new(Refused::from_body(status.as_u16(), &body, None))));
        }
        let mut parts = response.bytes_stream();
        let mut rest = Vec::new();
        while let Some(part) = parts.next().await {
            rest.extend_from_slice(&part.map_err(|error| self.transport(error))?);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let line = serde_json::from_slice(&line)
                    .map_err(|source| ClientError::Unreadable { call: name(), source })?;
                match line {
                    VerifyLine::At { what, done, of } => heard(&what, done, of),
                    VerifyLine::Done(answer) => return Ok(answer),
                    VerifyLine::Failed(problem) => {
                        let status = problem.get("status").and_then(Value::as_u64).unwrap_or_default();
                        let status = u16::try_from(status).unwrap_or_default();
                        let refused = Refused::from_body(status, problem.to_string().as_bytes(), None);
                        return Err(ClientError::Refused(Box::new(refused)));
                    }
                }
            }
        }
        // The server stopped in the middle.
        let sentence = "the server ended before it was done".to_owned();
        let next_step = "Start it, and verify again.".to_owned();
        let code = "stopping".to_owned();
        Err(ClientError::Refused(Box::new(Refused {
            status: 503,
            code,
            sentence,
            next_step,
            retry_after: None,
        })))
    }
}
