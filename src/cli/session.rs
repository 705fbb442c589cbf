//! What a verb has at hand: the server, the settings, the output; and how names become ids.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::args::Common;
use super::error::CliError;
use super::output::{Out, items, patiently, text};
use crate::client::api::{Api, Call, Connection, Written};
use crate::client::config::{Environment, Flags, Home, Profile, Settings};
use crate::client::in_task::TaskContext;
use crate::kernel::limits::Limits;

/// See the module.
pub struct Session {
    /// Where results go.
    pub out: Out,
    /// The environment.
    pub environment: Environment,
    /// Where it was started.
    pub current_dir: PathBuf,
    /// The bounds in force.
    pub limits: Limits,
    flags: Flags,
    written: Written,
}

impl Session {
    pub fn new(common: &Common, limits: Limits) -> Self {
        let flags = Flags {
            server_url: common.server_url.clone(),
            workspace: common.workspace_id.clone(),
            profile: common.profile.clone(),
        };
        Self {
            out: Out::new(common.output, jiff::Timestamp::now()),
            environment: Environment::of_process(),
            current_dir: std::env::current_dir().unwrap_or_default(),
            limits,
            flags,
            written: Written::seen(),
        }
    }

    /// What counts, after flag, environment and file.
    pub fn settings(&self) -> Result<Settings, CliError> {
        Ok(Settings::resolve(&self.flags, &self.environment, &self.current_dir)?)
    }

    /// Refuses a person's verb inside a task.
    pub fn people_only(&self, verb: &'static str) -> Result<(), CliError> {
        match self.in_task() {
            Some(context) => Err(CliError::InTask { verb, context }),
            None => Ok(()),
        }
    }

    pub fn in_task(&self) -> Option<TaskContext> {
        crate::client::in_task::detect(&self.environment, &self.current_dir)
    }

    /// The profile whose files count; there is none inside a task.
    pub fn profile(&self) -> Result<Profile, CliError> {
        let settings = self.settings()?;
        settings.profile.ok_or(CliError::NoServer)
    }

    /// This machine's daemon id.
    pub fn daemon_id(&self) -> Result<String, CliError> {
        Ok(Home::find(&self.environment)?.daemon_id(&self.environment)?)
    }

    /// The server, as whoever is signed in.
    pub fn api(&self) -> Result<Api, CliError> {
        let settings = self.settings()?;
        if let (Some(context), None) = (&settings.in_task, &settings.token) {
            return Err(CliError::NoTaskToken(context.clone()));
        }
        if settings.token.is_none() {
            return Err(if settings.server_url.is_none() {
                CliError::NoServer
            } else {
                CliError::NotSignedIn
            });
        }
        self.api_as(settings)
    }

    /// The server, with these settings.
    pub fn api_as(&self, settings: Settings) -> Result<Api, CliError> {
        let connection = Connection {
            server_url: settings.server_url.ok_or(CliError::NoServer)?,
            token: settings.token,
            workspace: settings.workspace,
            platform: "cli",
            run: settings.run,
            limits: self.limits.clone(),
            written: self.written.clone(),
        };
        Ok(Api::new(&connection)?)
    }

    /// Makes a call, showing that it goes on when it takes long.
    pub async fn call(&self, call: Call<'_>) -> Result<Value, CliError> {
        let api = self.api()?;
        Ok(patiently("waiting for the server", api.call(call)).await?)
    }

    pub async fn get(&self, path: &str) -> Result<Value, CliError> {
        self.call(Call::get(path)).await
    }

    /// A path as this machine means it: relative ones are taken from where the command was started.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        if path.is_absolute() { path.to_owned() } else { clean(&self.current_dir.join(path)) }
    }

    /// A project by id, by a head of its id, or by its exact title.
    pub async fn project(&self, reference: &str) -> Result<Value, CliError> {
        let answer = self.get("/api/projects").await?;
        pick("project", items(&answer, "projects"), reference, "title")
    }

    /// The same, also one that is archived: what it did can still be asked for.
    pub async fn agent_ever(&self, reference: &str) -> Result<Value, CliError> {
        let answer = self.call(Call::get("/api/agents").query("include_archived", true)).await?;
        pick("agent", items(&answer, "agents"), reference, "name")
    }

    /// An agent by id, by a head of its id, or by its name.
    pub async fn agent(&self, reference: &str) -> Result<Value, CliError> {
        let answer = self.get("/api/agents").await?;
        pick("agent", items(&answer, "agents"), reference, "name")
    }
}

/// Takes `.` and `..` out of an absolute path, by its text alone: what it names may not exist yet.
fn clean(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// Finds what a reference names: an id, four or more characters of its head or tail, or an exact name.
pub fn pick(kind: &'static str, list: &[Value], reference: &str, name: &str) -> Result<Value, CliError> {
    let wanted = reference.trim();
    if let Some(exact) = list.iter().find(|item| text(item, "id") == wanted) {
        return Ok(exact.clone());
    }
    let named: Vec<&Value> =
        list.iter().filter(|item| text(item, name).to_lowercase() == wanted.to_lowercase()).collect();
    let part = wanted.to_lowercase();
    let is_part = part.len() >= 4 && part.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let fits = |item: &&Value| {
        let id = text(item, "id");
        is_part && (id.starts_with(&part) || id.ends_with(&part))
    };
    let found: Vec<&Value> = if named.is_empty() { list.iter().filter(fits).collect() } else { named };
    match found.as_slice() {
        [one] => Ok((*one).clone()),
        [] => Err(CliError::Unknown { kind, reference: reference.to_owned() }),
        several => Err(CliError::Ambiguous {
            kind,
            reference: reference.to_owned(),
            candidates: several.iter().map(|v| format!("{} ({})", text(v, "id"), text(v, name))).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_is_an_id_a_part_of_one_or_a_name() {
        let list = [json!({"id":"aaaa1111-0","title":"Game"}), json!({"id":"aaaa2222-0","title":"Tools"})];
        let id = |reference: &str| pick("project", &list, reference, "title").map(|v| text(&v, "id"));
        assert_eq!(id("game").expect("found"), "aaaa1111-0");
        assert_eq!(id("aaaa2").expect("found"), "aaaa2222-0");
        assert!(matches!(id("aaaa"), Err(CliError::Ambiguous { .. })));
        assert!(matches!(id("aaa"), Err(CliError::Unknown { .. })));
    }

    #[test]
    fn a_relative_path_loses_its_dots() {
        assert_eq!(clean(Path::new("/a/b/../c/./d")), PathBuf::from("/a/c/d"));
    }
}
