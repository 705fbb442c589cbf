//! Seals in a file, a line of JSON each.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::process::safe_file;

/// Adds a line and waits until it is on the disk.
pub(super) fn append(path: &Path, line: &str) -> io::Result<()> {
    let is_new = !path.exists();
    // Append only: it also works where the file system lets the file do nothing but grow.
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    let torn = !ends_with_line(path)?;
    let start = if torn { "\n" } else { "" };
    file.write_all(format!("{start}{line}\n").as_bytes())?;
    file.sync_all()?;
    if is_new {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        safe_file::sync_directory(folder.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// The whole file; a missing one holds nothing only when it is written.
pub(super) fn read(path: &Path, max: u64) -> io::Result<String> {
    let bytes = safe_file::read_bounded(path, max)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn ends_with_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}
