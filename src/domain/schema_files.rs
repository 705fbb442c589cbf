//! The files of `event-schemas/`, built into the program.
//!
//! Not here: what is done with them (`app::writer::check`, `multica events schema`).

use rust_embed::RustEmbed;

use super::Family;

#[derive(RustEmbed)]
#[folder = "event-schemas/"]
#[allow_missing = true]
struct Files;

/// The schema of one version of an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchemaFile {
    /// `<family>.<name>`.
    pub event_type: String,
    /// The version, from 1.
    pub version: i16,
    /// The file below `event-schemas/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Every schema of every version, by type and version.
#[must_use]
pub fn all() -> Vec<SchemaFile> {
    let mut found: Vec<SchemaFile> = Files::iter()
        .filter_map(|path| {
            let (event_type, version) = event_of(&path)?;
            Some(SchemaFile { event_type, version, text: text(&path)?, path: path.into_owned() })
        })
        .collect();
    found.sort();
    found
}

/// Whether this build has any version of an event type.
#[must_use]
pub fn knows(event_type: &str) -> bool {
    Files::iter().filter_map(|path| event_of(&path)).any(|(known, _)| known == event_type)
}

/// The text of a file below `event-schemas/`.
#[must_use]
pub fn text(path: &str) -> Option<String> {
    Files::get(path).map(|file| String::from_utf8_lossy(&file.data).into_owned())
}

/// `task/queued.v1.json` → (`task.queued`, 1); other files are none of ours.
#[must_use]
pub fn event_of(file: &str) -> Option<(String, i16)> {
    let (family, name) = file.strip_suffix(".json")?.split_once('/')?;
    Family::from_name(family)?;
    // `task/samples/…` hold examples, not schemas.
    if name.contains('/') {
        return None;
    }
    let (event, version) = name.rsplit_once(".v")?;
    Some((format!("{family}.{event}"), version.parse().ok()?))
}
