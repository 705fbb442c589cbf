//! The lexical rules of a path: what can be said of it without looking at a disk.
//!
//! The server asks [`shape`]. A machine asks [`check`] with what it knows of itself, once of the path as
//! typed and once, through [`check_real`], of what it leads to.
//!
//! Invariants: a comparison is of whole cleaned paths, never of prefixes of text: `/home/me/code` is fine
//! where `/home/me` isn't; Windows paths compare without regard to case and to the kind of slash.

use super::refusal::PathRefusal;

/// Directories of the system, POSIX.
const POSIX: [&str; 27] = [
    "/",
    "/Users",
    "/Users/Shared",
    "/home",
    "/root",
    "/var",
    "/etc",
    "/tmp",
    "/usr",
    "/opt",
    // Emptied as /tmp is, or shared with everybody in the same way.
    "/var/tmp",
    "/dev/shm",
    "/run",
    "/run/user",
    // Programs, devices and what the kernel shows.
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/local",
    "/boot",
    "/dev",
    "/proc",
    "/sys",
    // Where other file systems are put, as /home has homes.
    "/mnt",
];

/// Directories of the system, Windows.
const WINDOWS: [&str; 5] =
    ["C:\\Users", "C:\\ProgramData", "C:\\Program Files", "C:\\Program Files (x86)", "C:\\Windows"];

/// A folder of the daemon's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnFolder {
    /// What it is, for people: `work root`.
    pub role: &'static str,
    /// Its cleaned absolute path.
    pub path: String,
}

/// What a machine knows of itself. Empty on the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathFacts {
    /// Home directories that count: the daemon's user's and the directory's owner's, each also resolved.
    pub homes: Vec<String>,
    /// The daemon's own folders and the installation's, each also resolved.
    pub own_folders: Vec<OwnFolder>,
    /// Protected entries whose resolution differs from them: (entry, where it leads).
    pub resolved_entries: Vec<(String, String)>,
}

/// The part of the rules that needs no machine: given, absolute in one of three spellings, not protected.
///
/// # Errors
/// [`PathRefusal::Empty`], [`PathRefusal::NotAbsolute`], [`PathRefusal::DriveRoot`],
/// [`PathRefusal::ProtectedRoot`].
pub fn shape(typed: &str) -> Result<(), PathRefusal> {
    let typed = typed.trim();
    if typed.is_empty() {
        return Err(PathRefusal::Empty);
    }
    if typed.starts_with('/') {
        return protected_posix(&clean(typed))
            .map_or(Ok(()), |entry| Err(PathRefusal::ProtectedRoot { entry: entry.to_owned() }));
    }
    if is_windows(typed) { windows(typed) } else { Err(PathRefusal::NotAbsolute) }
}

/// The rules on the path as typed, on its own machine; gives the cleaned path.
///
/// # Errors
/// Those of [`shape`], [`PathRefusal::HomeDirectory`], [`PathRefusal::HomeParent`],
/// [`PathRefusal::DaemonFolder`].
pub fn check(typed: &str, facts: &PathFacts) -> Result<String, PathRefusal> {
    let typed = typed.trim();
    if typed.is_empty() {
        return Err(PathRefusal::Empty);
    }
    if !typed.starts_with('/') {
        return Err(PathRefusal::NotAbsolute);
    }
    let cleaned = clean(typed);
    // The home first: for root it is also an entry of the system, and the nearer word helps more.
    if facts.homes.iter().any(|home| clean(home) == cleaned) {
        return Err(PathRefusal::HomeDirectory);
    }
    if let Some(entry) = protected_posix(&cleaned) {
        return Err(PathRefusal::ProtectedRoot { entry: entry.to_owned() });
    }
    if facts.homes.iter().any(|home| is_inside(&clean(home), &cleaned)) {
        return Err(PathRefusal::HomeParent);
    }
    let near = |own: &&OwnFolder| {
        let own = clean(&own.path);
        is_inside(&own, &cleaned) || is_inside(&cleaned, &own)
    };
    match facts.own_folders.iter().find(near) {
        Some(own) => Err(PathRefusal::DaemonFolder { role: own.role.to_owned() }),
        None => Ok(cleaned),
    }
}

/// The same rules on what the path leads to (`real`, fully resolved): `typed` tells which words to use.
///
/// # Errors
/// [`PathRefusal::ProtectedViaSymlink`] or [`PathRefusal::ProtectedCanonical`] where [`check`] would say a
/// protected root, else what [`check`] says.
pub fn check_real(typed: &str, real: &str, facts: &PathFacts) -> Result<(), PathRefusal> {
    let cleaned = clean(real);
    let by_link = clean(typed.trim()) != cleaned;
    let protected = |entry: String| {
        if by_link {
            PathRefusal::ProtectedViaSymlink { entry }
        } else {
            PathRefusal::ProtectedCanonical { entry }
        }
    };
    if let Some((entry, _)) = facts.resolved_entries.iter().find(|(_, leads_to)| clean(leads_to) == cleaned) {
        return Err(protected(entry.clone()));
    }
    match check(real, facts) {
        Ok(_) => Ok(()),
        Err(PathRefusal::ProtectedRoot { entry }) => Err(protected(entry)),
        Err(other) => Err(other),
    }
}

/// The protected entries, for a machine that resolves each.
#[must_use]
pub const fn protected_entries() -> &'static [&'static str] {
    &POSIX
}

/// Cleans a POSIX path: no `.`, no `..`, no doubled and no trailing slash. Looks at no disk.
#[must_use]
pub fn clean(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

/// Whether cleaned `inner` is `outer` or lies below it.
#[must_use]
pub fn is_inside(inner: &str, outer: &str) -> bool {
    inner == outer || outer == "/" || inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}

/// The last segment, whichever the slashes; the path itself where there is none.
#[must_use]
pub fn last_segment(path: &str) -> String {
    let windows = is_windows(path);
    let is_slash = |c: char| c == '/' || (windows && c == '\\');
    let trimmed = path.trim_end_matches(is_slash);
    trimmed.rsplit(is_slash).next().filter(|segment| !segment.is_empty()).unwrap_or(path).to_owned()
}

fn protected_posix(cleaned: &str) -> Option<&'static str> {
    POSIX.into_iter().find(|entry| *entry == cleaned)
}

fn is_windows(path: &str) -> bool {
    let bytes = path.as_bytes();
    path.starts_with("\\\\")
        || (bytes.len() > 2
            && bytes[0].is_ascii_alphabetic()
            && bytes[1] == b':'
            && matches!(bytes[2], b'/' | b'\\'))
}

fn windows(path: &str) -> Result<(), PathRefusal> {
    let cleaned = clean_windows(path);
    let segments = cleaned.split('\\').filter(|segment| !segment.is_empty()).count();
    let root = if cleaned.starts_with("\\\\") { segments <= 2 } else { segments <= 1 };
    if root {
        return Err(PathRefusal::DriveRoot);
    }
    match WINDOWS.into_iter().find(|entry| entry.eq_ignore_ascii_case(&cleaned)) {
        Some(entry) => Err(PathRefusal::ProtectedRoot { entry: entry.to_owned() }),
        None => Ok(()),
    }
}

fn clean_windows(path: &str) -> String {
    let unc = path.starts_with("\\\\");
    // A share's host and name, or the drive, aren't left by `..`.
    let floor = if unc { 2 } else { 1 };
    let mut kept: Vec<&str> = Vec::new();
    for part in path.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." if kept.len() > floor => {
                kept.pop();
            }
            ".." => {}
            other => kept.push(other),
        }
    }
    format!("{}{}", if unc { "\\\\" } else { "" }, kept.join("\\"))
}
