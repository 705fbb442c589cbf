//! What state a work tree is in, read without touching it.

use std::fs::File;

use super::{Git, GitError};
use crate::domain::task::GitState;

/// Bytes of `git status` looked at for each path that may be counted: paths have 4096 at most, most far less.
const BYTES_PER_PATH: usize = 512;

/// What Git knows about a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkTree {
    /// HEAD, branch and how much is changed.
    pub state: GitState,
    /// Whether runs can be isolated in worktrees of it: there is a commit to start from.
    pub can_isolate: bool,
}

impl Git {
    /// The state of the work tree that holds the directory; none where there is none, or Git refuses it.
    ///
    /// # Errors
    /// [`GitError`] when git can't be asked at all.
    pub async fn work_tree(&self, directory: &File, bound: u32) -> Result<Option<WorkTree>, GitError> {
        let inside = self.read(directory, &["rev-parse", "--is-inside-work-tree"], 64).await?;
        if inside.stdout != b"true\n" {
            return Ok(None);
        }
        let status = [
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=normal",
            "--ignore-submodules=dirty",
        ];
        let max = usize::try_from(bound).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_PATH);
        let answer = self.read(directory, &status, max).await?;
        let cut = match answer.exit {
            None => true,
            Some(exit) if exit.code == Some(0) => false,
            Some(_) => return Ok(None),
        };
        let state = parse(&answer.stdout, bound, cut);
        Ok(Some(WorkTree { can_isolate: state.head.is_some(), state }))
    }
}

fn parse(bytes: &[u8], bound: u32, cut: bool) -> GitState {
    let mut state = GitState { head: None, branch: None, changed_paths: 0, more: cut };
    let mut entries = bytes.split(|b| *b == 0).filter(|entry| !entry.is_empty());
    while let Some(entry) = entries.next() {
        match entry.first() {
            Some(b'#') => {
                let line = String::from_utf8_lossy(entry);
                if let Some(oid) = line.strip_prefix("# branch.oid ") {
                    state.head = Some(oid.to_owned()).filter(|oid| oid != "(initial)");
                } else if let Some(name) = line.strip_prefix("# branch.head ") {
                    state.branch = Some(name.to_owned()).filter(|name| name != "(detached)");
                }
            }
            Some(b'!') => {}
            Some(kind) => {
                if *kind == b'2' {
                    // A rename's old name is an entry of its own.
                    entries.next();
                }
                if state.changed_paths == bound {
                    state.more = true;
                    break;
                }
                state.changed_paths += 1;
            }
            None => {}
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_paths_are_counted_up_to_the_bound_and_a_rename_is_one() {
        let status = b"# branch.oid abc\0# branch.head main\x001 .M N... 1 1 1 a a f\x002 R. N... 1 1 1 a a R100 new\0old\0? u\0";
        let all = parse(status, 9, false);
        assert_eq!((all.head.as_deref(), all.branch.as_deref()), (Some("abc"), Some("main")));
        assert_eq!((all.changed_paths, all.more), (3, false));
        let bounded = parse(status, 2, false);
        assert_eq!((bounded.changed_paths, bounded.more), (2, true));
    }

    #[test]
    fn an_unborn_branch_has_no_head_and_a_detached_head_no_branch() {
        let unborn = parse(b"# branch.oid (initial)\0# branch.head main\0", 9, false);
        assert_eq!((unborn.head, unborn.branch.as_deref()), (None, Some("main")));
        assert_eq!(parse(b"# branch.oid abc\0# branch.head (detached)\0", 9, false).branch, None);
    }
}
