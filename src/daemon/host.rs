//! What this machine is.

use std::path::{Path, PathBuf};

use crate::client::config::{Profile, write_private_io};
use crate::kernel::digest::hex;
use crate::kernel::ids::MachineId;
use crate::kernel::limits::Limits;
use crate::process::executable::Published;
use crate::process::{executable, owner};

/// What belongs to the installation when the daemon is root.
const SYSTEM_DIR: &str = "/var/lib/multica";
/// The variable by which tests of root's defaults get a place of their own.
const TEST_SYSTEM_DIR: &str = "MULTICA_TEST_SYSTEM_DIR";

/// What belongs to the installation when the daemon is root: no agent works in there.
#[must_use]
pub fn system_dir() -> PathBuf {
    std::env::var_os(TEST_SYSTEM_DIR)
        .filter(|dir| !dir.is_empty())
        .map_or_else(|| SYSTEM_DIR.into(), Into::into)
}

/// The machine's id: of `/etc/machine-id`, else of an id file of the machine, else of the daemon's id.
///
/// With the last, accounts exclude each other by the directory's lock only.
#[must_use]
pub fn machine_id(daemon_id: &str) -> MachineId {
    let usable = |path: &Path| {
        std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| text.len() >= 32)
    };
    if let Some(text) = usable(Path::new("/etc/machine-id")) {
        return MachineId::from_machine_file(&text);
    }
    let own = system_dir().join("machine-id");
    if let Some(text) = usable(&own) {
        return MachineId::from_machine_file(&text);
    }
    if owner::current_uid() == 0 {
        let fresh = hex(uuid::Uuid::new_v4().as_bytes());
        let written = write_private_io(&own, format!("{fresh}\n").as_bytes());
        if written.and_then(|()| readable_by_all(&own)).is_ok() {
            return MachineId::from_machine_file(&fresh);
        }
    }
    MachineId::from_machine_file(daemon_id)
}

fn readable_by_all(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    set(path, 0o644)?;
    path.parent().map_or(Ok(()), |folder| set(folder, 0o711))
}

/// What the machine calls itself.
#[must_use]
pub fn device_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "unnamed".to_owned() } else { name.trim().to_owned() }
}

/// Where runs get their env roots: for root a place that every account can walk through.
#[must_use]
pub fn default_work_root(profile: &Profile, home: &Path) -> PathBuf {
    if owner::current_uid() == 0 { system_dir().join("work") } else { profile.default_work_root(home) }
}

/// The executable that supervisors and agents' command lines use; as root a copy, which stays while this lives.
///
/// # Errors
/// When it can't be found, or not be copied to where every account can start it.
pub fn executable(limits: &Limits) -> std::io::Result<(PathBuf, Option<Published>)> {
    if owner::current_uid() != 0 {
        return Ok((std::env::current_exe()?, None));
    }
    let root = system_dir().join("bin");
    let ours = executable::publish(&root)?;
    match executable::remove_unused(&root, limits.old_executable.duration()) {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "removed copies of the executable that nobody uses"),
        // Only their space is lost.
        Err(error) => tracing::warn!(%error, "can't look for old copies of the executable"),
    }
    Ok((ours.path.clone(), Some(ours)))
}
