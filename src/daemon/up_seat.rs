//! One `multica up` a profile, and where it keeps its things: `up.lock` in the profile's folder.
//!
//! Invariants: it is taken before anything of the profile is written; the lock ends with the process, the
//! words in the file stay, so that its log is found afterwards too.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::state::read_json;
use crate::client::config::{LOCAL_PROFILE, Profile};
use crate::kernel::limits::Limits;
use crate::process::lock::{self, Lock, Try};

/// What `up` says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpRecord {
    /// Its process.
    pub pid: u32,
    /// Where it keeps everything.
    pub data_dir: PathBuf,
    /// Its log.
    pub log: PathBuf,
}

/// The profile is this process' own as long as this lives.
#[derive(Debug)]
pub struct UpSeat {
    _lock: Lock,
}

/// The profile can't be taken.
#[derive(Debug, thiserror::Error)]
pub enum UpSeatError {
    /// Another one has it.
    #[error("`multica up` of profile `{profile}` runs already{place}", place = .running.as_ref().map(|up| format!(" (pid {}, {})", up.pid, up.data_dir.display())).unwrap_or_default())]
    Taken {
        /// The profile.
        profile: String,
        /// Which one, where its words can be read.
        running: Option<UpRecord>,
    },
    /// Its file can't be used.
    #[error("can't use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl UpSeatError {
    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::Taken { .. } => "Stop the other one (Ctrl-C in its terminal), or give this one a profile \
                                   and a place of its own: `multica up --profile NAME`."
                .to_owned(),
            Self::File { .. } => "Check the path and its permissions.".to_owned(),
        }
    }
}

/// Takes the profile; one that was just killed may hold it for a moment more.
///
/// # Errors
/// [`UpSeatError`].
pub async fn take(
    folder: &Path,
    profile: &str,
    record: &UpRecord,
    patience: Duration,
    limits: &Limits,
) -> Result<UpSeat, UpSeatError> {
    let path = file(folder);
    let failed = |source| UpSeatError::File { path: path.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let since = Instant::now();
    loop {
        match lock::try_file(&path).map_err(failed)? {
            Try::Taken(lock) => {
                write(lock.handle(), record).map_err(failed)?;
                return Ok(UpSeat { _lock: lock });
            }
            Try::Busy(_) if since.elapsed() < patience => tokio::time::sleep(limits.look.duration()).await,
            Try::Busy(_) => {
                return Err(UpSeatError::Taken { profile: profile.to_owned(), running: last(folder) });
            }
        }
    }
}

/// What the profile's last `up` said of itself, whether it runs or not.
#[must_use]
pub fn last(folder: &Path) -> Option<UpRecord> {
    read_json(&file(folder))
}

/// The line that starts a profile's last `up` again.
#[must_use]
pub fn command(profile: &Profile, last: &UpRecord) -> String {
    let mut line = "multica up".to_owned();
    if profile.name != LOCAL_PROFILE {
        line.push_str(&format!(" --profile {}", profile.title()));
    }
    // The usual place ends with the profile's name.
    let usual = |data: &Path| {
        let of = |path: Option<&Path>| path.and_then(Path::file_name).map(ToOwned::to_owned);
        let above = of(data.parent());
        of(Some(data)).is_some_and(|name| name == profile.name.as_str())
            && above.is_some_and(|above| above == "multica" || above == "profiles")
    };
    if !usual(&last.data_dir) {
        line.push_str(&format!(" --data-dir {}", last.data_dir.display()));
    }
    line
}

fn file(folder: &Path) -> PathBuf {
    folder.join("up.lock")
}

fn write(mut file: &File, record: &UpRecord) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(&serde_json::to_vec(record)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_starts_it_again_names_what_is_not_usual() {
        let line = |name: &str, data: &str| {
            let profile = Profile { name: name.to_owned(), folder: PathBuf::new() };
            let last = UpRecord { pid: 7, data_dir: data.into(), log: PathBuf::new() };
            command(&profile, &last)
        };
        assert_eq!(line("local", "/home/me/.local/share/multica/local"), "multica up");
        assert_eq!(line("game", "/var/lib/multica/profiles/game"), "multica up --profile game");
        assert_eq!(line("local", "/data/x"), "multica up --data-dir /data/x");
    }

    #[tokio::test]
    async fn a_profile_has_one_up_at_a_time_and_tells_where_its_last_one_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let profile = folder.path().join("profiles/game");
        let record =
            |data: &str| UpRecord { pid: 7, data_dir: data.into(), log: format!("{data}/log").into() };
        let limits = Limits::default();
        let up = |data: &'static str| {
            let (profile, limits) = (profile.clone(), limits.clone());
            async move { take(&profile, "game", &record(data), Duration::ZERO, &limits).await }
        };
        assert_eq!(last(&profile), None);
        let first = up("/one").await.expect("free");
        let error = up("/two").await.expect_err("taken");
        assert_eq!(error.to_string(), "`multica up` of profile `game` runs already (pid 7, /one)");
        assert_eq!(last(&profile), Some(record("/one")), "the second has written");
        drop(first);
        assert_eq!(last(&profile), Some(record("/one")), "its log is no longer found");
        let _second = up("/two").await.expect("free again");
        assert_eq!(last(&profile), Some(record("/two")));
    }
}
