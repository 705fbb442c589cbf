//! Every read model there is: a new one is its file, its folder under `projections/` and its line here.

use super::ReadModel;
use super::{
    access, activity_feed, agent_roster, audit_trail, counters, daemon_orders, directory_queue, issue_board,
    project_resources, runtime_presence, task_status, timers,
};

/// All read models, in the order in which they are folded.
#[must_use]
pub fn all() -> Vec<Box<dyn ReadModel>> {
    vec![
        Box::new(access::Access),
        Box::new(agent_roster::AgentRoster),
        Box::new(counters::Counters),
        Box::new(daemon_orders::DaemonOrders),
        Box::new(directory_queue::DirectoryQueue),
        Box::new(issue_board::IssueBoard),
        Box::new(project_resources::ProjectResources),
        Box::new(runtime_presence::RuntimePresence),
        Box::new(task_status::TaskStatus),
        Box::new(timers::Timers),
        Box::new(activity_feed::ActivityFeed),
        Box::new(audit_trail::AuditTrail),
    ]
}
