//! The demo's two folders: its data directory and, beside it, the code that its agents work in.
//!
//! Invariants: the code lies in no folder of the daemon's own, where no agent may work; both are emptied only
//! when they carry the demo's mark, or hold nothing.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::SystemError;
use super::file_error::{FileError, failed};
use crate::client::config::Environment;
use crate::git::{Git, GitError};
use crate::kernel::limits::Limits;
use crate::store::embedded::{Claim, postmaster};

/// What says that a folder is the demo's, to be wiped.
const MARK: &str = ".multica-demo";

/// The demo can't have its folders.
#[derive(Debug, thiserror::Error)]
pub enum DemoPlaceError {
    /// A folder belongs to something else.
    #[error("{0} isn't the demo's: it holds other files")]
    NotTheDemos(PathBuf),
    /// A file or folder.
    #[error(transparent)]
    File(#[from] FileError),
    /// The database that an earlier demo left can't be stopped.
    #[error("the last demo's database can't be stopped")]
    Database(#[source] Box<SystemError>),
    /// Its repository.
    #[error("the demo's repository can't be made")]
    Sample(#[from] GitError),
}

impl DemoPlaceError {
    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::NotTheDemos(_) => "Name an empty folder: `multica up --demo --data-dir DIR`.".to_owned(),
            Self::File(error) => error.next_step(),
            Self::Database(error) => error.next_step(),
            Self::Sample(_) => "Check that git works: `git --version`.".to_owned(),
        }
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoPlace {
    data: PathBuf,
    code: PathBuf,
}

impl DemoPlace {
    /// The folders that go with a data directory: `DIR` and `DIR-code`; what lies in the installation's own
    /// folder gets its code beside that.
    #[must_use]
    pub fn of(data: &Path, installation: &Path) -> Self {
        let beside = if data.starts_with(installation) { installation } else { data };
        let mut name: OsString = beside.file_name().unwrap_or_default().to_owned();
        if beside != data {
            name.push("-");
            name.push(data.file_name().unwrap_or_default());
        }
        name.push("-code");
        Self { data: data.to_owned(), code: beside.with_file_name(name) }
    }

    /// The repository that the demo's agents work in.
    #[must_use]
    pub fn repository(&self) -> PathBuf {
        self.code.join("greetings")
    }

    /// A folder without the demo's mark is somebody's: it is refused, not emptied. One with nothing but the
    /// lock was left by a demo that was killed before it could leave its mark.
    ///
    /// # Errors
    /// [`DemoPlaceError::NotTheDemos`].
    pub fn must_be_the_demos(&self) -> Result<(), DemoPlaceError> {
        let of_others = |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|e| e.file_name() != Claim::FILE);
        for folder in [&self.data, &self.code] {
            let is_empty = fs::read_dir(folder).map_or(true, |mut entries| !entries.any(of_others));
            if !is_empty && !folder.join(MARK).is_file() {
                return Err(DemoPlaceError::NotTheDemos(folder.clone()));
            }
        }
        Ok(())
    }

    /// Empties both folders; this process has claimed the data directory.
    ///
    /// # Errors
    /// [`DemoPlaceError`].
    pub async fn wipe(&self) -> Result<(), DemoPlaceError> {
        // A demo that was killed has left its database running.
        if let Ok(cluster) = self.data.join("pg/data").canonicalize() {
            let stopped = postmaster::stop(&cluster, || {}).await;
            stopped.map_err(|error| DemoPlaceError::Database(Box::new(error.into())))?;
        }
        [&self.data, &self.code].into_iter().try_for_each(|folder| empty(folder))?;
        Ok(())
    }

    /// Makes the repository, with one file and one commit.
    ///
    /// # Errors
    /// [`DemoPlaceError`].
    pub async fn make_sample(
        &self,
        environment: &Environment,
        limits: &Limits,
    ) -> Result<(), DemoPlaceError> {
        let folder = self.repository();
        fs::create_dir_all(&folder).map_err(failed("make", &folder))?;
        let readme = folder.join("README.md");
        fs::write(&readme, "# Greetings\n\nA throw-away repository.\n").map_err(failed("write", &readme))?;
        let git = Git {
            home: folder.display().to_string(),
            path: environment.get("PATH").unwrap_or("/usr/bin:/bin").to_owned(),
            timeout: limits.git_timeout.duration(),
        };
        let handle = File::open(&folder).map_err(failed("open", &folder))?;
        Ok(git.make_sample(&handle).await?)
    }
}

fn empty(folder: &Path) -> Result<(), FileError> {
    fs::create_dir_all(folder).map_err(failed("make", folder))?;
    let mark = folder.join(MARK);
    fs::write(&mark, "The demo empties this folder at its start.\n").map_err(failed("write", &mark))?;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // Whoever waits for the lock waits on this very file.
        if path == mark || entry.file_name() == Claim::FILE {
            continue;
        }
        let gone = if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        gone.map_err(failed("remove", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_s_code_lies_beside_the_daemon_s_own_folders_never_in_them() {
        let of = |data: &str| {
            let place = DemoPlace::of(Path::new(data), Path::new("/var/lib/multica"));
            place.repository().display().to_string()
        };
        assert_eq!(of("/var/lib/multica/profiles/demo"), "/var/lib/multica-demo-code/greetings");
        assert_eq!(
            of("/home/me/.local/share/multica/demo"),
            "/home/me/.local/share/multica/demo-code/greetings"
        );
        assert_eq!(of("/srv/try"), "/srv/try-code/greetings");
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused_and_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = DemoPlace::of(&folder.path().join("try"), Path::new("/nowhere"));
        assert!(place.must_be_the_demos().is_ok(), "nothing is there yet");
        empty(&place.code).expect("made");
        assert!(place.must_be_the_demos().is_ok(), "it is marked");
        fs::create_dir_all(&place.data).expect("made");
        fs::write(place.data.join("mine"), "mine").expect("written");
        assert!(
            matches!(place.must_be_the_demos(), Err(DemoPlaceError::NotTheDemos(at)) if at == place.data)
        );
        fs::remove_file(place.code.join(MARK)).expect("removed");
        fs::remove_file(place.data.join("mine")).expect("removed");
        fs::write(place.code.join("mine"), "mine").expect("written");
        assert!(
            matches!(place.must_be_the_demos(), Err(DemoPlaceError::NotTheDemos(at)) if at == place.code)
        );
    }
}
