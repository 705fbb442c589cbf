//! What can happen to a project and its resources.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::ContentRef;
use crate::kernel::ids::ResourceId;

/// What happened to a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum ProjectEvent {
    /// It was created; its first resources follow in the same append.
    Created(Created),
    /// Something about it changed; absent fields kept their value.
    Updated(Updated),
    /// It was deleted; its issues stay.
    Deleted(Deleted),
    /// A resource was attached.
    ResourceAttached(ResourceAttached),
    /// A resource's reference, label or place changed; the fields hold the new whole.
    ResourceUpdated(ResourceUpdated),
    /// A resource was detached. Nothing outside the log was touched.
    ResourceDetached(ResourceDetached),
}

/// See [`ProjectEvent::Created`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Created {
    /// Its title.
    pub title: ContentRef,
    /// Its description.
    pub description: Option<ContentRef>,
    /// planned, in_progress, paused, completed, cancelled.
    pub status: String,
    /// urgent, high, medium, low, none.
    pub priority: String,
}

/// See [`ProjectEvent::Updated`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Updated {
    /// The new title.
    pub title: Option<ContentRef>,
    /// The new description.
    pub description: Option<ContentRef>,
    /// The new status.
    pub status: Option<String>,
    /// The new priority.
    pub priority: Option<String>,
}

/// See [`ProjectEvent::Deleted`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Deleted {}

/// See [`ProjectEvent::ResourceAttached`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ResourceAttached {
    /// The resource.
    pub resource: ResourceId,
    /// `github_repo`, `local_directory`, or a type added later.
    pub resource_type: String,
    /// The normalised reference; keys that this build doesn't know are kept.
    pub resource_ref: Map<String, Value>,
    /// What people call it.
    pub label: Option<String>,
    /// Its place in the project's list, from 0.
    pub position: u32,
    /// Whether a machine looked at it when it was attached.
    pub verified: bool,
}

/// See [`ProjectEvent::ResourceUpdated`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ResourceUpdated {
    /// The resource.
    pub resource: ResourceId,
    /// The whole new reference.
    pub resource_ref: Map<String, Value>,
    /// The new label, or none.
    pub label: Option<String>,
    /// The new place.
    pub position: u32,
    /// Whether a machine looked at it when it was changed.
    pub verified: bool,
}

/// See [`ProjectEvent::ResourceDetached`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ResourceDetached {
    /// The resource.
    pub resource: ResourceId,
}
