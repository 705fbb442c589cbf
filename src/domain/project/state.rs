//! What a project is after its events.

use serde_json::{Map, Value};

use crate::domain::ContentRef;
use crate::kernel::ids::{ProjectId, ResourceId};

/// What a project may be.
pub const STATUSES: [&str; 5] = ["planned", "in_progress", "paused", "completed", "cancelled"];

/// How urgent a project or issue may be, most urgent first.
pub const PRIORITIES: [&str; 5] = ["urgent", "high", "medium", "low", "none"];

/// An attached resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its id.
    pub id: ResourceId,
    /// Its type.
    pub resource_type: String,
    /// Its normalised reference.
    pub resource_ref: Map<String, Value>,
    /// What people call it.
    pub label: Option<String>,
    /// Its place in the list.
    pub position: u32,
    /// Whether a machine looked at it.
    pub verified: bool,
}

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// Its title.
    pub title: ContentRef,
    /// Its description.
    pub description: Option<ContentRef>,
    /// See [`STATUSES`].
    pub status: String,
    /// See [`PRIORITIES`].
    pub priority: String,
    /// Its resources in order of attachment.
    pub resources: Vec<Resource>,
    /// Whether it was deleted.
    pub deleted: bool,
}

impl Project {
    /// The resource of that id.
    #[must_use]
    pub fn resource(&self, id: ResourceId) -> Option<&Resource> {
        self.resources.iter().find(|resource| resource.id == id)
    }
}
