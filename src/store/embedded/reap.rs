//! Takes a test run's cluster away once the run has ended, however it ended.
//!
//! Runs as a detached hidden subcommand: `__reap <pid to wait for> <data directory>`. Not for
//! installations: it deletes the folder.

use std::io;
use std::path::Path;

use super::postmaster;
use crate::process::pg;

/// Waits for the process to end, stops the cluster in `data_dir` at once and deletes the folder.
///
/// # Errors
/// When the process can't be watched or the folder can't be deleted.
pub fn run(wait_for: i32, data_dir: &Path) -> io::Result<()> {
    pg::wait_for_end(wait_for)?;
    let data = data_dir.join("pg/data");
    if let Some(pid) = postmaster::alive(&data) {
        pg::stop(pid, pg::Stop::Immediate)?;
        pg::wait_for_end(pid)?;
    }
    // Backends leave a moment after their postmaster.
    let mut tries = 0;
    loop {
        match std::fs::remove_dir_all(data_dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if tries >= 50 => return Err(error),
            Err(_) => {
                tries += 1;
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }
    }
}
