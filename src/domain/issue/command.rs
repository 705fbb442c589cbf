//! What can be asked of an issue.

use super::event::{Assignee, Commented, Created, Updated};
use crate::kernel::ids::TaskId;

/// A command on one issue's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssueCommand {
    /// Bring it into being. Number and key were drawn before; the append settles races.
    Create(Created),
    /// Change it; absent fields keep their value.
    Update(Updated),
    /// Assign or unassign it.
    Assign {
        /// The new assignee.
        assignee: Option<Assignee>,
    },
    /// Change its status.
    ChangeStatus {
        /// The new status.
        to: String,
        /// The task whose end changes it.
        because_of: Option<TaskId>,
    },
    /// Comment on it.
    Comment(Commented),
}
