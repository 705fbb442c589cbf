//! The routes, one file for each thing.

pub mod agents;
pub mod audit;
pub mod bundle;
pub mod claims;
pub mod daemon;
pub mod directories;
pub mod erasures;
pub mod issues;
pub mod metrics;
pub mod projections;
pub mod projects;
pub mod reports;
pub mod retention;
pub mod sign_in;
pub mod stranded;
pub mod tasks;
pub mod verify;
pub mod webhook_deliveries;
pub mod webhooks;
pub mod what_if;
pub mod workspaces;

use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::App;
use super::error::ApiError;
use super::idempotency::content;
use crate::domain::NewContent;

/// `GET /health`.
pub async fn health(State(app): State<App>) -> Json<Value> {
    Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION"), "head": *app.store.head().borrow()}))
}

/// Tells an absent field from null.
///
/// # Errors
/// When it is no text.
pub fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    <Option<String> as serde::Deserialize>::deserialize(from).map(Some)
}

/// An id out of a path or a body.
///
/// # Errors
/// `invalid_field`.
pub fn id<T: FromStr>(text: &str, field: &str) -> Result<T, ApiError> {
    text.parse().map_err(|_| ApiError::field(field, format!("`{field}` is no UUID")))
}

/// An optional id; blank counts as none.
///
/// # Errors
/// `invalid_field`.
pub fn optional_id<T: FromStr>(text: Option<&str>, field: &str) -> Result<Option<T>, ApiError> {
    text.filter(|text| !text.is_empty()).map(|text| id(text, field)).transpose()
}

/// How many entries of a list are answered.
#[must_use]
pub fn listed(app: &App, asked: Option<u32>) -> i64 {
    i64::from(asked.unwrap_or(app.limits.list_usual).clamp(1, app.limits.list_most))
}

/// A word that has to be one of those that there are.
///
/// # Errors
/// `invalid_field` with all of them.
pub fn one_of<'a>(word: &'a str, known: &[&str], field: &str) -> Result<&'a str, ApiError> {
    if known.contains(&word) {
        return Ok(word);
    }
    let head = crate::kernel::text::head(word, 40);
    Err(ApiError::field(field, format!("`{head}` is no {field}; there are {}", known.join(", "))))
}

/// A text that has to say something, bounded.
///
/// # Errors
/// `invalid_field`.
pub fn said(app: &App, text: &str, field: &str) -> Result<String, ApiError> {
    let trimmed = text.trim();
    if !crate::kernel::text::says_something(trimmed) {
        return Err(ApiError::field(field, format!("`{field}` must not be empty")));
    }
    bounded(app, trimmed, field)
}

/// A title that may be left as it is.
///
/// # Errors
/// `invalid_field` for one that says nothing or too much.
pub fn title(app: &App, text: Option<&str>) -> Result<Option<NewContent>, ApiError> {
    text.map(|text| required_title(app, text)).transpose()
}

/// A title: one line that fits a list.
///
/// # Errors
/// `invalid_field` for one that says nothing or too much.
pub fn required_title(app: &App, text: &str) -> Result<NewContent, ApiError> {
    let more = "; what needs more belongs in `description`";
    Ok(content(app, one_line(app, text, "title", more)?))
}

/// A text that names something: one line that fits a list; `more` says where the rest belongs.
///
/// # Errors
/// `invalid_field` for one that says nothing or too much.
pub fn one_line(app: &App, text: &str, field: &str, more: &str) -> Result<String, ApiError> {
    let line = said(app, text, field)?;
    let most = app.limits.title_characters;
    if line.contains(['\n', '\r']) {
        return Err(ApiError::field(field, format!("`{field}` is one line{more}")));
    }
    if line.chars().count() > most {
        return Err(ApiError::field(field, format!("`{field}` has more than {most} characters{more}")));
    }
    Ok(line)
}

/// A description that may be left as it is.
///
/// # Errors
/// `invalid_field` for one that is too long.
pub fn description(app: &App, text: Option<&str>) -> Result<Option<NewContent>, ApiError> {
    text.map(|text| Ok(content(app, bounded(app, text, "description")?))).transpose()
}

/// A text of bounded length.
///
/// # Errors
/// `invalid_field`.
pub fn bounded(app: &App, text: &str, field: &str) -> Result<String, ApiError> {
    if text.len() > app.limits.content_bytes {
        let most = app.limits.content_bytes;
        return Err(ApiError::field(field, format!("`{field}` has more than {most} bytes")));
    }
    Ok(text.to_owned())
}
