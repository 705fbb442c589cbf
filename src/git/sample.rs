//! A throw-away repository for the demo.

use std::fs::File;

use super::{Git, GitError};

/// Identity of the sample's one commit; also keeps the user's own configuration out of it.
const COMMIT: [&str; 8] = [
    "-c",
    "user.name=Demo",
    "-c",
    "user.email=demo@multica.invalid",
    "commit",
    "--quiet",
    "--all",
    "--message=First commit",
];

/// Longest answer looked at: nothing of it is used.
const ANSWER_BYTES: usize = 4_096;

impl Git {
    /// Makes a repository with everything that lies in the directory as its first commit.
    ///
    /// # Errors
    /// [`GitError`], also when git refuses one of the steps.
    pub async fn make_sample(&self, directory: &File) -> Result<(), GitError> {
        for step in [&["init", "--quiet", "--initial-branch=main"][..], &["add", "--all"], &COMMIT] {
            let answer = self.read(directory, step, ANSWER_BYTES).await?;
            if answer.exit.is_none_or(|exit| exit.code != Some(0)) {
                return Err(GitError::Refused { step: step.last().copied().unwrap_or_default().to_owned() });
            }
        }
        Ok(())
    }
}
