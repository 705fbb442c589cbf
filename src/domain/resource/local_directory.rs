//! Type `local_directory`: a real directory on one machine. This file: the reference; the path's rules are
//! in [`path`], why a path can't be used in [`refusal`].

use serde_json::{Map, Value};

use super::{MachineFacts, ResourceType, set_text, text, unsupported};
use crate::domain::{Refusal, RefusalKind};

pub mod path;
pub mod refusal;

pub use path::PathFacts;
pub use refusal::PathRefusal;

/// The capability of a daemon that isolates runs in worktrees.
pub const WORKTREES: &str = "local-worktree-v1";

/// See the module.
pub struct LocalDirectory;

/// How runs use the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExecutionMode {
    /// In the directory itself, one after the other.
    InPlace,
    /// In worktrees of it, side by side.
    Worktree,
}

/// The reference, typed, as a machine reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The path as typed, trimmed.
    pub local_path: String,
    /// The daemon whose machine it is on.
    pub daemon_id: String,
    /// What people call it.
    pub label: Option<String>,
    /// How runs use it.
    pub mode: ExecutionMode,
}

impl Reference {
    /// What people see: the label, else the last segment of the path.
    #[must_use]
    pub fn display(&self) -> String {
        self.label.clone().unwrap_or_else(|| path::last_segment(&self.local_path))
    }
}

/// Reads a reference.
///
/// # Errors
/// [`PathRefusal::BadRef`], [`PathRefusal::Empty`], [`PathRefusal::MissingDaemonId`],
/// [`PathRefusal::UnsupportedMode`].
pub fn read(given: &Map<String, Value>) -> Result<Reference, PathRefusal> {
    let field = |key: &'static str| text(given, key).map_err(|_| PathRefusal::BadRef { key: key.to_owned() });
    let mode = match field("execution_mode")?.as_deref() {
        None | Some("in_place") => ExecutionMode::InPlace,
        Some("worktree") => ExecutionMode::Worktree,
        Some(other) => return Err(PathRefusal::UnsupportedMode { mode: other.to_owned() }),
    };
    Ok(Reference {
        local_path: field("local_path")?.ok_or(PathRefusal::Empty)?,
        daemon_id: field("daemon_id")?.ok_or(PathRefusal::MissingDaemonId)?,
        label: field("label")?,
        mode,
    })
}

impl ResourceType for LocalDirectory {
    fn name(&self) -> &'static str {
        "local_directory"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["local_path", "daemon_id", "execution_mode"]
    }

    fn normalise(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
        let read = read(given)?;
        path::shape(&read.local_path)?;
        let mut reference = given.clone();
        set_text(&mut reference, "local_path", Some(&read.local_path));
        set_text(&mut reference, "daemon_id", Some(&read.daemon_id));
        set_text(&mut reference, "label", read.label.as_deref());
        let mode = match read.mode {
            // Absent and `in_place` are one thing: two spellings would be two resources.
            ExecutionMode::InPlace => None,
            ExecutionMode::Worktree => Some("worktree"),
        };
        set_text(&mut reference, "execution_mode", mode);
        Ok(reference)
    }

    fn exclusive(&self, reference: &Map<String, Value>) -> Option<String> {
        self.daemon(reference)
    }

    fn taken(&self, there: &Map<String, Value>, called: &str) -> Refusal {
        let path = self.probe_path(there).unwrap_or_default();
        PathRefusal::DuplicateForDaemon { path, called: called.to_owned() }.into()
    }

    fn check_machine(&self, reference: &Map<String, Value>, machine: &MachineFacts) -> Result<(), Refusal> {
        let worktree = read(reference)?.mode == ExecutionMode::Worktree;
        if worktree && !machine.capabilities.iter().any(|capability| capability == WORKTREES) {
            return Err(unsupported(WORKTREES, machine));
        }
        Ok(())
    }

    fn label_of(&self, reference: &Map<String, Value>) -> Option<String> {
        text(reference, "label").ok().flatten()
    }

    fn with_label(&self, mut reference: Map<String, Value>, label: Option<&str>) -> Map<String, Value> {
        set_text(&mut reference, "label", label);
        reference
    }

    fn overlap(&self, reference: &Map<String, Value>, other: &Map<String, Value>) -> Option<String> {
        let (own, other) = (read(reference).ok()?, read(other).ok()?);
        if own.daemon_id != other.daemon_id {
            return None;
        }
        let (inner, outer) = (path::clean(&own.local_path), path::clean(&other.local_path));
        let how = match () {
            // One directory has one queue, however many projects it is attached to.
            () if inner == outer => return None,
            () if path::is_inside(&inner, &outer) => "lies inside",
            () if path::is_inside(&outer, &inner) => "holds",
            () => return None,
        };
        Some(format!(
            "the directory {how} `{}`, which is attached too: runs in both can change the same files at once",
            other.local_path
        ))
    }

    fn daemon(&self, reference: &Map<String, Value>) -> Option<String> {
        text(reference, "daemon_id").ok().flatten()
    }

    fn probe_path(&self, reference: &Map<String, Value>) -> Option<String> {
        text(reference, "local_path").ok().flatten()
    }

    fn display(&self, reference: &Map<String, Value>) -> String {
        read(reference).map(|read| read.display()).unwrap_or_default()
    }
}

impl From<PathRefusal> for Refusal {
    fn from(refusal: PathRefusal) -> Self {
        let kind = match refusal {
            PathRefusal::DuplicateForDaemon { .. } => RefusalKind::Conflict,
            _ => RefusalKind::Invalid,
        };
        Self::new(kind, refusal.code(), refusal.sentence(), refusal.next_step())
    }
}
