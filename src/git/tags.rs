//! Annotated tags that carry a line of text and mark no commit.

use std::fs::File;

use super::{Git, GitError};

/// Longest answer looked at where it is an object's name or nothing.
const ANSWER_BYTES: usize = 4_096;

/// Identity of the tags; also keeps the user's own configuration out of them.
const IDENTITY: [&str; 6] =
    ["-c", "user.name=multica", "-c", "user.email=multica@multica.invalid", "-c", "tag.gpgSign=false"];

impl Git {
    /// Makes an annotated tag with this text, on the empty tree: the repository may be without a commit. One of
    /// that name that is there stays.
    ///
    /// # Errors
    /// [`GitError`].
    pub async fn annotate(&self, directory: &File, name: &str, text: &str) -> Result<(), GitError> {
        let full = format!("refs/tags/{name}");
        let known = self.read(directory, &["rev-parse", "--quiet", "--verify", &full], ANSWER_BYTES).await?;
        if known.exit.is_some_and(|exit| exit.code == Some(0)) {
            return Ok(());
        }
        let tree = self.ask(directory, &["hash-object", "-t", "tree", "-w", "/dev/null"]).await?;
        let message = format!("--message={text}");
        let tag = ["tag", "--annotate", "--cleanup=verbatim", &message, name, tree.trim()];
        self.ask(directory, &[&IDENTITY[..], &tag].concat()).await.map(drop)
    }

    /// The first lines of all annotated tags below a name, in the order of their names.
    ///
    /// # Errors
    /// [`GitError`], also when they are more than `max` bytes.
    pub async fn annotations(&self, directory: &File, below: &str, max: usize) -> Result<String, GitError> {
        let refs = format!("refs/tags/{below}/");
        let list = ["for-each-ref", "--sort=refname", "--format=%(contents:subject)", &refs];
        let answer = self.read(directory, &list, max).await?;
        match answer.exit {
            Some(exit) if exit.code == Some(0) => Ok(String::from_utf8_lossy(&answer.stdout).into_owned()),
            _ => Err(GitError::Refused { step: "for-each-ref".to_owned() }),
        }
    }

    async fn ask(&self, directory: &File, arguments: &[&str]) -> Result<String, GitError> {
        let answer = self.read(directory, arguments, ANSWER_BYTES).await?;
        if answer.exit.is_none_or(|exit| exit.code != Some(0)) {
            let step = arguments.iter().find(|word| !word.starts_with('-') && !word.contains('='));
            return Err(GitError::Refused { step: step.copied().unwrap_or_default().to_owned() });
        }
        Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
    }
}
