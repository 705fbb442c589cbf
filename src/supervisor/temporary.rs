//! A run's folder for temporary files, where the machine's configuration wants it outside of the env root.
//!
//! Invariants: its name is made from the claim, so that recovery finds it without being told; a folder of
//! that name that is somebody else's is neither used nor removed.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::frame::Charge;
use super::run::RunError;
use crate::process::owner::current_uid;

/// Where it is.
pub(super) fn path(charge: &Charge) -> PathBuf {
    let assignment = &charge.assignment;
    match &charge.temporary_base {
        None => Path::new(&charge.env_root).join("tmp"),
        Some(base) => {
            Path::new(base).join(format!("multica-task-{}-{}", assignment.id.key(), assignment.generation))
        }
    }
}

/// Refuses a base that would mean another place in every process.
pub(super) fn check(charge: &Charge) -> Result<(), RunError> {
    match &charge.temporary_base {
        Some(base) if !base.starts_with('/') => Err(RunError::TemporaryBase { base: base.clone() }),
        Some(_) | None => Ok(()),
    }
}

/// Makes it; the one in the env root is there already.
pub(super) fn make(charge: &Charge) -> Result<(), RunError> {
    if charge.temporary_base.is_none() {
        return Ok(());
    }
    let path = path(charge);
    match DirBuilder::new().mode(0o700).create(&path) {
        // A claim that met a foreign lock may come again.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_ours(&path) => Ok(()),
        made => made.map_err(RunError::system("make the folder for temporary files")),
    }
}

/// Whether it is there and to be removed at the end.
pub(super) fn is_there(charge: &Charge) -> bool {
    charge.temporary_base.is_some() && check(charge).is_ok() && is_ours(&path(charge))
}

/// Removes it with all that is in it. One that can't be removed is said so, and holds nothing up.
pub(super) fn remove(charge: &Charge) {
    if !is_there(charge) {
        return;
    }
    let path = path(charge);
    if let Err(error) = fs::remove_dir_all(&path) {
        drop(writeln!(io::stderr(), "can't remove {}: {error}", path.display()));
    }
}

fn is_ours(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == current_uid())
}
