//! A copy of the own executable that every account can start.
//!
//! A build under somebody's private home can't be executed by the accounts that agents run as.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Copies this process's executable to `<root>/<digest>/multica` unless it is there, and says where it is.
///
/// # Errors
/// When it can't be read or written.
pub fn publish(root: &Path) -> io::Result<PathBuf> {
    let name: String = Sha256::digest(fs::read("/proc/self/exe")?)
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let directory = root.join(name);
    let target = directory.join("multica");
    if target.is_file() {
        return Ok(target);
    }
    DirBuilder::new().recursive(true).mode(0o711).create(&directory)?;
    for path in [root, &directory] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o711))?;
    }
    let fresh = directory.join(format!(".multica-{}", std::process::id()));
    let mut copy = OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&fresh)?;
    io::copy(&mut File::open("/proc/self/exe")?, &mut copy)?;
    copy.set_permissions(fs::Permissions::from_mode(0o755))?;
    copy.sync_all()?;
    drop(copy);
    fs::rename(&fresh, &target)?;
    File::open(&directory)?.sync_all()?;
    Ok(target)
}
