//! The files of a profile, and which of flag, environment and file counts.
//!
//! Invariants: flag before environment before file; keys that this build doesn't know are kept when a file
//! is written; a key of ours that holds something else is an error before anything is done; a file is 0600
//! and replaced whole; inside a task no file is read at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use self::file::write_private_once;
pub use self::file::{ConfigFile, write_private, write_private_io};
use self::keys::{Mismatch, Shape};
use super::in_task::{self, TaskContext};
use crate::process::safe_file;

mod file;
pub mod keys;

/// The profile that `multica up` keeps, used when nothing else is configured.
pub const LOCAL_PROFILE: &str = "local";

/// More than any id has, bytes.
const ID_BYTES: u64 = 4_096;

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
    /// A key of ours holds something else.
    #[error("`{key}` in {path} is {found}, not {wanted}", key = .mismatch.key, found = .mismatch.found, wanted = .mismatch.shape.name())]
    Key {
        /// The file.
        path: PathBuf,
        /// Which, and how.
        mismatch: Mismatch,
    },
    /// A variable of ours holds something else.
    #[error("the variable {name} isn't {wanted}", wanted = .shape.name())]
    Variable {
        /// Its name.
        name: &'static str,
        /// What it should hold.
        shape: Shape,
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

impl ConfigError {
    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::ProfileInTask(context) | Self::NoTaskToken(context) => context.next_step(),
            Self::NoHome => "Set HOME to your home directory.".to_owned(),
            Self::Form { .. } => "Mend the file, or move it away and sign in again.".to_owned(),
            Self::Key { path, mismatch } => format!(
                "Write `\"{}\": {}` in {}, or take the key out.",
                mismatch.key,
                mismatch.shape.example(),
                path.display()
            ),
            Self::Variable { name, shape } => format!("Set {name}={}, or unset it.", shape.example()),
            Self::ProfileName(_) => "Use letters, digits, `-`, `_` and `.`.".to_owned(),
            Self::Read { .. } | Self::Write { .. } => "Check the path and its permissions.".to_owned(),
        }
    }
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

    /// A variable that holds a count.
    ///
    /// # Errors
    /// When it holds something else.
    pub fn count(&self, name: &'static str) -> Result<Option<u32>, ConfigError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(count) if count > 0 => Ok(Some(count)),
            Ok(_) | Err(_) => Err(ConfigError::Variable { name, shape: Shape::Count }),
        }
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

#[cfg(test)]
mod tests;
