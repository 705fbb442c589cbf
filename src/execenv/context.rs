//! The context files of a run and what stands in them.

use serde_json::{Map, Value, json};

use super::quote;
use crate::wire::daemon::Assignment;

/// Says whose work directory this is; our CLI looks for it upwards.
pub const MARKER: &str = ".multica/daemon_task_context.json";
/// The short task card.
pub const ISSUE_CONTEXT: &str = ".agent_context/issue_context.md";
/// The project's resources.
pub const RESOURCES: &str = ".multica/project/resources.json";

/// Keeps the agent's `git add -A` from committing what is taken away after the run: the folder ignores
/// itself. The user's own ignore files, `.git/info/exclude` among them, are never touched.
const IGNORE: &str = "*\n";

const MANAGED_BY: &str = "multica-daemon-task";

/// A file to be written into the work directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFile {
    /// Relative to the work directory.
    pub path: &'static str,
    /// Its content.
    pub content: String,
    /// Whether somebody else's file of that name stops the run; else the file is left out.
    pub required: bool,
    /// Written only where its folder is made for it: in a folder of somebody's it would hide their files.
    pub in_new_folder: bool,
}

impl ContextFile {
    fn ignore(path: &'static str) -> Self {
        Self { path, content: IGNORE.to_owned(), required: false, in_new_folder: true }
    }

    fn new(path: &'static str, content: String) -> Self {
        Self { path, content, required: false, in_new_folder: false }
    }
}

/// All context files of a run, in the order of writing; the brief file aside.
#[must_use]
pub fn files(assignment: &Assignment) -> Vec<ContextFile> {
    let mut files = vec![
        ContextFile::ignore(".multica/.gitignore"),
        ContextFile { required: true, ..ContextFile::new(MARKER, marker(assignment)) },
        ContextFile::ignore(".agent_context/.gitignore"),
        ContextFile::new(ISSUE_CONTEXT, issue_context(assignment)),
    ];
    if let Some(content) = resources(assignment) {
        files.push(ContextFile::new(RESOURCES, content));
    }
    files
}

/// Whether a marker file is one of ours (a leftover), not another tool's.
#[must_use]
pub fn is_our_marker(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Map<String, Value>>(bytes)
        .is_ok_and(|map| map.get("managed_by").and_then(Value::as_str) == Some(MANAGED_BY))
}

fn marker(assignment: &Assignment) -> String {
    pretty(&json!({
        "managed_by": MANAGED_BY,
        "agent_id": assignment.agent_id,
        "issue_id": assignment.issue_id,
    }))
}

fn resources(assignment: &Assignment) -> Option<String> {
    if assignment.project_id.is_none() && assignment.project_resources.is_empty() {
        return None;
    }
    let mut root = Map::new();
    if let Some(project) = assignment.project_id {
        root.insert("project_id".to_owned(), json!(project));
    }
    for (key, text) in [
        ("project_title", &assignment.project_title),
        ("project_description", &assignment.project_description),
    ] {
        if !text.is_empty() {
            root.insert(key.to_owned(), json!(text));
        }
    }
    // A reference is passed on as it is, other machines' directories too: what it means is the reader's.
    root.insert("resources".to_owned(), json!(assignment.project_resources));
    Some(pretty(&Value::Object(root)))
}

fn issue_context(assignment: &Assignment) -> String {
    let key = quote::inline(&assignment.issue_key);
    let trigger = match assignment.comments.last() {
        None => "a new assignment".to_owned(),
        Some(last) => format!("the last comment is by {}", quote::inline(&last.author)),
    };
    format!(
        "# {key}: {}\n\n- Issue: `{}`\n- Trigger: {trigger}\n\n## Quick start\n\n\
         - `multica issue get {key}` shows the issue.\n\
         - `multica issue comment add {key} --content-stdin` answers in it.\n",
        quote::inline(&assignment.thread_name),
        assignment.issue_id,
    )
}

fn pretty(value: &Value) -> String {
    // A JSON value always has a text; the alternative would be a panic.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}
