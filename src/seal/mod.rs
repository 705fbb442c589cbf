//! Seals: the log's last block hash, kept where who owns the database can't reach.
//!
//! A chain in the database stops only the careless: its owner can compute all of it again. A seal that lies
//! elsewhere can't be computed again, so a block that differs from its seal was changed after the sealing.
//!
//! Invariants: a place only grows; a seal is on the disk before anything says that it was put there; a torn
//! line is passed over and counted.
//!
//! Not here: when seals are made (`app::seals`), what they are held against (`store::verify`).

mod file;
mod repository;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::operation::SealPlaceKind;
use crate::git::{Git, GitError};
use crate::wire::api::Seal;

/// Where seals are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file: a line of JSON for each.
    File(PathBuf),
    /// A Git repository: an annotated tag for each, which can be pushed.
    Git(PathBuf),
}

/// Why seals can't be put or read there.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The place isn't named as one.
    #[error("`{0}` is no place for seals")]
    NoPlace(String),
    /// The file can't be used.
    #[error("the seals in {path} can't be {action}")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file or repository.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Git.
    #[error("the seals in the repository {path} can't be {action}")]
    Git {
        /// What was tried.
        action: &'static str,
        /// The repository.
        path: PathBuf,
        /// Why.
        #[source]
        source: GitError,
    },
}

impl SealError {
    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::NoPlace(_) => "Write file:PATH or git:REPOSITORY, or a path with a slash in it.".to_owned(),
            Self::File { .. } => "Check the path and its permissions, or name another place.".to_owned(),
            Self::Git { path, .. } => {
                format!("Check that it is a repository of this account: `git -C {} status`.", path.display())
            }
        }
    }
}

/// The seals of a place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// Those that can be read, in the order of the place.
    pub seals: Vec<Seal>,
    /// Lines that are none: torn by a crash, or somebody else's.
    pub unreadable: usize,
}

/// How places are read and written.
#[derive(Debug, Clone)]
pub struct Means {
    /// Most bytes of a place that are read.
    pub max: u64,
    /// How git is called.
    pub git: Git,
}

impl Means {
    /// With this process' account and PATH.
    #[must_use]
    pub fn of_process(max: u64, timeout: Duration) -> Self {
        let variable = |name, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
        let path = variable("PATH", "/usr/bin:/bin");
        Self { max, git: Git { home: variable("HOME", ""), path, timeout } }
    }
}

impl Place {
    /// Reads `file:PATH` or `git:REPOSITORY`; a path alone, which is known by a slash in it, is a repository where it
    /// is a folder, else a file.
    ///
    /// # Errors
    /// [`SealError::NoPlace`].
    pub fn parse(text: &str) -> Result<Self, SealError> {
        let none = || SealError::NoPlace(text.to_owned());
        let path = |path: &str| if path.is_empty() { Err(none()) } else { Ok(PathBuf::from(path)) };
        if let Some(rest) = text.strip_prefix("file:") {
            return path(rest).map(Self::File);
        }
        if let Some(rest) = text.strip_prefix("git:") {
            return path(rest).map(Self::Git);
        }
        // A word alone is a slip, and would be written into a file of that name.
        let path = path(if text.contains('/') { text } else { "" })?;
        Ok(if path.is_dir() { Self::Git(path) } else { Self::File(path) })
    }

    /// The same, wherever this process goes.
    #[must_use]
    pub fn absolute(self) -> Self {
        let whole = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        match self {
            Self::File(path) => Self::File(whole(path)),
            Self::Git(path) => Self::Git(whole(path)),
        }
    }

    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> SealPlaceKind {
        match self {
            Self::File(_) => SealPlaceKind::File,
            Self::Git(_) => SealPlaceKind::Git,
        }
    }

    /// Puts a seal there; one that is there already isn't put twice into a repository.
    ///
    /// # Errors
    /// [`SealError`].
    pub async fn put(&self, seal: &Seal, means: &Means) -> Result<(), SealError> {
        let line = serde_json::to_string(seal)
            .map_err(|source| self.file_error("written", io::Error::other(source)))?;
        match self {
            Self::File(path) => {
                file::append(path, &line).map_err(|source| self.file_error("written", source))
            }
            Self::Git(path) => repository::tag(path, seal, &line, &means.git)
                .await
                .map_err(|source| source.named("written", path)),
        }
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// [`SealError`].
    pub async fn read(&self, means: &Means) -> Result<Kept, SealError> {
        let text = match self {
            Self::File(path) => {
                file::read(path, means.max).map_err(|source| self.file_error("read", source))?
            }
            Self::Git(path) => repository::read(path, means.max, &means.git)
                .await
                .map_err(|source| source.named("read", path))?,
        };
        Ok(parse(&text))
    }

    fn file_error(&self, action: &'static str, source: io::Error) -> SealError {
        let (Self::File(path) | Self::Git(path)) = self;
        SealError::File { action, path: path.clone(), source }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Git(path) => write!(f, "git:{}", path.display()),
        }
    }
}

fn parse(text: &str) -> Kept {
    let mut kept = Kept::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match serde_json::from_str(line) {
            Ok(seal) => kept.seals.push(seal),
            Err(_) => kept.unreadable += 1,
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(position: i64) -> Seal {
        Seal {
            format: 1,
            installation: "0011223344556677".to_owned(),
            log: 1,
            position,
            block: "ab".repeat(32),
            sealed_at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn means() -> Means {
        Means::of_process(1 << 20, Duration::from_secs(20))
    }

    #[tokio::test]
    async fn a_file_of_seals_only_grows_and_a_torn_line_spoils_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("seals");
        let place = Place::parse(&format!("file:{}", path.display())).expect("a place");
        place.put(&seal(1), &means()).await.expect("put");
        let torn = std::fs::read_to_string(&path).expect("read") + "{\"format\":1,\"inst";
        std::fs::write(&path, &torn).expect("torn");
        place.put(&seal(2), &means()).await.expect("put");
        let kept = place.read(&means()).await.expect("read");
        assert_eq!((kept.seals, kept.unreadable), (vec![seal(1), seal(2)], 1));
        assert!(std::fs::read_to_string(&path).expect("read").starts_with(&torn));
    }

    #[tokio::test]
    async fn a_repository_keeps_each_seal_as_an_annotated_tag_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let init = std::process::Command::new("git").args(["init", "--quiet"]).arg(folder.path()).status();
        assert!(init.expect("git").success());
        // A path alone is enough, and a repository without a commit too.
        let place = Place::parse(&folder.path().display().to_string()).expect("a place");
        assert_eq!(place, Place::Git(folder.path().to_owned()));
        for position in [2, 10, 2] {
            place.put(&seal(position), &means()).await.expect("put");
        }
        let kept = place.read(&means()).await.expect("read");
        assert_eq!((kept.seals, kept.unreadable), (vec![seal(2), seal(10)], 0));
        let other = tempfile::tempdir().expect("a folder");
        let error = Place::Git(other.path().to_owned()).put(&seal(1), &means()).await.expect_err("no repo");
        assert!(error.next_step().contains("git -C"), "{error}");
    }

    #[test]
    fn a_place_is_named_by_its_kind() {
        assert_eq!(Place::parse("git:/r").expect("a place").to_string(), "git:/r");
        assert_eq!(Place::parse("/nowhere/x").expect("a place"), Place::File("/nowhere/x".into()));
        for none in ["", "file:", "git:", "bogus", "File"] {
            assert!(Place::parse(none).is_err(), "{none}");
        }
    }
}
