//! Request bodies, paths and queries: bounded, without NUL, and wrong ones named by their field.
//!
//! Invariants: what somebody wrote ([`Body`]) is taken as it is or refused by name, never changed; what a machine
//! says ([`Reported`]) holds what programs print, is taken in any case, and loses its NUL characters.

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::App;
use super::error::ApiError;
use crate::kernel::{json, text};

/// A JSON body that a person or an agent wrote, typed, with what it was made from.
pub struct Body<T> {
    /// The typed body.
    pub value: T,
    /// The same as JSON: what the command's fingerprint covers.
    pub raw: Value,
}

/// A JSON body that a daemon sends, typed, with what it was made from.
pub struct Reported<T> {
    /// The typed body.
    pub value: T,
    /// The same as JSON, without NUL: what the command's fingerprint covers.
    pub raw: Value,
}

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let Raw(bytes) = Raw::from_request(request, app).await?;
        let raw = parse(&bytes, app.limits.json_depth)?;
        if let Some(field) = nul_in(&raw) {
            return Err(holds_nul(&field));
        }
        let value = typed(&raw)?;
        Ok(Self { value, raw })
    }
}

impl<T: DeserializeOwned> FromRequest<App> for Reported<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let Raw(bytes) = Raw::from_request(request, app).await?;
        let raw = without_nul(parse(&bytes, app.limits.json_depth)?);
        let value = typed(&raw)?;
        Ok(Self { value, raw })
    }
}

fn holds_nul(field: &str) -> ApiError {
    ApiError::Wrong {
        code: "text_holds_nul",
        field: Some(field.to_owned()),
        sentence: format!("`{field}` holds a NUL character, which can't be kept; nothing was changed"),
        next_step: "Take the NUL character out, and send it again.".to_owned(),
    }
}

/// The member in which the first NUL character is, as a path: `resource_ref.label`.
fn nul_in(value: &Value) -> Option<String> {
    let below = |name: &str, inner: String| {
        let dot = if inner.is_empty() || inner.starts_with('[') { "" } else { "." };
        format!("{name}{dot}{inner}")
    };
    match value {
        Value::String(text) => text.contains('\0').then(String::new),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(n, item)| Some(below(&format!("[{n}]"), nul_in(item)?)))
        }
        Value::Object(members) => members.iter().find_map(|(name, item)| {
            if name.contains('\0') {
                return Some(text::without_nul(name));
            }
            Some(below(name, nul_in(item)?))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// A body as it came, bounded.
pub struct Raw(pub Bytes);

impl FromRequest<App> for Raw {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let limit = app.limits.body_bytes;
        let whole = Bytes::from_request(request, app);
        let came = tokio::time::timeout(app.limits.body_read.duration(), whole).await;
        let came = came.map_err(|_| ApiError::BodyTooSlow { within: app.limits.body_read })?;
        came.map(Self).map_err(|rejection| match rejection {
            BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
                ApiError::TooLarge { limit }
            }
            _ => ApiError::Invalid {
                code: "unreadable_body",
                field: None,
                sentence: "the body could not be read".to_owned(),
            },
        })
    }
}

fn parse(bytes: &[u8], depth: usize) -> Result<Value, ApiError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|error| ApiError::Invalid {
        code: "invalid_json",
        field: None,
        sentence: format!("the body is no JSON (line {}, column {})", error.line(), error.column()),
    })?;
    if json::is_deeper_than(&value, depth) {
        return Err(ApiError::Invalid {
            code: "json_too_deep",
            field: None,
            sentence: format!("the body's arrays and objects lie more than {depth} deep in each other"),
        });
    }
    Ok(value)
}

/// Removes NUL characters from every text of a JSON value.
fn without_nul(value: Value) -> Value {
    match value {
        Value::String(string) => Value::String(text::without_nul(&string)),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nul).collect()),
        Value::Object(members) => Value::Object(
            members.into_iter().map(|(key, value)| (text::without_nul(&key), without_nul(value))).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// Reads a type out of JSON; an error names the field.
///
/// # Errors
/// `invalid_body` with the field.
pub fn typed<T: DeserializeOwned>(raw: &Value) -> Result<T, ApiError> {
    serde_json::from_value(raw.clone()).map_err(|error| {
        let said = error.to_string();
        ApiError::Invalid {
            code: "invalid_body",
            field: named_field(&said).or_else(|| culprit::<T>(raw, &said)),
            sentence: format!("the body doesn't fit: {said}"),
        }
    })
}

fn named_field(said: &str) -> Option<String> {
    let rest = said.strip_prefix("missing field `").or_else(|| said.strip_prefix("unknown field `"))?;
    Some(rest.split('`').next()?.to_owned())
}

/// The top-level member whose absence changes the error.
fn culprit<T: DeserializeOwned>(raw: &Value, said: &str) -> Option<String> {
    let members = raw.as_object()?;
    members.keys().find_map(|key| {
        let mut without = members.clone();
        without.remove(key);
        let other = serde_json::from_value::<T>(Value::Object(without)).err().map(|error| error.to_string());
        (other.as_deref() != Some(said)).then(|| key.clone())
    })
}

/// A typed query string, without NUL.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default().replace("%00", "");
        let uri: axum::http::Uri = format!("/?{query}").parse().map_err(|_| bad_query())?;
        axum::extract::Query::<T>::try_from_uri(&uri).map(|query| Self(query.0)).map_err(|rejection| {
            ApiError::Invalid {
                code: "invalid_query",
                field: named_field(&rejection.to_string()),
                sentence: format!("the query doesn't fit: {}", rejection.body_text()),
            }
        })
    }
}

/// The variable parts of a path: readable text without NUL. One that isn't names nothing that could be here.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let bad = || ApiError::Invalid {
            code: "invalid_path",
            field: None,
            sentence: "the path holds bytes that are no text".to_owned(),
        };
        if parts.uri.path().contains("%00") {
            return Err(bad());
        }
        let found = axum::extract::Path::<T>::from_request_parts(parts, app).await;
        found.map(|path| Self(path.0)).map_err(|_| bad())
    }
}

fn bad_query() -> ApiError {
    ApiError::Invalid { code: "invalid_query", field: None, sentence: "the query can't be read".to_owned() }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Sample {
        #[expect(dead_code, reason = "only parsed")]
        title: String,
        #[expect(dead_code, reason = "only parsed")]
        count: Option<u32>,
    }

    fn field_of(raw: &Value) -> Option<String> {
        match typed::<Sample>(raw) {
            Err(ApiError::Invalid { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_wrong_body_names_its_field() {
        assert_eq!(field_of(&json!({})).as_deref(), Some("title"));
        assert_eq!(field_of(&json!({"title": 3})).as_deref(), Some("title"));
        assert_eq!(field_of(&json!({"title": "x", "count": "many"})).as_deref(), Some("count"));
    }

    #[test]
    fn what_is_too_deep_to_be_read_again_is_refused_by_name() {
        assert!(parse(br#"{"a":[[1]]}"#, 3).is_ok());
        let refused = parse(br#"{"a":[[[1]]]}"#, 3);
        assert!(matches!(refused, Err(ApiError::Invalid { code: "json_too_deep", .. })), "{refused:?}");
    }

    #[test]
    fn nul_is_found_at_every_depth_and_removed_from_what_machines_say() {
        let raw = parse(br#"{"a\u0000":["b\u0000c",{"d":"\u0000"}]}"#, 8).expect("json");
        assert_eq!(without_nul(raw), json!({"a": ["bc", {"d": ""}]}));
        for (raw, field) in [
            (json!({"title": "a\0"}), "title"),
            (json!({"title": "a", "resource_ref": {"label": "\0"}}), "resource_ref.label"),
            (json!({"args": ["a", {"b": "\0"}]}), "args[1].b"),
            (json!({"tit\0le": "a"}), "title"),
        ] {
            assert_eq!(nul_in(&raw).as_deref(), Some(field));
        }
        assert_eq!(nul_in(&json!({"title": "a", "count": 3, "none": null})), None);
    }
}
