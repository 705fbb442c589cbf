//! A profile's `config.json`, and how private files are written.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::ConfigError;
use super::keys;
use crate::process::safe_file;

/// More than any profile's file has, bytes.
const FILE_BYTES: u64 = 1_024 * 1_024;

/// Keys whose values are never shown.
const SECRET_KEYS: [&str; 1] = ["token"];

/// A profile's `config.json`.
#[derive(Debug, Clone, Default)]
pub struct ConfigFile {
    values: Map<String, Value>,
}

impl ConfigFile {
    /// Reads a file; a missing one is empty.
    ///
    /// # Errors
    /// When it can't be read, isn't a JSON object, or a key of ours holds something else.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        match safe_file::read_own(path, FILE_BYTES) {
            Ok(bytes) => {
                let values: Map<String, Value> = serde_json::from_slice(&bytes)
                    .map_err(|source| ConfigError::Form { path: path.to_owned(), source })?;
                let file = Self { values };
                file.check(path)?;
                Ok(file)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
        }
    }

    /// Writes it whole, private to its owner.
    ///
    /// # Errors
    /// When a key of ours would hold something else, or it can't be written.
    pub fn write(&self, path: &Path) -> Result<(), ConfigError> {
        self.check(path)?;
        let mut text = serde_json::to_vec_pretty(&self.values)
            .map_err(|source| ConfigError::Form { path: path.to_owned(), source })?;
        text.push(b'\n');
        write_private(path, &text)
    }

    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        match self.values.iter().find_map(|(key, value)| keys::check(key, value).err()) {
            None => Ok(()),
            Some(mismatch) => Err(ConfigError::Key { path: path.to_owned(), mismatch }),
        }
    }

    /// A text value; an empty one counts as absent.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// A count.
    #[must_use]
    pub fn count(&self, key: &str) -> Option<u32> {
        self.values.get(key).and_then(keys::count)
    }

    /// A list of paths.
    #[must_use]
    pub fn paths(&self, key: &str) -> Vec<PathBuf> {
        let list = self.values.get(key).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from).collect()
    }

    /// Sets a value.
    pub fn set(&mut self, key: &str, value: Value) {
        self.values.insert(key.to_owned(), value);
    }

    /// All values, secrets replaced.
    #[must_use]
    pub fn shown(&self) -> Map<String, Value> {
        let mut shown = self.values.clone();
        for key in SECRET_KEYS {
            if let Some(value) = shown.get_mut(key) {
                *value = Value::from(crate::kernel::redact::MARK);
            }
        }
        shown
    }
}

/// Writes a file whole and durably, readable by its owner only.
///
/// # Errors
/// When it can't be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), ConfigError> {
    write_private_io(path, bytes).map_err(|source| ConfigError::Write { path: path.to_owned(), source })
}

/// As [`write_private`], with the plain error.
///
/// # Errors
/// When it can't be written.
pub fn write_private_io(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    write_beside(path, bytes, |fresh| std::fs::rename(fresh, path))
}

/// The same for a file that isn't there yet; false when another process made it meanwhile, which stays.
pub(super) fn write_private_once(path: &Path, bytes: &[u8]) -> std::io::Result<bool> {
    let mut first = true;
    write_beside(path, bytes, |fresh| {
        match std::fs::hard_link(fresh, path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => first = false,
            // A file system without links.
            Err(_) => return std::fs::rename(fresh, path),
        }
        std::fs::remove_file(fresh)
    })?;
    Ok(first)
}

fn write_beside(
    path: &Path,
    bytes: &[u8],
    place: impl FnOnce(&Path) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let fresh = folder.join(format!(".{name}.{}", uuid::Uuid::now_v7().simple()));
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| place(&fresh));
    if written.is_err() {
        // Only a half-written copy under a name of its own is lost.
        drop(std::fs::remove_file(&fresh));
        return written;
    }
    std::fs::File::open(folder)?.sync_all()
}
