//! The keys of `config.json` that this build reads, and what each of them holds.
//!
//! Invariants: a key of the list that holds something else is an error by its name, before anything of the
//! file counts and before anything is written; a key that isn't in the list is somebody else's and stays as
//! it is; null counts as absent.

use serde_json::Value;

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Text.
    Text,
    /// A whole number from 1 on.
    Count,
    /// A list of absolute paths.
    Paths,
}

/// Every key that this build reads.
pub const KEYS: [(&str, Shape); 7] = [
    ("server_url", Shape::Text),
    ("workspace_id", Shape::Text),
    ("token", Shape::Text),
    ("device_name", Shape::Text),
    ("workspaces_root", Shape::Text),
    ("max_concurrent_tasks", Shape::Count),
    ("allowed_directories", Shape::Paths),
];

/// What a key of ours should hold and what it holds instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The key.
    pub key: String,
    /// What it should hold.
    pub shape: Shape,
    /// What stands there, in words: the value itself may be a secret.
    pub found: &'static str,
}

impl Shape {
    /// What a key holds; none for one that isn't ours.
    #[must_use]
    pub fn of(key: &str) -> Option<Self> {
        KEYS.iter().find(|(known, _)| *known == key).map(|(_, shape)| *shape)
    }

    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Count => "a whole number from 1 to 4294967295",
            Self::Paths => "a list of absolute paths",
        }
    }

    /// A value as it may stand in the file.
    #[must_use]
    pub const fn example(self) -> &'static str {
        match self {
            Self::Text => "\"…\"",
            Self::Count => "4",
            Self::Paths => "[\"/srv/game\"]",
        }
    }

    /// A value as it is typed on a command line: text is text, all else JSON.
    #[must_use]
    pub fn typed(key: &str, text: &str) -> Value {
        match Self::of(key) {
            Some(Self::Text) => Value::from(text),
            Some(Self::Count | Self::Paths) | None => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
            }
        }
    }

    /// What is wrong with a value.
    fn misfit(self, value: &Value) -> Option<&'static str> {
        match (self, value) {
            (_, Value::Null) | (Self::Text, Value::String(_)) => None,
            (Self::Count, Value::Number(_)) => {
                let fits = count(value).is_some_and(|count| count > 0);
                (!fits).then_some("another number")
            }
            (Self::Paths, Value::Array(items)) => items.iter().find_map(|item| match item {
                Value::String(path) if path.starts_with('/') => None,
                Value::String(_) => Some("a list with a path that isn't absolute"),
                _ => Some("a list with something that isn't text"),
            }),
            (_, Value::String(_)) => Some("text"),
            (_, Value::Number(_)) => Some("a number"),
            (_, Value::Bool(_)) => Some("true or false"),
            (_, Value::Array(_)) => Some("a list"),
            (_, Value::Object(_)) => Some("an object"),
        }
    }
}

/// Looks at one key.
///
/// # Errors
/// When it is ours and holds something else.
pub fn check(key: &str, value: &Value) -> Result<(), Mismatch> {
    let Some(shape) = Shape::of(key) else { return Ok(()) };
    match shape.misfit(value) {
        None => Ok(()),
        Some(found) => Err(Mismatch { key: key.to_owned(), shape, found }),
    }
}

/// A value as a count.
#[must_use]
pub fn count(value: &Value) -> Option<u32> {
    value.as_u64()?.try_into().ok()
}
