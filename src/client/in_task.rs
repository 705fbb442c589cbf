//! Whether this command runs inside a task, where a person's own credentials don't belong.
//!
//! Two signs: the environment a supervisor gives its agent, or the marker file found in the current
//! directory or above it. Inside a task only the task's own token counts.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::config::Environment;

/// The marker's path below a work directory or the work root.
pub const MARKER: &str = ".multica/daemon_task_context.json";

/// What a marker of ours says of itself.
pub const MANAGED_BY: &str = "multica-daemon-task";

/// What says that we are inside a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskContext {
    /// The environment.
    Environment {
        /// The variable that says so.
        variable: &'static str,
    },
    /// A marker file, without the environment: a human's shell, or an agent that lost its environment.
    Marker {
        /// The file.
        path: PathBuf,
        /// It names a task, so it may be a crash's leftover; the work root's own marker never is.
        task_scoped: bool,
    },
}

#[derive(Deserialize)]
struct Marker {
    managed_by: String,
    #[serde(default)]
    agent_id: Option<String>,
    #[serde(default)]
    issue_id: Option<String>,
    #[serde(default)]
    chat_session_id: Option<String>,
}

/// Looks for the signs.
#[must_use]
pub fn detect(environment: &Environment, current_dir: &Path) -> Option<TaskContext> {
    for variable in ["MULTICA_TASK_ID", "MULTICA_AGENT_ID", "MULTICA_DAEMON_PORT"] {
        if environment.get(variable).is_some() {
            return Some(TaskContext::Environment { variable });
        }
    }
    current_dir.ancestors().find_map(|folder| {
        let path = folder.join(MARKER);
        let marker: Marker = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        let named = |id: &Option<String>| id.as_deref().is_some_and(|text| !text.is_empty());
        let task_scoped =
            named(&marker.agent_id) || named(&marker.issue_id) || named(&marker.chat_session_id);
        (marker.managed_by == MANAGED_BY).then_some(TaskContext::Marker { path, task_scoped })
    })
}

impl TaskContext {
    /// Why it is thought so, for an error's sentence.
    #[must_use]
    pub fn because(&self) -> String {
        match self {
            Self::Environment { variable } => format!("{variable} is set"),
            Self::Marker { path, .. } => format!("{} says so", path.display()),
        }
    }

    /// What a person can do about it.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::Environment { .. } => {
                "Run it in your own shell. An agent uses the token it was started with (MULTICA_TOKEN)."
                    .to_owned()
            }
            Self::Marker { path, task_scoped: true } => format!(
                "Run it in another directory. If no task works here (`multica directory list`), \
                 the file is left over from a crash and can be deleted: {}",
                path.display()
            ),
            Self::Marker { .. } => {
                "Run it outside the work root, which belongs to the daemon's tasks.".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with_marker(json: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(folder.path().join(".multica")).expect("made");
        std::fs::create_dir_all(folder.path().join("deep/er")).expect("made");
        std::fs::write(folder.path().join(MARKER), json).expect("written");
        folder
    }

    #[test]
    fn a_marker_above_is_found_and_only_a_tasks_own_may_be_a_leftover() {
        let task = folder_with_marker(r#"{"managed_by":"multica-daemon-task","issue_id":"x"}"#);
        let found = detect(&Environment::default(), &task.path().join("deep/er")).expect("inside");
        assert!(matches!(found, TaskContext::Marker { task_scoped: true, .. }));
        assert!(found.next_step().contains("left over"));

        let root = folder_with_marker(r#"{"managed_by":"multica-daemon-task"}"#);
        let found = detect(&Environment::default(), root.path()).expect("inside");
        assert!(matches!(found, TaskContext::Marker { task_scoped: false, .. }));
        assert!(!found.next_step().contains("left over"));
    }

    #[test]
    fn somebody_elses_file_says_nothing() {
        let foreign = folder_with_marker(r#"{"managed_by":"another-tool"}"#);
        assert_eq!(detect(&Environment::default(), foreign.path()), None);
    }
}
