//! Resources that a project can have: one file for each type, one line here.
//!
//! A new type is a file with a [`ResourceType`] and its line in [`types`]: no migration, route, command or
//! page changes. A test adds one.
//!
//! Invariants: a normalised reference normalises to itself; keys that a type doesn't know are kept; nothing
//! here looks at a disk.
//!
//! Not here: rules over the resources of one project (`domain/project`), the look at the disk (the machine).

use serde_json::{Map, Value};

use super::{Refusal, RefusalKind};

pub mod github_repo;
pub mod local_directory;

#[cfg(test)]
mod tests;

/// What is known of the machine that a reference names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineFacts {
    /// Whether the machine looked at it and found it usable.
    pub verified: bool,
    /// The daemon's program version, where it ever registered.
    pub cli_version: Option<String>,
    /// What the daemon's newest process can do.
    pub capabilities: Vec<String>,
}

/// Something that a project can have only one of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exclusive {
    /// Two references with one key exclude each other.
    pub key: String,
    /// What the second is told.
    pub refusal: Refusal,
}

/// A type of resource.
pub trait ResourceType: Sync {
    /// Its name, `resource_type` on the wire.
    fn name(&self) -> &'static str;

    /// Checks a reference as typed and brings it into the form that is stored.
    ///
    /// # Errors
    /// A refusal that names the key that is wrong.
    fn normalise(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Refusal>;

    /// What of this reference a project can have only once.
    fn exclusive(&self, _reference: &Map<String, Value>) -> Option<Exclusive> {
        None
    }

    /// Checks what the reference asks of its machine.
    ///
    /// # Errors
    /// `daemon_version_unsupported` when the machine's daemon can't do it.
    fn check_machine(&self, _reference: &Map<String, Value>, _machine: &MachineFacts) -> Result<(), Refusal> {
        Ok(())
    }

    /// The label inside the reference, for types that keep one there.
    fn label_of(&self, _reference: &Map<String, Value>) -> Option<String> {
        None
    }

    /// The reference with that label inside, for types that keep one there.
    fn with_label(&self, reference: Map<String, Value>, _label: Option<&str>) -> Map<String, Value> {
        reference
    }

    /// What people are told when another one of this type is attached too, where that matters.
    fn overlap(&self, _reference: &Map<String, Value>, _other: &Map<String, Value>) -> Option<String> {
        None
    }

    /// The daemon whose machine it is on, if it is on one.
    fn daemon(&self, _reference: &Map<String, Value>) -> Option<String> {
        None
    }

    /// The path for that machine's probe, if there is one to look at.
    fn probe_path(&self, _reference: &Map<String, Value>) -> Option<String> {
        None
    }

    /// How people see it when it has no label.
    fn display(&self, reference: &Map<String, Value>) -> String;
}

/// Every type there is.
#[must_use]
pub fn types() -> &'static [&'static dyn ResourceType] {
    &[
        &github_repo::GithubRepo,
        &local_directory::LocalDirectory,
        #[cfg(test)]
        &tests::Wiki,
    ]
}

/// The type of that name.
///
/// # Errors
/// `unknown_resource_type`.
pub fn find(name: &str) -> Result<&'static dyn ResourceType, Refusal> {
    types().iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
        let known: Vec<&str> = types().iter().map(|kind| kind.name()).collect();
        Refusal::invalid(
            "unknown_resource_type",
            format!("`{name}` is no type of resource"),
            format!("Use one of {}.", known.join(", ")),
        )
    })
}

/// The text under `key`, trimmed; none when it is absent, null or blank.
pub(in crate::domain) fn text(
    given: &Map<String, Value>,
    key: &'static str,
) -> Result<Option<String>, Refusal> {
    match given.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Some(_) => Err(Refusal::invalid(
            "bad_resource_ref",
            format!("`resource_ref.{key}` isn't a text"),
            format!("Give `{key}` as a JSON string."),
        )),
    }
}

/// Puts the text under `key`, or takes the key away.
pub(in crate::domain) fn set_text(reference: &mut Map<String, Value>, key: &str, text: Option<&str>) {
    match text {
        Some(text) => reference.insert(key.to_owned(), Value::String(text.to_owned())),
        None => reference.remove(key),
    };
}

/// Refuses what a machine's daemon can't do.
pub(in crate::domain) fn unsupported(capability: &str, machine: &MachineFacts) -> Refusal {
    let version = machine.cli_version.as_deref().unwrap_or("unknown");
    Refusal::new(
        RefusalKind::Unprocessable,
        "daemon_version_unsupported",
        format!("the daemon there (version {version}) doesn't offer `{capability}`"),
        "Update that daemon, or choose `in_place`.",
    )
}
