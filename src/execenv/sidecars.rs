//! Writes context files into a work directory, and takes them out again to the last byte.
//!
//! The [`Manifest`] is made by looking, and is on disk in the run's folder before the first write; with it
//! alone, at any later time, another process can undo whatever part was done.
//!
//! Invariants: only what did not exist is created, nothing of anybody's is replaced; a file of ours that
//! was certainly written is removed whatever the agent made of it, one of which that isn't certain only
//! while its bytes are a beginning of ours; directories go only when empty.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::brief_block;
use super::context::{self, ContextFile};
use crate::process::failpoint;
use crate::process::safe_file::{Beneath, Entry, write_atomic};

/// The brief file to be extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BriefFile {
    /// Relative to the work directory.
    pub path: String,
    /// The managed block.
    pub block: String,
}

/// What will be written, and what was there before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// Device of the work directory.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Directories to be made, parents first.
    pub directories: Vec<String>,
    /// Files to be made.
    pub files: Vec<Planned>,
    /// The brief file.
    pub brief: Option<PlannedBrief>,
}

/// A file to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// Relative to the work directory.
    pub path: String,
    /// Its content.
    pub content: String,
    /// Whether a leftover of ours stands there and goes first.
    pub leftover: bool,
}

/// The brief file's change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBrief {
    /// Relative to the work directory.
    pub path: String,
    /// The managed block.
    pub block: String,
    /// The file's length before; none when it didn't exist.
    pub length: Option<u64>,
    /// Whether it holds an older block.
    pub older: bool,
}

/// Why context files can't be written.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// Another tool's file stands where one of ours must.
    #[error("{path} belongs to another tool")]
    Taken {
        /// Relative to the work directory.
        path: String,
    },
    /// The system refused.
    #[error("cannot {what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Relative to the work directory.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What became of the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removal {
    /// Removed.
    pub removed: Vec<String>,
    /// Still there.
    pub left: Vec<String>,
}

impl Manifest {
    /// Looks at the work directory and decides what can be written.
    ///
    /// # Errors
    /// [`SidecarError::Taken`] for a required name that isn't free.
    pub fn plan(
        beneath: &Beneath,
        identity: (u64, u64),
        files: &[ContextFile],
        brief: Option<BriefFile>,
        max: u64,
    ) -> Result<Self, SidecarError> {
        let mut manifest = Self { device: identity.0, inode: identity.1, ..Self::default() };
        for file in files {
            if file.in_new_folder && !is_in_new_folder(beneath, file.path) {
                continue;
            }
            let leftover = match beneath.entry(file.path) {
                Ok(Entry::Missing) => false,
                Ok(Entry::File) if is_leftover(beneath, file, max) => true,
                // A link or a file on the way is somebody's, like anything that stands at the name itself.
                Ok(_) | Err(_) if !file.required => continue,
                Ok(_) | Err(_) => return Err(SidecarError::Taken { path: file.path.to_owned() }),
            };
            manifest.add_parents(beneath, file.path);
            let (path, content) = (file.path.to_owned(), file.content.clone());
            manifest.files.push(Planned { path, content, leftover });
        }
        manifest.brief = brief.and_then(|brief| plan_brief(beneath, brief, max));
        Ok(manifest)
    }

    fn add_parents(&mut self, beneath: &Beneath, path: &str) {
        for (at, _) in path.match_indices('/') {
            let parent = &path[..at];
            let known = self.directories.iter().any(|directory| directory == parent);
            if !known && matches!(beneath.entry(parent), Ok(Entry::Missing)) {
                self.directories.push(parent.to_owned());
            }
        }
    }

    /// How many files it writes.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.files.len() + usize::from(self.brief.is_some())).unwrap_or(u32::MAX)
    }

    /// Writes everything.
    ///
    /// # Errors
    /// [`SidecarError`]; what was written stays for [`Manifest::remove`].
    pub fn write(&self, beneath: &Beneath, run: &Path, max: u64) -> Result<(), SidecarError> {
        let io = |what, path: &str| {
            let path = path.to_owned();
            move |source| SidecarError::Io { what, path, source }
        };
        for directory in &self.directories {
            beneath.make_directory(directory, 0o755).map_err(io("make", directory))?;
            failpoint::passes("sidecar-directory").map_err(io("make", directory))?;
        }
        for file in &self.files {
            if file.leftover {
                beneath.remove_file(&file.path).map_err(io("remove", &file.path))?;
            }
            beneath.create(&file.path, file.content.as_bytes(), 0o644).map_err(io("write", &file.path))?;
            failpoint::passes("sidecar-file").map_err(io("write", &file.path))?;
        }
        if let Some(brief) = &self.brief {
            brief.write(beneath, run, max).map_err(io("write", &brief.path))?;
            failpoint::passes("sidecar-brief").map_err(io("write", &brief.path))?;
        }
        Ok(())
    }

    /// Takes everything out again; `written` says that all of it was certainly written.
    #[must_use]
    pub fn remove(&self, beneath: &Beneath, run: &Path, written: bool, max: u64) -> Removal {
        let mut removal = Removal::default();
        if let Some(brief) = &self.brief {
            match brief.remove(beneath, run, max) {
                Ok(true) => removal.removed.push(brief.path.clone()),
                Ok(false) => {}
                Err(_) => removal.left.push(brief.path.clone()),
            }
            failpoint::hit("remove-brief");
        }
        for file in &self.files {
            let ours =
                written || is_beginning(beneath, &file.path, file.content.as_bytes(), max) || file.leftover;
            let outcome = if ours { beneath.remove_file(&file.path) } else { Ok(false) };
            match outcome {
                Ok(true) => removal.removed.push(file.path.clone()),
                Ok(false) if ours || matches!(beneath.entry(&file.path), Ok(Entry::Missing)) => {}
                Ok(false) | Err(_) => removal.left.push(file.path.clone()),
            }
            failpoint::hit("remove-file");
        }
        for directory in self.directories.iter().rev() {
            if beneath.remove_directory(directory).is_err() {
                removal.left.push(directory.clone());
            }
            failpoint::hit("remove-directory");
        }
        removal
    }
}

fn is_in_new_folder(beneath: &Beneath, path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(folder, _)| matches!(beneath.entry(folder), Ok(Entry::Missing)))
}

fn is_leftover(beneath: &Beneath, file: &ContextFile, max: u64) -> bool {
    file.path == context::MARKER
        && beneath.read(file.path, max).is_ok_and(|bytes| context::is_our_marker(&bytes))
}

fn is_beginning(beneath: &Beneath, path: &str, whole: &[u8], max: u64) -> bool {
    beneath.read(path, max).is_ok_and(|bytes| whole.starts_with(&bytes))
}

/// A brief file that is no plain file, too long or behind a link is left alone: the prompt has the brief then.
fn plan_brief(beneath: &Beneath, brief: BriefFile, max: u64) -> Option<PlannedBrief> {
    let BriefFile { path, block } = brief;
    match beneath.entry(&path) {
        Ok(Entry::Missing) => Some(PlannedBrief { path, block, length: None, older: false }),
        Ok(Entry::File) => {
            beneath.open_existing(&path).ok()?;
            let bytes = beneath.read(&path, max).ok()?;
            let older = brief_block::find(&bytes).is_some();
            Some(PlannedBrief { path, block, length: Some(bytes.len() as u64), older })
        }
        Ok(Entry::Directory | Entry::Other) | Err(_) => None,
    }
}

/// Where a brief file's bytes are kept while it is rewritten in place.
const KEPT: &str = "brief-before-rewrite";

impl PlannedBrief {
    fn write(&self, beneath: &Beneath, run: &Path, max: u64) -> io::Result<()> {
        if self.length.is_none() {
            return beneath.create(&self.path, self.block.as_bytes(), 0o644);
        }
        let mut file = beneath.open_existing(&self.path)?;
        if self.older {
            let bytes = read_all(&mut file, max)?;
            return rewrite(&mut file, run, &bytes, &brief_block::place(&bytes, &self.block));
        }
        file.seek(SeekFrom::End(0))?;
        file.write_all(&brief_block::appended(&self.block))?;
        file.sync_all()
    }

    /// Whether there was anything to remove.
    fn remove(&self, beneath: &Beneath, run: &Path, max: u64) -> io::Result<bool> {
        let mut file = match beneath.entry(&self.path)? {
            Entry::Missing => return Ok(false),
            Entry::File => beneath.open_existing(&self.path)?,
            Entry::Directory | Entry::Other => return Err(io::ErrorKind::InvalidInput.into()),
        };
        // The block's own length comes on top of what the file may have.
        let max = max + self.block.len() as u64 + 2;
        let found = read_all(&mut file, max)?;
        let bytes = unfinished_rewrite(run, max)?.unwrap_or_else(|| found.clone());
        let mut kept = brief_block::excise(&bytes);
        if let Some(torn) = self.torn_from(&kept) {
            kept.truncate(torn);
        }
        if self.length.is_none() && kept.is_empty() {
            beneath.remove_file(&self.path)?;
            return Ok(true);
        }
        if kept == found {
            return Ok(false);
        }
        if found.starts_with(&kept) {
            file.set_len(kept.len() as u64)?;
            file.sync_all()?;
        } else {
            rewrite(&mut file, run, &bytes, &kept)?;
        }
        Ok(true)
    }

    /// Where an append begins that ended before its first mark was whole.
    fn torn_from(&self, bytes: &[u8]) -> Option<usize> {
        let start = usize::try_from(self.length.unwrap_or(0)).ok()?;
        let rest = bytes.get(start..).filter(|rest| !rest.is_empty())?;
        let whole = if self.length.is_some() {
            brief_block::appended(&self.block)
        } else {
            self.block.clone().into_bytes()
        };
        (!self.older && whole.starts_with(rest)).then_some(start)
    }
}

fn read_all(file: &mut File, max: u64) -> io::Result<Vec<u8>> {
    if file.metadata()?.len() > max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Changes a file in place (its mode, owner and links stay); the bytes from before are kept until it is done.
fn rewrite(file: &mut File, run: &Path, before: &[u8], after: &[u8]) -> io::Result<()> {
    let kept = run.join(KEPT);
    write_atomic(&kept, before, 0o600)?;
    failpoint::hit("brief-rewrite");
    file.seek(SeekFrom::Start(0))?;
    file.write_all(after)?;
    file.set_len(after.len() as u64)?;
    file.sync_all()?;
    std::fs::remove_file(&kept)
}

fn unfinished_rewrite(run: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    match crate::process::safe_file::read_bounded(&run.join(KEPT), max) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
