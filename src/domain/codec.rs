//! Event ⇄ (type, schema version, JSON text).
//!
//! Invariants: `type` is `<family>.<name>`; the JSON text is what is stored, hashed and checked
//! against `event-schemas/`; decoding an encoded event gives the same event. Upcasters run here, on
//! the JSON, before the typed parse.

use serde_json::Value;

use super::upcast::{self, UPCASTERS, Upcaster};
use super::{Event, Family, schema_files, tagged};

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// `<family>.<name>`.
    pub event_type: String,
    /// The schema's version, from 1.
    pub schema_version: i16,
    /// The payload's exact text.
    pub data: String,
}

/// Says why bytes are no event that this build knows.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// No event of that type and version is known.
    #[error("unknown event type {event_type} version {schema_version}")]
    Unknown {
        /// The type found.
        event_type: String,
        /// The version found.
        schema_version: i16,
    },
    /// The payload doesn't have the type's shape.
    #[error("payload of {event_type} does not fit its type")]
    Shape {
        /// The type found.
        event_type: String,
        /// What serde said.
        #[source]
        source: serde_json::Error,
    },
}

/// The newest schema version of an event type: one more than it has upcasters.
#[must_use]
pub fn schema_version(event_type: &str) -> i16 {
    upcast::newest(UPCASTERS, event_type)
}

/// The event's type, `<family>.<name>`.
///
/// # Errors
/// Those of [`encode`], an unknown event's aside: that one says its type.
pub fn event_type(event: &Event) -> Result<String, CodecError> {
    match event {
        Event::Unknown(event) => Ok(event.event_type.clone()),
        event => Ok(encode(event)?.event_type),
    }
}

/// Encodes an event.
///
/// # Errors
/// [`CodecError::Shape`] when a payload can't be written as JSON; [`CodecError::Unknown`] for an event that
/// only a newer build could write.
pub fn encode(event: &Event) -> Result<Encoded, CodecError> {
    let family = event.family();
    let written = match event {
        Event::Operation(e) => tagged::write(e),
        Event::Workspace(e) => tagged::write(e),
        Event::Project(e) => tagged::write(e),
        Event::Issue(e) => tagged::write(e),
        Event::Agent(e) => tagged::write(e),
        Event::Daemon(e) => tagged::write(e),
        Event::Task(e) => tagged::write(e),
        Event::Directory(e) => tagged::write(e),
        Event::Webhook(e) => tagged::write(e),
        Event::Unknown(e) => {
            let (event_type, schema_version) = (e.event_type.clone(), e.schema_version);
            return Err(CodecError::Unknown { event_type, schema_version });
        }
    };
    let shape = |source| CodecError::Shape { event_type: family.name().to_owned(), source };
    let (name, data) = written.map_err(shape)?;
    let event_type = format!("{}.{name}", family.name());
    Ok(Encoded { schema_version: schema_version(&event_type), data, event_type })
}

/// Decodes a stored event.
///
/// # Errors
/// [`CodecError::Unknown`] for a type or version of a newer build, [`CodecError::Shape`] for a payload
/// that isn't one.
pub fn decode(event_type: &str, version: i16, data: &str) -> Result<Event, CodecError> {
    decode_by(UPCASTERS, event_type, version, data)
}

/// [`decode`] by a registry of upcasters: an older version goes up the chain before it is typed.
///
/// # Errors
/// As [`decode`].
pub fn decode_by(
    upcasters: &[Upcaster],
    event_type: &str,
    version: i16,
    data: &str,
) -> Result<Event, CodecError> {
    let unknown = || CodecError::Unknown { event_type: event_type.to_owned(), schema_version: version };
    let newest = upcast::newest(upcasters, event_type);
    if version < 1 || version > newest {
        return Err(unknown());
    }
    let (family, name) = event_type.split_once('.').ok_or_else(unknown)?;
    let family = Family::from_name(family).ok_or_else(unknown)?;
    let shape = |source| CodecError::Shape { event_type: event_type.to_owned(), source };
    // Most events are of the newest version, and are read without a tree of JSON in between.
    let mut older = String::new();
    if version < newest {
        let value: Value = serde_json::from_str(data).map_err(shape)?;
        older = upcast::chain(upcasters, event_type, version, value).to_string();
    }
    let data = if version < newest { older.as_str() } else { data };
    match family {
        Family::Operation => tagged::read(name, data).map(Event::Operation),
        Family::Workspace => tagged::read(name, data).map(Event::Workspace),
        Family::Project => tagged::read(name, data).map(Event::Project),
        Family::Issue => tagged::read(name, data).map(Event::Issue),
        Family::Agent => tagged::read(name, data).map(Event::Agent),
        Family::Daemon => tagged::read(name, data).map(Event::Daemon),
        Family::Task => tagged::read(name, data).map(Event::Task),
        Family::Directory => tagged::read(name, data).map(Event::Directory),
        Family::Webhook => tagged::read(name, data).map(Event::Webhook),
        Family::Unknown => return Err(unknown()),
    }
    // Only where it doesn't fit is it asked whether there is such a type at all: most events fit.
    .map_err(|source| if schema_files::knows(event_type) { shape(source) } else { unknown() })
}
