//! The files of a profile, and which of flag, environment and file counts.
//!
//! Invariants: flag before environment before file; keys that this build doesn't know are kept when a file
//! is written; a file is 0600 and replaced whole; inside a task no file is read at all.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde_json::{Map, Value};

use super::in_task::{self, TaskContext};
use crate::process::safe_file;

/// The profile that `multica up` keeps, used when nothing else is configured.
pub const LOCAL_PROFILE: &str = "local";

/// More than any profile's file has, bytes.
const FILE_BYTES: u64 = 1_024 * 1_024;
/// More than any id has, bytes.
const ID_BYTES: u64 = 4_096;

/// Keys whose values are never shown.
const SECRET_KEYS: [&str; 1] = ["token"];

/// Something about the configuration is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no home directory.
    #[error("HOME isn't set")]
    NoHome,
    /// A name that would leave the profiles' folder.
    #[error("`{0}` is no profile name")]
    ProfileName(String),
    /// A file can't be read.
    #[error("can't read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file isn't a JSON object.
    #[error("{path} isn't a JSON object")]
    Form {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A file can't be written.
    #[error("can't write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A profile was asked for inside a task.
    #[error("profiles aren't used inside a task")]
    ProfileInTask(TaskContext),
    /// Inside a task without its token.
    #[error("this is inside a task, and its token is missing")]
    NoTaskToken(TaskContext),
}

/// The environment variables, taken once.
#[derive(Debug, Clone, Default)]
pub struct Environment(pub BTreeMap<String, String>);

impl Environment {
    /// The process' own.
    #[must_use]
    pub fn of_process() -> Self {
        Self(
            std::env::vars_os()
                .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
                .collect(),
        )
    }

    /// A variable; an empty one counts as absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// What the command line says.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--server-url`.
    pub server_url: Option<String>,
    /// `--workspace-id`.
    pub workspace: Option<String>,
    /// `--profile`.
    pub profile: Option<String>,
}

/// The folder `~/.multica`.
#[derive(Debug, Clone)]
pub struct Home(pub PathBuf);

/// One profile's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name; empty for the default one.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
}

/// A profile's `config.json`.
#[derive(Debug, Clone, Default)]
pub struct ConfigFile {
    values: Map<String, Value>,
}

/// What counts, after flag, environment and file.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The server, if anything names one.
    pub server_url: Option<String>,
    /// The token, if there is one.
    pub token: Option<SecretString>,
    /// The workspace asked for.
    pub workspace: Option<String>,
    /// The profile that was used; none inside a task.
    pub profile: Option<Profile>,
    /// What says that we are inside a task.
    pub in_task: Option<TaskContext>,
    /// Agent and task whose run this is.
    pub run: Option<(String, String)>,
}

impl Home {
    /// Finds it.
    ///
    /// # Errors
    /// Without a home directory.
    pub fn find(environment: &Environment) -> Result<Self, ConfigError> {
        let home = environment.get("HOME").map(PathBuf::from);
        let home = home.or_else(|| etcetera::home_dir().ok()).ok_or(ConfigError::NoHome)?;
        Ok(Self(home.join(".multica")))
    }

    /// A profile by name; the empty name is the default one.
    ///
    /// # Errors
    /// When the name isn't a single path segment.
    pub fn profile(&self, name: &str) -> Result<Profile, ConfigError> {
        if name.is_empty() || name == "default" {
            return Ok(Profile { name: String::new(), folder: self.0.clone() });
        }
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if !plain || name.starts_with('.') {
            return Err(ConfigError::ProfileName(name.to_owned()));
        }
        Ok(Profile { name: name.to_owned(), folder: self.0.join("profiles").join(name) })
    }

    /// The machine-wide daemon id, made on first use and shared by all profiles.
    ///
    /// # Errors
    /// When the file can't be read or made.
    pub fn daemon_id(&self, environment: &Environment) -> Result<String, ConfigError> {
        if let Some(id) = environment.get("MULTICA_DAEMON_ID") {
            return Ok(id.to_owned());
        }
        let path = self.0.join("daemon.id");
        let id = uuid::Uuid::now_v7().to_string();
        match read_id(&path)? {
            Some(id) if !id.is_empty() => return Ok(id),
            // A blank one is nobody's: it is replaced.
            Some(_) => write_private(&path, format!("{id}\n").as_bytes())?,
            None => {
                let first = write_private_once(&path, format!("{id}\n").as_bytes())
                    .map_err(|source| ConfigError::Write { path: path.clone(), source })?;
                if !first {
                    // Another process was faster: one machine has one id.
                    return Ok(read_id(&path)?.filter(|id| !id.is_empty()).unwrap_or(id));
                }
            }
        }
        Ok(id)
    }
}

impl Profile {
    /// Its `config.json`.
    #[must_use]
    pub fn config_path(&self) -> PathBuf {
        self.folder.join("config.json")
    }

    /// The daemon's local state.
    #[must_use]
    pub fn daemon_dir(&self) -> PathBuf {
        self.folder.join("daemon")
    }

    /// What people call it.
    #[must_use]
    pub fn title(&self) -> &str {
        if self.name.is_empty() { "default" } else { &self.name }
    }

    /// Where runs get their env roots.
    #[must_use]
    pub fn default_work_root(&self, home: &Path) -> PathBuf {
        let suffix = if self.name.is_empty() { String::new() } else { format!("_{}", self.name) };
        home.join(format!("multica_workspaces{suffix}"))
    }
}

impl ConfigFile {
    /// Reads a file; a missing one is empty.
    ///
    /// # Errors
    /// When it can't be read or isn't a JSON object.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        match safe_file::read_own(path, FILE_BYTES) {
            Ok(bytes) => {
                let values = serde_json::from_slice(&bytes)
                    .map_err(|source| ConfigError::Form { path: path.to_owned(), source })?;
                Ok(Self { values })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
        }
    }

    /// Writes it whole, private to its owner.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self, path: &Path) -> Result<(), ConfigError> {
        let mut text = serde_json::to_vec_pretty(&self.values)
            .map_err(|source| ConfigError::Form { path: path.to_owned(), source })?;
        text.push(b'\n');
        write_private(path, &text)
    }

    /// A text value; an empty one counts as absent.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Any value.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
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

impl Settings {
    /// Settles what counts.
    ///
    /// # Errors
    /// When a file is unreadable, or a task's rules are broken.
    pub fn resolve(
        flags: &Flags,
        environment: &Environment,
        current_dir: &Path,
    ) -> Result<Self, ConfigError> {
        if let Some(context) = in_task::detect(environment, current_dir) {
            return Self::inside_task(flags, environment, context);
        }
        let profile = choose_profile(flags, environment)?;
        let file = ConfigFile::read(&profile.config_path())?;
        let pick = |flag: Option<&String>, variable: &str, key: &str| {
            flag.map(String::as_str)
                .or_else(|| environment.get(variable))
                .or_else(|| file.text(key))
                .map(str::to_owned)
        };
        Ok(Self {
            server_url: pick(flags.server_url.as_ref(), "MULTICA_SERVER_URL", "server_url"),
            token: pick(None, "MULTICA_TOKEN", "token").map(SecretString::from),
            workspace: pick(flags.workspace.as_ref(), "MULTICA_WORKSPACE_ID", "workspace_id"),
            profile: Some(profile),
            in_task: None,
            run: None,
        })
    }

    fn inside_task(
        flags: &Flags,
        environment: &Environment,
        context: TaskContext,
    ) -> Result<Self, ConfigError> {
        if flags.profile.is_some() {
            return Err(ConfigError::ProfileInTask(context));
        }
        let token = environment.get("MULTICA_TOKEN").filter(|token| token.starts_with("mat_"));
        let named = |variable| environment.get(variable).map(str::to_owned);
        Ok(Self {
            server_url: flags.server_url.clone().or_else(|| named("MULTICA_SERVER_URL")),
            token: token.map(SecretString::from),
            workspace: flags.workspace.clone().or_else(|| named("MULTICA_WORKSPACE_ID")),
            profile: None,
            in_task: Some(context),
            run: named("MULTICA_AGENT_ID").zip(named("MULTICA_TASK_ID")),
        })
    }
}

/// The profile that counts: flag, environment, else the default one, or `local` where only that one is set up.
fn choose_profile(flags: &Flags, environment: &Environment) -> Result<Profile, ConfigError> {
    let home = Home::find(environment)?;
    if let Some(name) = flags.profile.as_deref().or_else(|| environment.get("MULTICA_PROFILE")) {
        return home.profile(name);
    }
    let default = home.profile("")?;
    let file = ConfigFile::read(&default.config_path())?;
    let local = home.profile(LOCAL_PROFILE)?;
    let configured = file.text("server_url").is_some() || file.text("token").is_some();
    // A server named by flag or environment is another one: the local profile's token isn't for it.
    let named = flags.server_url.is_some() || environment.get("MULTICA_SERVER_URL").is_some();
    if !configured && !named && local.config_path().exists() {
        return Ok(local);
    }
    Ok(default)
}

/// What an id's file says, trimmed; none where there is no file.
fn read_id(path: &Path) -> Result<Option<String>, ConfigError> {
    match safe_file::read_own(path, ID_BYTES) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ConfigError::Read { path: path.to_owned(), source }),
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
fn write_private_once(path: &Path, bytes: &[u8]) -> std::io::Result<bool> {
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

#[cfg(test)]
mod tests;
