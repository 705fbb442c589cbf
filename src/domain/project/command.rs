//! What can be asked of a project.

use serde_json::{Map, Value};

use crate::domain::ContentRef;
use crate::domain::resource::MachineFacts;
use crate::domain::workspace::Role;
use crate::kernel::ids::ResourceId;

/// A resource as it was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewResource {
    /// Its id.
    pub resource: ResourceId,
    /// Its type.
    pub resource_type: String,
    /// Its reference as typed.
    pub resource_ref: Map<String, Value>,
    /// What people call it.
    pub label: Option<String>,
    /// Its place in the list; at the end when none is given.
    pub position: Option<u32>,
    /// What is known of the machine it names.
    pub machine: MachineFacts,
}

/// A command on one project's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectCommand {
    /// Bring it into being, with its first resources.
    Create {
        /// Its title.
        title: ContentRef,
        /// Its description.
        description: Option<ContentRef>,
        /// `planned` when none is given.
        status: Option<String>,
        /// `none` when none is given.
        priority: Option<String>,
        /// Its resources, all or none.
        resources: Vec<NewResource>,
    },
    /// Change it; absent fields keep their value.
    Update {
        /// The new title.
        title: Option<ContentRef>,
        /// The new description.
        description: Option<ContentRef>,
        /// The new status.
        status: Option<String>,
        /// The new priority.
        priority: Option<String>,
    },
    /// Delete it.
    Delete {
        /// What the one who asks may do.
        by: Role,
    },
    /// Attach a resource.
    Attach(NewResource),
    /// Change a resource; absent fields keep their value.
    UpdateResource {
        /// Which.
        resource: ResourceId,
        /// The whole new reference.
        resource_ref: Option<Map<String, Value>>,
        /// The new label; `Some(None)` clears it.
        label: Option<Option<String>>,
        /// The new place.
        position: Option<u32>,
        /// What is known of the machine it names.
        machine: MachineFacts,
    },
    /// Detach a resource. Nothing outside the log is touched.
    Detach {
        /// Which.
        resource: ResourceId,
    },
}
