//! Which coding agents this machine has.
//!
//! Where a program is looked for: the variable that pins it (and then nowhere else), the daemon's PATH, the
//! login shell's PATH, which is asked for once.

use std::path::PathBuf;

use tokio::io::AsyncReadExt;

use crate::agent::{Detection, Provider};
use crate::client::config::Environment;
use crate::kernel::limits::Limits;
use crate::process::child::{Cwd, Output, Spawn, find_program};
use crate::wire::daemon::RegisterRuntime;

/// A provider that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub provider: Provider,
    /// Its program; none for provider `command`.
    pub program: Option<PathBuf>,
    /// Whether the machine's configuration pins it.
    pub pinned: bool,
    /// Its version; empty where it doesn't say.
    pub version: String,
}

impl Found {
    /// How it is registered.
    pub fn runtime(&self, device: &str) -> RegisterRuntime {
        RegisterRuntime {
            name: format!("{} on {device}", self.provider.id()),
            provider: self.provider.id().to_owned(),
            version: self.version.clone(),
            status: "online".to_owned(),
        }
    }
}

/// The provider that every machine has.
pub fn always() -> Found {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Found { provider: Provider::Command, program: None, pinned: false, version }
}

/// Looks for all of them.
pub async fn find_all(environment: &Environment, limits: &Limits) -> Vec<Found> {
    let mut shell_path = None;
    let mut found = Vec::new();
    for provider in Provider::ALL {
        let Some(detection) = provider.detection() else {
            found.push(Found {
                provider,
                program: None,
                pinned: false,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            });
            continue;
        };
        let Some((program, pinned)) = locate(detection, environment, limits, &mut shell_path).await else {
            continue;
        };
        let version = version(&program, environment, limits).await;
        found.push(Found { provider, program: Some(program), pinned, version });
    }
    found
}

async fn locate(
    detection: Detection,
    environment: &Environment,
    limits: &Limits,
    shell_path: &mut Option<String>,
) -> Option<(PathBuf, bool)> {
    let path = environment.get("PATH").unwrap_or_default();
    if let Some(pinned) = environment.get(detection.path_variable) {
        return find_program(pinned, path).ok().map(|program| (program, true));
    }
    if let Ok(program) = find_program(detection.binary, path) {
        return Some((program, false));
    }
    if shell_path.is_none() {
        *shell_path = Some(login_shell_path(environment, limits).await.unwrap_or_default());
    }
    // Pinned, because the agent's own PATH doesn't lead there.
    find_program(detection.binary, shell_path.as_deref()?).ok().map(|program| (program, true))
}

async fn login_shell_path(environment: &Environment, limits: &Limits) -> Option<String> {
    let shell = environment.get("SHELL").unwrap_or("/bin/sh");
    let output =
        output_of(PathBuf::from(shell), &["-lc", "printf %s \"$PATH\""], environment, limits).await?;
    String::from_utf8(output).ok()
}

async fn version(program: &std::path::Path, environment: &Environment, limits: &Limits) -> String {
    let output = output_of(program.to_owned(), &Detection::VERSION_ARGUMENTS, environment, limits).await;
    output.and_then(|bytes| Detection::version(&bytes)).unwrap_or_default()
}

async fn output_of(
    program: PathBuf,
    arguments: &[&str],
    environment: &Environment,
    limits: &Limits,
) -> Option<Vec<u8>> {
    let mut spawn = Spawn::new(program, Cwd::Path(PathBuf::from("/")));
    spawn.arguments = arguments.iter().map(Into::into).collect();
    spawn.environment = environment
        .0
        .iter()
        .filter(|(name, _)| !name.starts_with("MULTICA_"))
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    spawn.stderr = Output::Null;
    let mut child = spawn.start().ok()?;
    let mut bytes = Vec::new();
    let mut stdout = child.stdout.take()?;
    let answered = async {
        let read = (&mut stdout).take(limits.version_bytes).read_to_end(&mut bytes).await;
        read.is_ok() && child.wait().await.is_ok()
    };
    let answered = tokio::time::timeout(limits.version_wait.duration(), answered).await;
    child.kill_session().await;
    matches!(answered, Ok(true)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(folder: &std::path::Path, name: &str, script: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
        path
    }

    #[tokio::test]
    async fn what_is_on_the_path_or_pinned_is_found_and_command_is_always_there() {
        let folder = tempfile::tempdir().expect("a folder");
        program(folder.path(), "codex", "echo codex-cli 0.42.1");
        let pinned = program(folder.path(), "my-claude", "echo 2.1.0 '(Claude Code)'");
        let environment = Environment(
            [
                ("PATH", folder.path().display().to_string()),
                ("MULTICA_CLAUDE_PATH", pinned.display().to_string()),
                ("MULTICA_OPENCODE_PATH", "/nowhere/opencode".to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        );
        let found = find_all(&environment, &Limits::default()).await;
        let told: Vec<_> = found.iter().map(|f| (f.provider.id(), f.version.as_str(), f.pinned)).collect();
        assert_eq!(
            told,
            [
                ("claude", "2.1.0", true),
                ("codex", "0.42.1", false),
                ("command", env!("CARGO_PKG_VERSION"), false)
            ]
        );
    }
}
