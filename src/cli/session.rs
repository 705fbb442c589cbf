//! What a verb has at hand: the server, the settings, the output; and how names become ids.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::args::Common;
use super::error::CliError;
use super::output::{Out, note, patiently, read};
use crate::client::api::{Api, Call, Connection, Past, Written};
use crate::client::config::{Environment, Flags, Home, Profile, Settings};
use crate::client::in_task::TaskContext;
use crate::kernel::limits::Limits;
use crate::wire::api::{Agent, Directory, Project, Resource, Token, Webhook};

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
    /// The moment as of which is read.
    pub past: Past,
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
        let past = match &common.as_of {
            Some(moment) => Past::of(moment.to_string()),
            None => Past::default(),
        };
        Self {
            out: Out::new(common.output, jiff::Timestamp::now(), past.clone()),
            environment: Environment::of_process(),
            current_dir: std::env::current_dir().unwrap_or_default(),
            limits,
            past,
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
            past: self.past.clone(),
        };
        Ok(Api::new(&connection)?)
    }

    /// Makes a call, showing that it goes on when it takes long.
    pub async fn call(&self, call: Call<'_>) -> Result<Value, CliError> {
        let api = self.api()?;
        Ok(self.patiently("waiting for the server", api.call(call)).await?)
    }

    /// Says what answers have left out: a short list must not look like a whole one.
    pub fn tell_left_out(&self) {
        let left_out = self.written.left_out();
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            note(&format!(
                "Left out, because the log is damaged there: {names}. `multica verify` names the places."
            ));
        }
    }

    /// Waits for something, showing that it goes on when it takes long.
    pub async fn patiently<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        patiently(self.limits.patience.duration(), what, work).await
    }

    pub async fn get(&self, path: &str) -> Result<Value, CliError> {
        self.call(Call::get(path)).await
    }

    /// A path as this machine means it: relative ones are taken from where the command was started.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        if path.is_absolute() { path.to_owned() } else { clean(&self.current_dir.join(path)) }
    }

    /// A project by id, by a part of its id, or by its title.
    pub async fn project(&self, reference: &str) -> Result<Project, CliError> {
        let answer = self.get("/api/projects").await?;
        pick(read::<Vec<Project>>(&answer["projects"])?, reference)
    }

    /// The same, also one that is archived: what it did can still be asked for.
    pub async fn agent_ever(&self, reference: &str) -> Result<Agent, CliError> {
        let answer = self.call(Call::get("/api/agents").query("include_archived", true)).await?;
        pick(read::<Vec<Agent>>(&answer)?, reference)
    }

    /// A directory by id, by a part of its id, by its label or by its path.
    pub async fn directory(&self, reference: &str) -> Result<Directory, CliError> {
        let answer = self.get("/api/directories").await?;
        pick(read::<Vec<Directory>>(&answer["directories"])?, reference)
    }

    /// An agent by id, by a part of its id, or by its name.
    pub async fn agent(&self, reference: &str) -> Result<Agent, CliError> {
        let answer = self.get("/api/agents").await?;
        pick(read::<Vec<Agent>>(&answer)?, reference)
    }
}

/// What a reference can name.
pub trait Named {
    /// project, agent, …
    const KIND: &'static str;

    /// Its id.
    fn id(&self) -> String;

    /// What people call it.
    fn name(&self) -> &str;

    /// The path it is at, for what has one.
    fn path(&self) -> Option<&Path> {
        None
    }
}

macro_rules! named {
    ($($thing:ty = $kind:literal, $name:expr $(, at $path:expr)?;)*) => {$(
        impl Named for $thing {
            const KIND: &'static str = $kind;

            fn id(&self) -> String {
                self.id.to_string()
            }

            fn name(&self) -> &str {
                let name: fn(&Self) -> &str = $name;
                name(self)
            }

            $(fn path(&self) -> Option<&Path> {
                let path: fn(&Self) -> Option<&str> = $path;
                path(self).map(Path::new)
            })?
        }
    )*};
}

named! {
    Project = "project", |project| &project.title;
    Agent = "agent", |agent| &agent.name;
    Directory = "directory", |directory| &directory.label, at |directory| directory.path.as_deref();
    Resource = "resource", |resource| resource.label.as_deref().unwrap_or_default();
    Token = "token", |token| &token.name;
    Webhook = "webhook", |webhook| &webhook.name;
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

/// Finds what a reference names: an id, four or more characters of its head or tail, or a name.
pub fn pick<T: Named>(list: Vec<T>, reference: &str) -> Result<T, CliError> {
    let wanted = reference.trim().to_lowercase();
    let is_part = wanted.len() >= 4 && wanted.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let is_its = |one: &T| one.id() == wanted;
    let called = |one: &T| one.name().to_lowercase() == wanted;
    let fits = |one: &T| is_part && (one.id().starts_with(&wanted) || one.id().ends_with(&wanted));
    // As it is written from here, and where it leads to from here.
    let written = std::path::absolute(reference.trim()).ok().map(|path| clean(&path));
    let paths = [written, std::fs::canonicalize(reference.trim()).ok()];
    let is_path = reference.contains('/') || reference.trim().starts_with('.');
    let there = |one: &T| {
        is_path && one.path().is_some_and(|path| paths.iter().any(|wanted| wanted.as_deref() == Some(path)))
    };
    let ways: [&dyn Fn(&T) -> bool; 4] = [&is_its, &called, &fits, &there];
    let Some(way) = ways.into_iter().find(|way| list.iter().any(way)) else {
        return Err(CliError::Unknown { kind: T::KIND, reference: reference.to_owned() });
    };
    let mut found: Vec<T> = list.into_iter().filter(|one| way(one)).collect();
    match found.pop() {
        Some(one) if found.is_empty() => Ok(one),
        last => Err(CliError::Ambiguous {
            kind: T::KIND,
            reference: reference.to_owned(),
            candidates: found
                .iter()
                .chain(&last)
                .map(|one| format!("{} ({})", one.id(), one.name()))
                .collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ids::TokenId;

    fn token(id: &str, name: &str) -> Token {
        Token {
            id: id.parse::<TokenId>().expect("an id"),
            name: name.to_owned(),
            kind: "member".to_owned(),
            daemon_id: None,
            expires_at: None,
            last_used_at: None,
            created_at: None,
            token: None,
            token_prefix: None,
        }
    }

    #[test]
    fn a_reference_is_an_id_a_part_of_one_or_a_name() {
        let first = "aaaa1111-0000-7000-8000-00000000000a";
        let second = "aaaa2222-0000-7000-8000-00000000beef";
        // One is called as the other's id ends: a name goes before a part.
        let list = || vec![token(first, "beef"), token(second, "Tools")];
        let id = |reference: &str| pick(list(), reference).map(|one| one.id());
        assert_eq!(id("tools").expect("found"), second);
        assert_eq!(id(&first.to_uppercase()).expect("found"), first);
        assert_eq!(id("AAAA2").expect("found"), second);
        assert_eq!(id("0000beef").expect("found"), second);
        assert_eq!(id("beef").expect("found"), first);
        assert!(matches!(id("aaaa"), Err(CliError::Ambiguous { candidates, .. }) if candidates.len() == 2));
        assert!(matches!(id("aaa"), Err(CliError::Unknown { kind: "token", .. })));
    }

    #[test]
    fn a_relative_path_loses_its_dots() {
        assert_eq!(clean(Path::new("/a/b/../c/./d")), PathBuf::from("/a/c/d"));
    }
}
