//! Seals in a Git repository, an annotated tag each.

use std::fs::File;
use std::io;
use std::path::Path;

use super::SealError;
use crate::git::{Git, GitError};
use crate::wire::api::Seal;

/// Below which names the tags are.
const TAGS: &str = "multica/seal";

pub(super) enum Failed {
    Open(io::Error),
    Git(GitError),
}

impl Failed {
    pub(super) fn named(self, action: &'static str, path: &Path) -> SealError {
        let path = path.to_owned();
        match self {
            Self::Open(source) => SealError::File { action, path, source },
            Self::Git(source) => SealError::Git { action, path, source },
        }
    }
}

pub(super) async fn tag(path: &Path, seal: &Seal, line: &str, git: &Git) -> Result<(), Failed> {
    let folder = File::open(path).map_err(Failed::Open)?;
    // The hash in its name: another block at the same position is another tag, never the same one moved.
    let head = seal.block.get(..12).unwrap_or_default();
    let name = format!("{TAGS}/{}/{:012}-{head}", seal.installation, seal.position);
    git.annotate(&folder, &name, line).await.map_err(Failed::Git)
}

pub(super) async fn read(path: &Path, max: u64, git: &Git) -> Result<String, Failed> {
    let folder = File::open(path).map_err(Failed::Open)?;
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    git.annotations(&folder, TAGS, max).await.map_err(Failed::Git)
}
