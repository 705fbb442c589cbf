//! A file or folder that can't be used, for all who set an installation up.

use std::io;
use std::path::{Path, PathBuf};

/// What was tried, where, and why it failed.
#[derive(Debug, thiserror::Error)]
#[error("can't {action} {path}")]
pub struct FileError {
    /// What was tried.
    pub action: &'static str,
    /// Where.
    pub path: PathBuf,
    /// Why not.
    #[source]
    pub source: io::Error,
}

impl FileError {
    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        "Check the path and its permissions.".to_owned()
    }
}

/// Says what was tried of what failed.
pub fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::error_chain::Chain;

    #[test]
    fn what_failed_is_said_with_the_path_the_reason_and_what_to_do() {
        let path = Path::new("/nowhere/at/all");
        let error = std::fs::read(path).map_err(failed("read", path)).expect_err("it isn't there");
        let said = Chain(&error).to_string();
        assert!(said.starts_with("can't read /nowhere/at/all: No such file"), "{said}");
        assert!(error.next_step().ends_with('.'));
    }
}
