//! Why a path can't be used: every kind, with its words.

use serde::{Deserialize, Serialize};

/// Why a path can't be used. The serialised form crosses from the machine's look at it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum PathRefusal {
    /// No path was given.
    Empty,
    /// The path doesn't begin at a root.
    NotAbsolute,
    /// A volume as a whole.
    DriveRoot,
    /// A directory of the system.
    ProtectedRoot {
        /// Which.
        entry: String,
    },
    /// The home directory itself.
    HomeDirectory,
    /// A directory that holds the home directory.
    HomeParent,
    /// The daemon's own folder, one inside it, or one around it.
    DaemonFolder {
        /// What that folder is: `work root`, `state`, `data`.
        role: String,
    },
    /// Nothing is there.
    DoesNotExist,
    /// It can't be looked at.
    StatFailed {
        /// The operating system's word for it, `EACCES`.
        errno: String,
    },
    /// Something else is there.
    NotADirectory,
    /// Its links can't be followed.
    SymlinkResolution {
        /// The operating system's word for it, `ELOOP`.
        errno: String,
    },
    /// A link leads to a protected directory.
    ProtectedViaSymlink {
        /// The protected entry that it leads to.
        entry: String,
    },
    /// The path as typed is itself another name of a protected directory.
    ProtectedCanonical {
        /// The protected entry.
        entry: String,
    },
    /// Its content can't be listed.
    NotReadable,
    /// Files can't be made in it.
    NotWritable,
    /// A key of the reference isn't a text.
    BadRef {
        /// Which.
        key: String,
    },
    /// The reference names no daemon.
    MissingDaemonId,
    /// The project has a directory of this daemon already.
    DuplicateForDaemon {
        /// Where that is.
        path: String,
        /// What commands call it.
        called: String,
    },
    /// An execution mode that this build doesn't know.
    UnsupportedMode {
        /// As given.
        mode: String,
    },
    /// It belongs to an account that agents may not run as.
    OwnerNotAllowed {
        /// The owner's user id.
        uid: u32,
        /// The path as typed, for the line to add.
        path: String,
    },
    /// Its file system refuses the lock that keeps two runs apart.
    NotLockable {
        /// The operating system's word for it, `ENOLCK`.
        errno: String,
    },
    /// It was there and isn't any more, or is another directory now.
    Vanished,
}

impl PathRefusal {
    /// Stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::NotAbsolute => "not_absolute",
            Self::DriveRoot => "drive_root",
            Self::ProtectedRoot { .. } => "protected_root",
            Self::HomeDirectory => "home_directory",
            Self::HomeParent => "home_parent",
            Self::DaemonFolder { .. } => "daemon_folder",
            Self::DoesNotExist => "does_not_exist",
            Self::StatFailed { .. } => "stat_failed",
            Self::NotADirectory => "not_a_directory",
            Self::SymlinkResolution { .. } => "symlink_resolution",
            Self::ProtectedViaSymlink { .. } => "protected_via_symlink",
            Self::ProtectedCanonical { .. } => "protected_canonical",
            Self::NotReadable => "not_readable",
            Self::NotWritable => "not_writable",
            Self::BadRef { .. } => "bad_ref",
            Self::MissingDaemonId => "missing_daemon_id",
            Self::DuplicateForDaemon { .. } => "duplicate_for_daemon",
            Self::UnsupportedMode { .. } => "unsupported_mode",
            Self::OwnerNotAllowed { .. } => "owner_not_allowed",
            Self::NotLockable { .. } => "not_lockable",
            Self::Vanished => "vanished",
        }
    }

    /// The failure reason of a task that meets it.
    #[must_use]
    pub const fn failure_reason(&self) -> &'static str {
        match self {
            Self::OwnerNotAllowed { .. } => "owner_not_allowed",
            _ => "local_directory_error",
        }
    }

    /// A sentence for people; it never shows where a link leads.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Empty => "the path is empty".to_owned(),
            Self::NotAbsolute => "the path doesn't begin at a root".to_owned(),
            Self::DriveRoot => "the path is a whole drive".to_owned(),
            Self::ProtectedRoot { entry } => format!("`{entry}` is a directory of the system"),
            Self::HomeDirectory => "the path is the home directory itself".to_owned(),
            Self::HomeParent => "the path holds the home directory".to_owned(),
            Self::DaemonFolder { role } => {
                format!("the path is, holds or lies in the daemon's own folder ({role})")
            }
            Self::DoesNotExist => "nothing is at this path".to_owned(),
            Self::StatFailed { errno } => format!("the path can't be looked at ({errno})"),
            Self::NotADirectory => "something else than a directory is at this path".to_owned(),
            Self::SymlinkResolution { errno } => format!("the path's links can't be followed ({errno})"),
            Self::ProtectedViaSymlink { entry } => {
                format!("a link on the path leads to `{entry}`, which is protected")
            }
            Self::ProtectedCanonical { entry } => {
                format!("the path is another name of `{entry}`, which is protected")
            }
            Self::NotReadable => "the directory's content can't be listed".to_owned(),
            Self::NotWritable => "files can't be made in the directory".to_owned(),
            Self::BadRef { key } => format!("`resource_ref.{key}` isn't a text"),
            Self::MissingDaemonId => "`resource_ref.daemon_id` is missing".to_owned(),
            Self::DuplicateForDaemon { path, .. } => {
                format!("the project has a directory of this daemon already: {path}")
            }
            Self::UnsupportedMode { mode } => format!("execution mode `{mode}` isn't known here"),
            Self::OwnerNotAllowed { uid, .. } => {
                format!("the directory belongs to account {uid}, as which agents may not run")
            }
            Self::NotLockable { errno } => format!("the directory's file system refuses locks ({errno})"),
            Self::Vanished => "the directory that was granted isn't there any more".to_owned(),
        }
    }

    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::Empty | Self::NotAbsolute => "Give the directory's absolute path.".to_owned(),
            Self::DriveRoot | Self::HomeDirectory | Self::HomeParent => {
                "Attach a directory below it.".to_owned()
            }
            Self::ProtectedRoot { .. } | Self::ProtectedCanonical { .. } => {
                "Attach a directory of your own, not one of the system's.".to_owned()
            }
            Self::ProtectedViaSymlink { .. } => {
                "Attach a directory of your own: a link to one of the system's is the same directory.".to_owned()
            }
            Self::DaemonFolder { .. } => "Attach a directory elsewhere.".to_owned(),
            Self::DoesNotExist | Self::NotADirectory | Self::Vanished => {
                "Check the path on that machine; an attached resource gets another one with `multica project \
                 resource update`."
                    .to_owned()
            }
            Self::StatFailed { .. } | Self::SymlinkResolution { .. } => {
                "Check the permissions and links on the way to it.".to_owned()
            }
            Self::NotReadable | Self::NotWritable => {
                "The account that agents run as there (the daemon's own; under a daemon of root the directory's \
                 owner) needs to read, write and enter it (`rwx`): give it that, or attach a directory of its own."
                    .to_owned()
            }
            Self::BadRef { key } => format!("Give `{key}` as a JSON string."),
            Self::MissingDaemonId => {
                "Name the daemon on whose machine it is (`multica daemon list`).".to_owned()
            }
            Self::DuplicateForDaemon { called, .. } => format!(
                "A project has one directory of each daemon: attach this one to another project, or detach the \
                 one that is there: `multica project resource remove PROJECT {called}`."
            ),
            Self::UnsupportedMode { .. } => "Use `in_place`, the only mode of this version.".to_owned(),
            Self::OwnerNotAllowed { path, .. } => {
                let list = serde_json::Value::from(vec![path.as_str()]).to_string().replace('\'', r"'\''");
                format!(
                    "On that machine, allow it: `multica config set allowed_directories '{list}'` (this \
                     replaces the list that `multica config show` prints), then start its daemon anew."
                )
            }
            Self::NotLockable { .. } => "Move it to a local file system.".to_owned(),
        }
    }
}
