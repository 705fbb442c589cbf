//! A log file that is put aside for a fresh one when it has grown, and the newest words of one.
//!
//! Invariants: a line is never torn between two files; of one log there are never more files than asked
//! for (`daemon.log`, `daemon.log.1`, …: the higher, the older); a log that can't be put aside is written on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file being written.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
    most: u64,
    files: u32,
}

impl LogFile {
    /// Opens a log to be written on; `most` bytes a file, `files` files.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn open(path: PathBuf, most: u64, files: u32) -> io::Result<Self> {
        let file = append_to(&path)?;
        let size = file.metadata()?.len();
        Ok(Self { path, file, size, most, files })
    }

    fn put_aside(&mut self) -> io::Result<()> {
        let numbered = |n: u32| PathBuf::from(format!("{}.{n}", self.path.display()));
        let oldest = self.files.saturating_sub(1);
        if oldest == 0 {
            self.file.set_len(0)?;
            self.size = 0;
            return Ok(());
        }
        for n in (1..oldest).rev() {
            match fs::rename(numbered(n), numbered(n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        fs::rename(&self.path, numbered(1))?;
        self.file = append_to(&self.path)?;
        self.size = 0;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

impl Write for LogFile {
    /// Takes the whole line, as the lines' formatter hands it over.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let length = line.len() as u64;
        if self.size > 0 && self.size + length > self.most && self.put_aside().is_err() {
            // Tried again after as much again: a log must not stop what it tells about.
            self.size = 0;
        }
        self.file.write_all(line)?;
        self.size += length;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads a log that somebody else writes, across its being put aside.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    file: File,
    /// The begin of a line whose end isn't there yet.
    begun: Vec<u8>,
}

impl Tail {
    /// Opens a log and gives its last lines.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn open(path: &Path, lines: usize) -> io::Result<(Self, Vec<String>)> {
        let mut tail = Self { path: path.to_owned(), file: File::open(path)?, begun: Vec::new() };
        let mut all = tail.fresh()?;
        Ok((tail, all.split_off(all.len().saturating_sub(lines))))
    }

    /// The whole lines that have come since.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn fresh(&mut self) -> io::Result<Vec<String>> {
        let mut bytes = std::mem::take(&mut self.begun);
        if self.file.stream_position()? > self.file.metadata()?.len() {
            // Emptied in place.
            self.file.seek(SeekFrom::Start(0))?;
        }
        self.file.read_to_end(&mut bytes)?;
        if let Ok(now) = File::open(&self.path)
            && identity(&now)? != identity(&self.file)?
        {
            self.file = now;
            self.file.read_to_end(&mut bytes)?;
        }
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.begun = bytes.split_off(end);
        Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|meta| (meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(log: &mut LogFile, n: u32) {
        log.write_all(format!("line {n}\n").as_bytes()).expect("written");
    }

    #[test]
    fn a_grown_log_is_put_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("daemon.log");
        // Two lines of seven bytes a file.
        let mut log = LogFile::open(path.clone(), 15, 3).expect("opened");
        for n in 0..9 {
            line(&mut log, n);
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        assert_eq!(read("daemon.log"), "line 8\n");
        assert_eq!(read("daemon.log.1"), "line 6\nline 7\n");
        assert_eq!(read("daemon.log.2"), "line 4\nline 5\n");
        assert_eq!(read("daemon.log.3"), "");
        drop(log);
        let mut log = LogFile::open(path, 15, 3).expect("opened again");
        line(&mut log, 9);
        assert_eq!(read("daemon.log"), "line 8\nline 9\n");
    }

    #[test]
    fn a_follower_misses_nothing_when_the_log_is_put_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("daemon.log");
        let mut log = LogFile::open(path.clone(), 15, 3).expect("opened");
        for n in 0..2 {
            line(&mut log, n);
        }
        let (mut tail, last) = Tail::open(&path, 1).expect("opened");
        assert_eq!(last, ["line 1"]);
        log.write_all(b"li").expect("written");
        assert!(tail.fresh().expect("read").is_empty());
        log.write_all(b"ne 2\n").expect("written");
        line(&mut log, 3);
        assert_eq!(tail.fresh().expect("read"), ["line 2", "line 3"]);
        assert!(tail.fresh().expect("read").is_empty());
    }

    #[test]
    fn a_log_that_can_not_be_put_aside_is_written_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("daemon.log");
        fs::create_dir_all(folder.path().join("daemon.log.1/in the way")).expect("made");
        let mut log = LogFile::open(path.clone(), 15, 2).expect("opened");
        for n in 0..5 {
            line(&mut log, n);
        }
        assert_eq!(fs::read_to_string(path).expect("read").lines().count(), 5);
    }
}
