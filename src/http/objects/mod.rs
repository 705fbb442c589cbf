//! Things as the API shows them, built from their streams: strongly consistent, no read model in between.
//!
//! Invariants: field names are those that public clients know; ours are added, none is renamed; times are
//! RFC 3339; an erased text shows as `[erased]`.

pub mod issue;
pub mod project;
pub mod task;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::App;
use super::error::ApiError;
use super::left_out;
use crate::domain::{ContentRef, Envelope, Impossible, StreamKey};
use crate::kernel::ids::{ContentId, WorkspaceId};
use crate::store::read;

/// Texts by content id.
#[derive(Debug, Default)]
pub struct Texts(BTreeMap<ContentId, String>);

impl Texts {
    /// Loads the texts of those ids.
    ///
    /// # Errors
    /// What went wrong with the database.
    pub async fn load(app: &App, ids: Vec<ContentId>) -> Result<Self, ApiError> {
        if ids.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self(read::contents(&app.store, &ids).await?))
    }

    /// The text; empty when it isn't there and was not erased.
    #[must_use]
    pub fn of(&self, reference: &ContentRef) -> &str {
        self.0.get(&reference.id).map_or("", String::as_str)
    }

    /// The text, if there is one.
    #[must_use]
    pub fn of_some(&self, reference: Option<&ContentRef>) -> Option<String> {
        reference.map(|reference| self.of(reference).to_owned())
    }

    /// The text, or null.
    #[must_use]
    pub fn or_null(&self, reference: Option<&ContentRef>) -> Value {
        reference.map_or(Value::Null, |reference| Value::String(self.of(reference).to_owned()))
    }
}

/// The ids of references: collected before anything is waited for.
pub fn ids<'a>(references: impl IntoIterator<Item = &'a ContentRef>) -> Vec<ContentId> {
    references.into_iter().map(|reference| reference.id).collect()
}

/// A stream of this workspace with its state.
pub struct Loaded<S> {
    /// What it is now.
    pub state: S,
    /// How it came to be so.
    pub events: Vec<Envelope>,
}

impl<S> Loaded<S> {
    /// When it came to be.
    #[must_use]
    pub fn created_at(&self) -> Option<Timestamp> {
        self.events.first().and_then(|event| event.recorded_at)
    }

    /// When it last changed.
    #[must_use]
    pub fn updated_at(&self) -> Option<Timestamp> {
        self.events.last().and_then(|event| event.recorded_at)
    }
}

/// RFC 3339, or null.
#[must_use]
pub fn time(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, |at| Value::String(at.to_string()))
}

/// Loads and folds one stream of a workspace; none when it isn't there or isn't this workspace's.
///
/// # Errors
/// What went wrong with the database, or with the stream.
pub async fn load_one<S>(
    app: &App,
    workspace: WorkspaceId,
    key: StreamKey,
    fold: impl Fn(&[Envelope]) -> Result<Option<S>, Impossible>,
) -> Result<Option<Loaded<S>>, ApiError> {
    folded(workspace, read::stream(&app.store, key).await?, &fold)
}

/// Loads and folds streams of one workspace, in the order asked for; what isn't there or isn't this
/// workspace's is left out, and so is what is damaged, which the answer says ([`left_out`]).
///
/// # Errors
/// What went wrong with the database.
pub async fn load<S>(
    app: &App,
    workspace: WorkspaceId,
    keys: &[StreamKey],
    fold: impl Fn(&[Envelope]) -> Result<Option<S>, Impossible>,
) -> Result<Vec<Loaded<S>>, ApiError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut streams = left_out::readable(read::each(&app.store, keys).await?);
    let mut loaded = Vec::with_capacity(keys.len());
    for key in keys {
        let Some(events) = streams.remove(key) else { continue };
        match folded(workspace, events, &fold) {
            Err(error) if error.is_damage() => left_out::note(*key),
            found => loaded.extend(found?),
        }
    }
    Ok(loaded)
}

fn folded<S>(
    workspace: WorkspaceId,
    events: Vec<Envelope>,
    fold: &impl Fn(&[Envelope]) -> Result<Option<S>, Impossible>,
) -> Result<Option<Loaded<S>>, ApiError> {
    if events.first().is_none_or(|first| first.workspace != workspace) {
        return Ok(None);
    }
    let state = fold(&events).map_err(|source| ApiError::Unfoldable { source })?;
    Ok(state.map(|state| Loaded { state, events }))
}
