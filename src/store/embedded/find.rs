//! Finds the installed server programs.
//!
//! Invariants: a folder counts only when it holds both `initdb` and `postgres`; an existing cluster
//! decides the major version; a folder given by hand is the only one looked at.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::EmbeddedError;

/// The oldest major version that runs our SQL.
pub const FLOOR: u32 = 15;

/// Folders whose subfolders are one version each: (parent, prefix of the subfolder, path below it).
const VERSIONED: [(&str, &str, &str); 8] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/usr/lib64", "pgsql-", "bin"),
    ("/opt/homebrew/opt", "postgresql@", "bin"),
    ("/usr/local/opt", "postgresql@", "bin"),
    ("/home/linuxbrew/.linuxbrew/opt", "postgresql@", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
    ("/usr/local", "pgsql", "bin"),
];

/// Server programs of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// The folder that holds them.
    pub bin: PathBuf,
    /// Their major version.
    pub major: u32,
}

/// Where to look.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// A folder given by hand: then nothing else counts.
    pub given: Option<PathBuf>,
    /// The entries of PATH.
    pub path: Vec<PathBuf>,
    /// A folder of our own with an unpacked server.
    pub own: Option<PathBuf>,
}

/// Finds programs for a cluster of `wanted` major version, or the first found for a new one.
///
/// # Errors
/// [`EmbeddedError`]: none there, too old, or only other versions.
pub fn programs(places: &Places, data: &Path, wanted: Option<u32>) -> Result<Programs, EmbeddedError> {
    if let Some(bin) = &places.given {
        let found = inspect(bin).ok_or_else(|| EmbeddedError::NotAServer { bin: bin.clone() })?;
        return choose(vec![found], data, wanted, Vec::new());
    }
    let candidates = candidates(places);
    let found = candidates.iter().filter_map(|bin| inspect(bin)).collect();
    choose(found, data, wanted, candidates)
}

fn choose(
    found: Vec<Programs>,
    data: &Path,
    wanted: Option<u32>,
    looked: Vec<PathBuf>,
) -> Result<Programs, EmbeddedError> {
    if let Some(wanted) = wanted {
        let majors = found.iter().map(|programs| programs.major).collect();
        return found
            .into_iter()
            .find(|programs| programs.major == wanted)
            .ok_or_else(|| EmbeddedError::OtherMajor { data: data.to_owned(), wanted, found: majors });
    }
    let newest = found.iter().map(|programs| programs.major).max();
    found.into_iter().find(|programs| programs.major >= FLOOR).ok_or(match newest {
        Some(found) => EmbeddedError::TooOld { found, floor: FLOOR },
        None => EmbeddedError::NoServer { looked },
    })
}

fn candidates(places: &Places) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in &places.path {
        // Distributions link single programs into a folder of the PATH: the real one has the others.
        if let Ok(real) = fs::canonicalize(entry.join("postgres"))
            && let Some(folder) = real.parent()
        {
            all.push(folder.to_owned());
        }
    }
    for (parent, prefix, below) in VERSIONED {
        let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(parent)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                let version = name.strip_prefix(prefix)?;
                let major = version.split('.').next()?.parse().unwrap_or(0);
                Some((major, entry.path().join(below)))
            })
            .collect();
        versions.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
        all.extend(versions.into_iter().map(|(_, bin)| bin).filter(|bin| bin.is_dir()));
    }
    all.extend(places.own.clone());
    let mut once = std::collections::BTreeSet::new();
    all.retain(|bin| once.insert(bin.clone()));
    all
}

fn inspect(bin: &Path) -> Option<Programs> {
    if !bin.join("initdb").is_file() || !bin.join("postgres").is_file() {
        return None;
    }
    let output = Command::new(bin.join("postgres")).arg("--version").env_clear().output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"
    let version = text.split(") ").nth(1)?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    Some(Programs { bin: bin.to_owned(), major: digits.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs(major: u32) -> Programs {
        Programs { bin: PathBuf::from(format!("/pg/{major}/bin")), major }
    }

    #[test]
    fn an_existing_cluster_decides_the_version() {
        let found = vec![programs(18), programs(15)];
        let chosen = choose(found.clone(), Path::new("/d"), Some(15), Vec::new()).unwrap();
        assert_eq!(chosen.major, 15);
        let error = choose(found, Path::new("/d"), Some(16), Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "the cluster in /d is of PostgreSQL 16, found 18, 15");
    }

    #[test]
    fn a_machine_without_a_server_is_told_how_to_get_one() {
        let error = choose(Vec::new(), Path::new("/d"), None, vec![PathBuf::from("/usr/bin")]).unwrap_err();
        assert_eq!(error.to_string(), "no PostgreSQL server found (looked in /usr/bin)");
        for line in ["apt install", "dnf install", "brew install"] {
            assert!(error.next_step().contains(line));
        }
    }

    #[test]
    fn a_server_that_is_too_old_is_named() {
        let error = choose(vec![programs(14)], Path::new("/d"), None, Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "PostgreSQL 14 is too old, 15 is the oldest that works");
    }
}
