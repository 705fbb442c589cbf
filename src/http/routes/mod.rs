//! The routes, one file for each thing.

pub mod agents;
pub mod claims;
pub mod daemon;
pub mod directories;
pub mod issues;
pub mod projects;
pub mod reports;
pub mod sign_in;
pub mod tasks;
pub mod workspaces;

use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::App;
use super::auth::Identity;
use super::error::ApiError;
use crate::domain::workspace::Role;
use crate::kernel::error_chain::Chain;
use crate::readmodel;
use crate::store;

/// `GET /health`.
pub async fn health(State(app): State<App>) -> Json<Value> {
    Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION"), "head": *app.store.head().borrow()}))
}

/// `POST /api/verify`: walks the log and compares the read models with it.
pub async fn verify(State(app): State<App>, who: Identity) -> Result<Json<Value>, ApiError> {
    who.must_be(Role::Admin)?;
    let verified = store::verify::run(&app.store).await?;
    let mut findings: Vec<String> = verified.findings.iter().map(ToString::to_string).collect();
    for registered in app.registry.all() {
        let differences = match readmodel::verify::one(&app.store, registered).await {
            Ok(differences) => differences,
            Err(error) if error.is_damage() => {
                let name = registered.model().name();
                findings.push(format!("{name} can't be compared with the log: {}", Chain(&error)));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for difference in differences {
            let how = match (&difference.live, &difference.rebuilt) {
                (Some(_), Some(_)) => "differs from",
                (Some(_), None) => "is not in",
                (None, _) => "is missing beside",
            };
            findings.push(format!("row {} of {} {how} its rebuild", difference.key, difference.read_model));
        }
    }
    Ok(Json(json!({"up_to": verified.up_to, "blocks": verified.blocks, "findings": findings})))
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

/// A text that has to say something, bounded.
///
/// # Errors
/// `invalid_field`.
pub fn said(app: &App, text: &str, field: &str) -> Result<String, ApiError> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(ApiError::field(field, format!("`{field}` must not be empty")));
    }
    bounded(app, trimmed, field)
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
