//! The facts that pages show, already bounded by what the reader may see.

use jiff::Timestamp;

use crate::wire::api::{Delivery, Webhook};
use crate::wire::audit::AuditPage;
use crate::wire::feed::Entry;

/// What surrounds every page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// Where the page's facts stand in the log; the live connection goes on from here.
    pub position: i64,
    /// When that was recorded, where the page shows that moment and not what is now.
    pub as_of: Option<Timestamp>,
    /// The member's name.
    pub member: String,
    /// The workspace's name.
    pub workspace: String,
    /// The feed's filters as a query string, for pages that follow a part of it.
    pub filters: String,
    /// What is wrong with the installation, one sentence each.
    pub faults: Vec<String>,
    /// Things that the page can't show because the log is damaged there.
    pub left_out: usize,
    /// Whether the reader sees what is for admins.
    pub admin: bool,
}

/// A webhook with its last deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookCard {
    /// The webhook.
    pub webhook: Webhook,
    /// Its newest deliveries.
    pub newest: Vec<Delivery>,
    /// The newest of those that were given up.
    pub dead: Vec<Delivery>,
}

/// A task that waits longer than is usual for its kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StrandedRow {
    /// Its id.
    pub id: String,
    /// `GAME-12#3`.
    pub name: String,
    /// Its status.
    pub status: String,
    /// Since when it waits.
    pub since: Option<jiff::Timestamp>,
    /// Why, as a sentence.
    pub because: String,
}

/// A task in a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskRow {
    /// Its id.
    pub id: String,
    /// `GAME-12#3`.
    pub name: String,
    /// The issue's title.
    pub title: String,
    /// Its status.
    pub status: String,
    /// Its agent's name.
    pub agent: String,
    /// Its provider.
    pub provider: String,
    /// Since when it has this status.
    pub since: Option<Timestamp>,
    /// What it waits for, when it waits.
    pub waits_for: Option<String>,
    /// The failure reason's sentence, when it failed.
    pub failure: Option<String>,
}

/// One task, whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskPage {
    /// As in lists.
    pub row: TaskRow,
    /// The issue's key.
    pub issue_key: String,
    /// What explains its state.
    pub explanation: Explanation,
    /// Label and value of further facts: machine, work directory, session, usage, ….
    pub facts: Vec<(String, String)>,
    /// Its last word, when it completed.
    pub output: Option<String>,
    /// What exactly went wrong, when it failed.
    pub detail: Option<String>,
    /// Its story, oldest first.
    pub history: Vec<Entry>,
    /// Its transcript, oldest first.
    pub transcript: Vec<MessageRow>,
    /// Messages before the first one shown.
    pub transcript_left_out: u64,
    /// Whether it can be cancelled.
    pub can_cancel: bool,
}

/// Why a task is where it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Explanation {
    /// The cause in one sentence.
    pub sentence: String,
    /// What would end it.
    pub ends_when: String,
    /// The last lines of what went wrong.
    pub detail: Option<String>,
    /// What helps, in words.
    pub advice: Vec<String>,
    /// Further causes, each with since when it is one.
    pub causes: Vec<(String, Option<Timestamp>)>,
    /// By when at the latest a time limit ends it.
    pub until: Option<Timestamp>,
    /// Commands that would unblock it.
    pub commands: Vec<String>,
}

/// One transcript message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRow {
    /// Its number.
    pub seq: i64,
    /// text, thinking, tool_use, tool_result, error.
    pub kind: String,
    /// The tool's name.
    pub tool: Option<String>,
    /// What it says.
    pub text: String,
    /// Whether it came on the error stream.
    pub stderr: bool,
}

/// A directory with its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryCard {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub label: String,
    /// Its path, where the reader may see it.
    pub path: Option<String>,
    /// The machine's name.
    pub machine: String,
    /// Who has it.
    pub holder: Option<Occupant>,
    /// What keeps the holder out, when something does.
    pub blocked: Option<String>,
    /// Who waits, first come first.
    pub queue: Vec<Occupant>,
    /// Runs that were given up there and may be at work until their machine has stopped them.
    pub stopping: Vec<Occupant>,
}

/// A task that holds a directory or waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupant {
    /// The task.
    pub task: String,
    /// `GAME-12#3`.
    pub name: String,
    /// Its agent's name.
    pub agent: String,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// A project with its resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectCard {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: String,
    /// Its resources, in order.
    pub resources: Vec<ResourceRow>,
}

/// A resource of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRow {
    /// Its type.
    pub kind: String,
    /// Its label, or what stands for it.
    pub label: String,
    /// Its URL or path.
    pub place: String,
    /// in_place or worktree, for directories.
    pub mode: Option<String>,
    /// The machine, for directories.
    pub machine: Option<String>,
    /// Whether a machine looked at it.
    pub verified: bool,
}

/// The audit trail as it is asked for and answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditView {
    /// The filters as they were typed: name and value, those that say something.
    pub filters: Vec<(String, String)>,
    /// The page.
    pub page: AuditPage,
    /// Whether there may be newer entries than these.
    pub newer: bool,
    /// Why the filters can't be answered: the sentence and what helps.
    pub problem: Option<(String, String)>,
}
