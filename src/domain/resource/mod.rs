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

/// A type of resource.
pub trait ResourceType: Sync {
    /// Its name, `resource_type` on the wire.
    fn name(&self) -> &'static str;

    /// Checks a reference as typed and brings it into the form that is stored.
    ///
    /// # Errors
    /// A refusal that names the key that is wrong.
    fn normalise(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Refusal>;

    /// The keys of a reference that mean something to this type, the label aside.
    fn keys(&self) -> &'static [&'static str];

    /// What of this reference a project can have only once: two references with one key exclude each other.
    fn exclusive(&self, _reference: &Map<String, Value>) -> Option<String> {
        None
    }

    /// What the second of two that exclude each other is told: what is there, and how it is called in commands.
    fn taken(&self, _there: &Map<String, Value>, _called: &str) -> Refusal {
        Refusal::conflict("resource_taken", "the project has one already", "Detach the one that is there.")
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

/// Refuses a key that means something to another type only: kept without a word, it would look as if it did
/// something here. What was there before stays.
///
/// # Errors
/// `key_of_another_type`.
pub fn no_foreign_keys(
    kind: &dyn ResourceType,
    given: &Map<String, Value>,
    there: Option<&Map<String, Value>>,
) -> Result<(), Refusal> {
    let own = kind.keys();
    for (key, value) in given {
        let blank = value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
        if blank || own.contains(&key.as_str()) || there.is_some_and(|there| there.contains_key(key)) {
            continue;
        }
        let Some(other) = types().iter().find(|other| other.keys().contains(&key.as_str())) else { continue };
        let (name, other) = (kind.name(), other.name());
        return Err(Refusal::invalid(
            "key_of_another_type",
            format!("a {name} has no `{key}`: that is for a {other}"),
            format!(
                "Leave it out, or attach a {other} of its own: `multica project resource add PROJECT --type {other} …`."
            ),
        ));
    }
    Ok(())
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
        "Choose `in_place`: no daemon up to this version has worktrees.",
    )
}
