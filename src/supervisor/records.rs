//! The files of a run that grow: journal, spool, transcript.
//!
//! A record is a big-endian u32 length, a big-endian u32 CRC32C and JSON; the first says whose file it is.
//!
//! Invariants: a record is whole or, at the very end, torn and cut off; a bad record before the end is an
//! error with its place, never skipped. Reading never changes the file; only its writer cuts it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::kernel::ids::TaskId;
use crate::process::safe_file::Beneath;
use crate::process::{lock, safe_file};

/// The newest format.
pub const FORMAT: u32 = 1;

const HEAD: usize = 8;

/// Whose file it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// See [`FORMAT`].
    pub format: u32,
    /// The task.
    pub task: TaskId,
    /// Its claim.
    pub generation: u32,
    /// The boot in which it was begun.
    pub boot_id: String,
}

/// Why a file of a run can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The system refused.
    #[error("cannot {what} {}", .path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is damaged before its end.
    #[error("bad record at byte {offset} of {}", .path.display())]
    BadRecord {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: usize,
    },
    /// It belongs to another run, or to a newer program.
    #[error("{} isn't of this run or of a newer format", .path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// It has reached its bound.
    #[error("{} is full at {max} bytes", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// The bound.
        max: u64,
    },
    /// A value has no JSON form.
    #[error("a record can't be written as JSON")]
    Encode(#[source] serde_json::Error),
}

/// A file of records, open for its one writer.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    file: File,
    bytes: u64,
    max: u64,
    /// Where each record after the header begins.
    starts: Vec<u64>,
    /// A failed append has left bytes behind.
    torn: bool,
    /// What was written: the file lies where the agent's account can reach it.
    mirror: Vec<u8>,
    mirrored: bool,
}

impl Records {
    /// Opens or begins it, cuts a torn tail, and gives what is in it.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn open<T: DeserializeOwned>(
        path: &Path,
        header: &Header,
        max: u64,
    ) -> Result<(Self, Vec<T>), RecordsError> {
        Self::open_with(path, header, max, false)
    }

    /// The same for a file that has to last whatever an agent does to it: see [`Self::restore`].
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn open_mirrored<T: DeserializeOwned>(
        path: &Path,
        header: &Header,
        max: u64,
    ) -> Result<(Self, Vec<T>), RecordsError> {
        Self::open_with(path, header, max, true)
    }

    fn open_with<T: DeserializeOwned>(
        path: &Path,
        header: &Header,
        max: u64,
        mirrored: bool,
    ) -> Result<(Self, Vec<T>), RecordsError> {
        let io = |what| move |source| RecordsError::Io { what, path: path.to_path_buf(), source };
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(safe_file::NOFOLLOW)
            .open(path)
            .map_err(io("open"))?;
        let mut bytes = vec![0; usize::try_from(file.metadata().map_err(io("stat"))?.len()).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0).map_err(io("read"))?;
        let scan = scan(path, &bytes)?;
        if scan.end < bytes.len() {
            file.set_len(scan.end as u64).map_err(io("cut"))?;
            file.sync_all().map_err(io("sync"))?;
        }
        let mut records = Self {
            path: path.to_path_buf(),
            file,
            bytes: scan.end as u64,
            max,
            starts: Vec::new(),
            torn: false,
            mirror: if mirrored { bytes[..scan.end].to_vec() } else { Vec::new() },
            mirrored,
        };
        if scan.spans.is_empty() {
            records.append(header, true)?;
            records.starts.clear();
            if let Some(parent) = path.parent() {
                safe_file::sync_directory(parent).map_err(io("sync"))?;
            }
            return Ok((records, Vec::new()));
        }
        let values = decode(path, &bytes, &scan.spans, header.task, header.generation)?;
        records.starts = scan.spans[1..].iter().map(|(start, _)| (*start - HEAD) as u64).collect();
        Ok((records, values))
    }

    /// Adds a record; `sync` makes it last before this returns.
    ///
    /// # Errors
    /// [`RecordsError::Full`] at the bound; what the system says.
    pub fn append(&mut self, value: &impl Serialize, sync: bool) -> Result<(), RecordsError> {
        self.append_leaving(value, sync, 0)
    }

    /// The same, with so many bytes left free for what must still come.
    ///
    /// # Errors
    /// [`RecordsError::Full`] when fewer would be left; what the system says.
    pub fn append_leaving(
        &mut self,
        value: &impl Serialize,
        sync: bool,
        free: u64,
    ) -> Result<(), RecordsError> {
        self.mend()?;
        let json = serde_json::to_vec(value).map_err(RecordsError::Encode)?;
        let length = u32::try_from(json.len()).map_err(|_| self.full())?;
        if self.bytes + json.len() as u64 + HEAD as u64 + free > self.max {
            return Err(self.full());
        }
        let mut record = Vec::with_capacity(json.len() + HEAD);
        record.extend(length.to_be_bytes());
        record.extend(crc32c::crc32c(&json).to_be_bytes());
        record.extend(json);
        // One write: a crash leaves a whole record or a torn tail, never an interleaving.
        let written = self.file.write_all(&record).map_err(|source| ("write", source));
        let kept = written.and_then(|()| {
            if sync { self.file.sync_data().map_err(|source| ("sync", source)) } else { Ok(()) }
        });
        if let Err((what, source)) = kept {
            // A disk that is full takes the head of a record: the next one after it would make the whole file
            // unreadable. What can't be cut now is cut by the next start, as long as nothing follows it.
            self.torn |= self.file.set_len(self.bytes).is_err();
            return Err(RecordsError::Io { what, path: self.path.clone(), source });
        }
        self.starts.push(self.bytes);
        self.bytes += record.len() as u64;
        if self.mirrored {
            self.mirror.extend(record);
        }
        Ok(())
    }

    /// Puts a mirrored file back as it was written, where somebody has removed, replaced or changed it; says
    /// whether that was needed. What stands there instead is set aside.
    ///
    /// # Errors
    /// What the system says.
    pub fn restore(&mut self) -> Result<bool, RecordsError> {
        let same = || safe_file::read_bounded(&self.path, u64::MAX).is_ok_and(|bytes| bytes == self.mirror);
        if !self.mirrored || same() {
            return Ok(false);
        }
        let io = |what| {
            let path = self.path.clone();
            move |source| RecordsError::Io { what, path, source }
        };
        if let Some(folder) = self.path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io("restore"))?;
        }
        set_aside(&self.path)?;
        safe_file::write_atomic(&self.path, &self.mirror, 0o600).map_err(io("restore"))?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).custom_flags(safe_file::NOFOLLOW);
        self.file = options.open(&self.path).map_err(io("open"))?;
        self.torn = false;
        Ok(true)
    }

    /// How many records there are after the header.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is nothing after the header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Reads at most `count` records after the first `after`, and at most `budget` bytes, but one at least.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn read<T: DeserializeOwned>(
        &self,
        after: usize,
        count: usize,
        budget: u64,
    ) -> Result<Vec<T>, RecordsError> {
        let mut until = after.saturating_add(count).min(self.starts.len());
        let Some(start) = self.starts.get(after).copied().filter(|_| after < until) else {
            return Ok(Vec::new());
        };
        let end_of = |until: usize| self.starts.get(until).copied().unwrap_or(self.bytes);
        while until > after + 1 && end_of(until) - start > budget {
            until -= 1;
        }
        let end = end_of(until);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
        self.file.read_exact_at(&mut bytes, start).map_err(|source| RecordsError::Io {
            what: "read",
            path: self.path.clone(),
            source,
        })?;
        let scan = scan(&self.path, &bytes)?;
        scan.spans.iter().map(|span| value(&self.path, &bytes, *span)).collect()
    }

    /// Cuts what a failed append has left, if that couldn't be done at once.
    fn mend(&mut self) -> Result<(), RecordsError> {
        if self.torn {
            self.file.set_len(self.bytes).map_err(|source| RecordsError::Io {
                what: "cut",
                path: self.path.clone(),
                source,
            })?;
            self.torn = false;
        }
        Ok(())
    }

    fn full(&self) -> RecordsError {
        RecordsError::Full { path: self.path.clone(), max: self.max }
    }
}

/// Makes a file that a dead writer left usable again: one that is damaged, or no file at all, is set aside,
/// and the run is finished without what it said.
///
/// # Errors
/// What the system says.
pub fn mend<T: DeserializeOwned>(path: &Path, header: &Header, max: u64) -> Result<(), RecordsError> {
    let strange = std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_file());
    let damaged =
        |error: &RecordsError| matches!(error, RecordsError::BadRecord { .. } | RecordsError::NotOurs { .. });
    if strange || Records::open::<T>(path, header, max).err().as_ref().is_some_and(damaged) {
        set_aside(path)?;
    }
    Ok(())
}

fn set_aside(path: &Path) -> Result<(), RecordsError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = path.with_file_name(format!("{name}.damaged-{}", std::process::id()));
    match std::fs::rename(path, aside) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(RecordsError::Io { what: "set aside", path: path.to_path_buf(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Reads a file of records of a run without changing it, as somebody who doesn't trust its owner.
///
/// # Errors
/// [`RecordsError`]; a file that isn't there has no records.
pub fn peek<T: DeserializeOwned>(
    env_root: &Path,
    name: &str,
    task: TaskId,
    generation: u32,
    max: u64,
) -> Result<Vec<T>, RecordsError> {
    let relative = format!("runs/{generation}/{name}");
    let path = env_root.join(&relative);
    let read = lock::open_directory(env_root)
        .and_then(|directory| Beneath::of(&directory))
        .and_then(|beneath| beneath.read(&relative, max));
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(source) => return Err(RecordsError::Io { what: "read", path, source }),
    };
    let scan = scan(&path, &bytes)?;
    if scan.spans.is_empty() {
        return Ok(Vec::new());
    }
    decode(&path, &bytes, &scan.spans, task, generation)
}

struct Scan {
    /// Start and end of each record's JSON.
    spans: Vec<(usize, usize)>,
    /// Where the whole records end.
    end: usize,
}

fn scan(path: &Path, bytes: &[u8]) -> Result<Scan, RecordsError> {
    let mut spans = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let Some(end) = record_end(bytes, at) else {
            // Torn, unless something whole follows: then it is damage, and what follows must not be lost.
            let damaged = (at + 1..bytes.len()).any(|later| record_end(bytes, later).is_some());
            if damaged {
                return Err(RecordsError::BadRecord { path: path.to_path_buf(), offset: at });
            }
            break;
        };
        spans.push((at + HEAD, end));
        at = end;
    }
    Ok(Scan { spans, end: at })
}

fn record_end(bytes: &[u8], at: usize) -> Option<usize> {
    let number =
        |from: usize| bytes.get(from..from + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let (length, sum) = (number(at)? as usize, number(at + 4)?);
    let body = bytes.get(at + HEAD..(at + HEAD).checked_add(length)?)?;
    // Zeros are what a file system leaves of a write that was never made; they must not count as a record.
    (body.first() == Some(&b'{') && crc32c::crc32c(body) == sum).then_some(at + HEAD + length)
}

fn decode<T: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    spans: &[(usize, usize)],
    task: TaskId,
    generation: u32,
) -> Result<Vec<T>, RecordsError> {
    let Some(first) = spans.first() else { return Ok(Vec::new()) };
    let header: Header = value(path, bytes, *first)?;
    if header.format > FORMAT || header.task != task || header.generation != generation {
        return Err(RecordsError::NotOurs { path: path.to_path_buf() });
    }
    spans[1..].iter().map(|span| value(path, bytes, *span)).collect()
}

fn value<T: DeserializeOwned>(path: &Path, bytes: &[u8], span: (usize, usize)) -> Result<T, RecordsError> {
    serde_json::from_slice(&bytes[span.0..span.1])
        .map_err(|_| RecordsError::BadRecord { path: path.to_path_buf(), offset: span.0 - HEAD })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header { format: FORMAT, task: TaskId(uuid::Uuid::nil()), generation: 3, boot_id: "b".to_owned() }
    }

    fn file_of(values: &[serde_json::Value]) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().expect("tempdir");
        let path = root.path().join("journal");
        let (mut records, _) = Records::open::<serde_json::Value>(&path, &header(), 10_000).expect("open");
        for value in values {
            records.append(value, true).expect("append");
        }
        (root, path)
    }

    fn reopen(path: &Path) -> Result<Vec<serde_json::Value>, RecordsError> {
        Records::open(path, &header(), 10_000).map(|(_, values)| values)
    }

    #[test]
    fn cut_anywhere_a_file_keeps_exactly_its_whole_records() {
        let values: Vec<_> = (0..3).map(|n| serde_json::json!({ "n": n })).collect();
        let (_root, path) = file_of(&values);
        let bytes = std::fs::read(&path).expect("read");
        let mut seen = std::collections::BTreeSet::new();
        for length in 0..=bytes.len() {
            std::fs::write(&path, &bytes[..length]).expect("write");
            let kept = reopen(&path).expect("opens");
            assert_eq!(kept, values[..kept.len()]);
            seen.insert(kept.len());
            assert_eq!(reopen(&path).expect("opens again"), kept);
        }
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn a_flipped_bit_before_the_last_record_is_named_and_nothing_is_cut() {
        let values: Vec<_> = (0..3).map(|n| serde_json::json!({ "n": n })).collect();
        let (_root, path) = file_of(&values);
        let bytes = std::fs::read(&path).expect("read");
        let last = bytes.len() - (HEAD + 7);
        for at in 0..last {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).expect("write");
            assert!(matches!(reopen(&path), Err(RecordsError::BadRecord { .. })), "byte {at}");
            assert_eq!(std::fs::read(&path).expect("read"), damaged);
        }
    }

    #[test]
    fn a_full_file_says_so_and_stays_readable() {
        let root = tempfile::tempdir().expect("tempdir");
        let path = root.path().join("spool");
        let (mut records, _) = Records::open::<serde_json::Value>(&path, &header(), 250).expect("open");
        let value = serde_json::json!({ "text": "x".repeat(100) });
        records.append(&value, true).expect("fits");
        assert!(matches!(records.append(&value, true), Err(RecordsError::Full { .. })));
        assert_eq!(records.read::<serde_json::Value>(0, 9, 1).expect("reads"), std::slice::from_ref(&value));
        assert_eq!(reopen(&path).expect("opens"), [value]);
    }

    #[test]
    fn what_a_full_disk_left_of_a_record_is_cut_before_the_next_one_is_written() {
        let root = tempfile::tempdir().expect("tempdir");
        let path = root.path().join("spool");
        let (mut records, _) = Records::open::<serde_json::Value>(&path, &header(), 10_000).expect("open");
        let value = |n: u32| serde_json::json!({ "n": n });
        records.append(&value(1), true).expect("append");
        // The head of a record reaches the file, the rest has no room: /dev/full has none for anything.
        OpenOptions::new().append(true).open(&path).expect("open").write_all(&[0, 0, 0, 9, 1]).expect("torn");
        let full = OpenOptions::new().read(true).write(true).open("/dev/full").expect("open");
        let own = std::mem::replace(&mut records.file, full);
        let error = records.append(&value(2), true).expect_err("no room");
        assert!(matches!(error, RecordsError::Io { what: "write", .. }), "{error:?}");
        assert!(records.append(&value(2), true).is_err(), "still not");
        records.file = own;
        records.append(&value(3), true).expect("there is room again");
        assert_eq!(records.read::<serde_json::Value>(0, 9, 10_000).expect("reads"), [value(1), value(3)]);
        drop(records);
        assert_eq!(reopen(&path).expect("opens"), [value(1), value(3)]);
    }

    #[test]
    fn a_mirrored_file_comes_back_whatever_was_done_to_it_and_can_be_written_on() {
        let value = |n: u32| serde_json::json!({ "n": n });
        let damages: [fn(&Path); 5] = [
            |path| std::fs::remove_dir_all(path.parent().expect("a folder")).expect("removed"),
            |path| std::fs::write(path, "garbage").expect("written"),
            |path| std::fs::write(path, "").expect("emptied"),
            |path| {
                std::fs::remove_file(path).expect("removed");
                std::fs::create_dir(path).expect("made");
            },
            |path| {
                std::fs::remove_file(path).expect("removed");
                std::os::unix::fs::symlink("/etc/passwd", path).expect("linked");
            },
        ];
        for damage in damages {
            let root = tempfile::tempdir().expect("tempdir");
            let path = root.path().join("run/spool");
            std::fs::create_dir(root.path().join("run")).expect("made");
            let opened = Records::open_mirrored::<serde_json::Value>(&path, &header(), 10_000);
            let (mut records, _) = opened.expect("open");
            records.append(&value(1), true).expect("append");
            assert!(!records.restore().expect("whole"));
            damage(&path);
            assert!(records.restore().expect("restored"));
            records.append(&value(2), true).expect("append");
            assert!(!records.restore().expect("whole"));
            assert_eq!(reopen(&path).expect("opens"), [value(1), value(2)]);
        }
    }

    #[test]
    fn what_is_damaged_is_set_aside_and_what_is_whole_stays() {
        let (_root, path) = file_of(&[serde_json::json!({ "n": 1 })]);
        mend::<serde_json::Value>(&path, &header(), 10_000).expect("looked at");
        assert_eq!(reopen(&path).expect("opens").len(), 1);
        let whole = std::fs::read(&path).expect("read");
        std::fs::write(&path, [b"garbage", whole.as_slice()].concat()).expect("damaged");
        mend::<serde_json::Value>(&path, &header(), 10_000).expect("set aside");
        assert_eq!(reopen(&path).expect("opens").len(), 0);
        assert_eq!(std::fs::read_dir(path.parent().expect("a folder")).expect("list").count(), 2);
    }

    #[test]
    fn another_run_s_file_is_refused() {
        let (_root, path) = file_of(&[]);
        let other = Header { generation: 4, ..header() };
        let error = Records::open::<serde_json::Value>(&path, &other, 10_000).expect_err("refused");
        assert!(matches!(error, RecordsError::NotOurs { .. }));
    }
}
