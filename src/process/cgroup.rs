//! A control group of its own for each run, where the system lets us: the net that nothing slips through.
//!
//! Version 2 only, found in the mount table, below the group this process is in. Everything here is best
//! effort: without it the other nets of [`super::tree`] stand.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

/// What all our groups' names begin with.
const PREFIX: &str = "multica-";

/// The name of a run's group.
#[must_use]
pub fn name(task: &str, generation: u32) -> String {
    format!("{PREFIX}{task}-{generation}")
}

/// Makes the group and opens its door: a process that writes `0` there is inside.
///
/// The right to do so is the opener's: it is opened before another account is taken on.
#[must_use]
pub fn make(name: &str) -> Option<File> {
    let parent = own_group()?;
    sweep(&parent);
    let group = parent.join(name);
    // One that is there already is an earlier start's of the same run.
    let _ = fs::create_dir(&group);
    OpenOptions::new().write(true).open(group.join("cgroup.procs")).ok()
}

/// Whether that process is in the group of that name.
#[must_use]
pub fn holds(name: &str, pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cgroup"))
        .is_ok_and(|text| text.lines().any(|line| line.rsplit('/').next() == Some(name)))
}

/// Removes groups of ended runs; the kernel keeps those that hold a process.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn own_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mount = mounts.lines().find_map(mount_point)?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount.join(path))
}

/// The mount point of a line that mounts the whole version 2 hierarchy.
fn mount_point(line: &str) -> Option<PathBuf> {
    let (before, after) = line.split_once(" - ")?;
    let fields: Vec<&str> = before.split(' ').collect();
    let whole = fields.get(3) == Some(&"/");
    (after.starts_with("cgroup2 ") && whole)
        .then(|| PathBuf::from(fields.get(4).copied().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_version_is_found_beside_the_first() {
        let first = "30 24 0:26 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu";
        let second = "31 24 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw";
        let part = "31 24 0:27 /inner /mnt rw - cgroup2 cgroup2 rw";
        assert_eq!(mount_point(first), None);
        assert_eq!(mount_point(second), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_point(part), None);
    }
}
