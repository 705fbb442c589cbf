//! The environment an agent gets: the account's own, never the daemon's secrets.

use crate::kernel::ids::TaskId;
use crate::wire::daemon::Assignment;

/// Variables of ours and of a coding agent that started us; they would mislead the agent.
const DROPPED: [&str; 7] = [
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "DATABASE_URL",
    "OLDPWD",
];

/// Prefixes of the same.
const DROPPED_PREFIXES: [&str; 3] = ["MULTICA_", "CLAUDECODE_", "PG"];

/// All that another account inherits: nothing that could be a credential of the daemon's account.
const NEUTRAL: [&str; 13] = [
    "LANG",
    "LANGUAGE",
    "TZ",
    "PATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

/// What the environment is made from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The task.
    pub assignment: &'a Assignment,
    /// The server's address.
    pub server_url: &'a str,
    /// The env root.
    pub env_root: &'a str,
    /// Where temporary files go.
    pub temporary: &'a str,
    /// The work directory.
    pub work_dir: &'a str,
    /// The daemon's local port.
    pub daemon_port: Option<u16>,
    /// The daemon's slot.
    pub slot: u32,
    /// The directory of our executable.
    pub executable_dir: &'a str,
    /// The account, when it isn't the daemon's: name and home.
    pub other_account: Option<(&'a str, &'a str)>,
}

/// The mark by which a run's processes are found.
#[must_use]
pub fn mark(task: TaskId, generation: u32) -> String {
    format!("MULTICA_RUN={task}-{generation}")
}

/// Builds it from the supervisor's own.
pub fn build(base: impl IntoIterator<Item = (String, String)>, facts: &Facts<'_>) -> Vec<(String, String)> {
    let mut kept: Vec<(String, String)> = base
        .into_iter()
        .filter(|(name, _)| match facts.other_account {
            Some(_) => NEUTRAL.contains(&name.as_str()) || name.starts_with("LC_"),
            None => {
                !DROPPED.contains(&name.as_str())
                    && !DROPPED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            }
        })
        .collect();
    if let Some((name, home)) = facts.other_account {
        set(&mut kept, "HOME", home);
        set(&mut kept, "USER", name);
        set(&mut kept, "LOGNAME", name);
        set(&mut kept, "SHELL", "/bin/sh");
    }
    let path = path(&kept, facts);
    set(&mut kept, "PATH", &path);
    set(&mut kept, "PWD", facts.work_dir);
    let assignment = facts.assignment;
    for name in ["TMPDIR", "TMP", "TEMP"] {
        set(&mut kept, name, facts.temporary);
    }
    for (name, value) in [
        ("MULTICA_TOKEN", assignment.auth_token.clone()),
        ("MULTICA_SERVER_URL", facts.server_url.to_owned()),
        ("MULTICA_WORKSPACE_ID", assignment.workspace_id.to_string()),
        ("MULTICA_AGENT_NAME", assignment.agent.name.clone()),
        ("MULTICA_AGENT_ID", assignment.agent_id.to_string()),
        ("MULTICA_TASK_ID", assignment.id.to_string()),
        ("MULTICA_TASK_SLOT", facts.slot.to_string()),
        ("MULTICA_TASK_CONFIG_ROOT", format!("{}/multica-config", facts.env_root)),
        ("MULTICA_TASK_WORKSPACES_ROOT", facts.env_root.to_owned()),
        ("MULTICA_RUN", format!("{}-{}", assignment.id, assignment.generation)),
    ] {
        set(&mut kept, name, &value.replace('\0', ""));
    }
    if let Some(port) = facts.daemon_port {
        set(&mut kept, "MULTICA_DAEMON_PORT", &port.to_string());
    }
    kept
}

fn path(kept: &[(String, String)], facts: &Facts<'_>) -> String {
    let mut parts = vec![facts.executable_dir.to_owned()];
    if let Some((_, home)) = facts.other_account {
        parts.extend([format!("{home}/.local/bin"), format!("{home}/bin")]);
    }
    let inherited = kept.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    parts.push(
        inherited.filter(|p| !p.is_empty()).unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned()),
    );
    parts.join(":")
}

/// The value of a variable.
#[must_use]
pub fn get<'a>(environment: &'a [(String, String)], name: &str) -> &'a str {
    environment.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

/// Sets a variable, whether it was there or not.
pub fn set(environment: &mut Vec<(String, String)>, name: &str, value: &str) {
    environment.retain(|(known, _)| known != name);
    environment.push((name.to_owned(), value.to_owned()));
}
