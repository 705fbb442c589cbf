//! Whether a directory's lock can be had, asked by a short process as the directory's owner.
//!
//! Root opens nothing inside what is somebody's: the hidden subcommand `__try-lock` becomes the owner
//! first. The lock is given up at once; the answer is the exit code.

use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::process::lock::{Try, try_directory};
use crate::process::owner::{Owner, become_account};
use crate::process::safe_file::device_and_inode;

/// The exit code for "somebody else has it".
pub const BUSY: u8 = 3;

/// What to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TryLock {
    /// The directory's real path.
    pub real_path: String,
    /// Its device when it was inspected.
    pub device: u64,
    /// Its inode then.
    pub inode: u64,
    /// As whom to try; none: as the daemon's account.
    pub owner: Option<Owner>,
}

impl TryLock {
    /// Whether another program holds it now. Any other obstacle isn't a lock to wait for: the next
    /// supervisor meets it and says what is wrong.
    fn is_busy(&self) -> bool {
        match try_directory(Path::new(&self.real_path)) {
            Ok(Try::Taken(_)) | Err(_) => false,
            Ok(Try::Busy(file)) => {
                device_and_inode(&file).is_ok_and(|found| found == (self.device, self.inode))
            }
        }
    }
}

/// The hidden subcommand: [`TryLock`] as JSON in; [`BUSY`], or 0 when there is nothing to wait for.
pub fn main() -> ExitCode {
    let mut text = String::new();
    let request = io::stdin()
        .read_to_string(&mut text)
        .and_then(|_| serde_json::from_str::<TryLock>(&text).map_err(io::Error::from));
    let Ok(request) = request else { return ExitCode::FAILURE };
    if let Some(owner) = &request.owner
        && become_account(owner.uid, owner.gid, &owner.name).is_err()
    {
        return ExitCode::FAILURE;
    }
    if request.is_busy() { ExitCode::from(BUSY) } else { ExitCode::SUCCESS }
}
