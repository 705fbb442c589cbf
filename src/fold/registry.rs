//! Every read model there is: a new one is its file, its folder under `projections/` and its line here; one
//! that people read has a second line, its history's.

use super::ReadModel;
use super::history::History;
use super::{
    access, activity_feed, agent_roster, audit_trail, counters, daemon_orders, directory_queue, issue_board,
    project_resources, runtime_presence, task_status, timers, webhooks,
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
        Box::new(webhooks::Webhooks),
        Box::new(History::new("access_history", Box::new(access::Access))),
        Box::new(History::new("agent_roster_history", Box::new(agent_roster::AgentRoster))),
        Box::new(History::new("daemon_orders_history", Box::new(daemon_orders::DaemonOrders))),
        Box::new(History::new("directory_queue_history", Box::new(directory_queue::DirectoryQueue))),
        Box::new(History::new("issue_board_history", Box::new(issue_board::IssueBoard))),
        Box::new(History::new("project_resources_history", Box::new(project_resources::ProjectResources))),
        Box::new(History::new("runtime_presence_history", Box::new(runtime_presence::RuntimePresence))),
        Box::new(History::new("task_status_history", Box::new(task_status::TaskStatus))),
        Box::new(History::new("webhooks_history", Box::new(webhooks::Webhooks))),
    ]
}
