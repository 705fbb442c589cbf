//! Type `github_repo`: a Git repository on any host.

use serde_json::{Map, Value};

use super::{ResourceType, set_text, text};
use crate::domain::Refusal;

/// See the module.
pub struct GithubRepo;

impl ResourceType for GithubRepo {
    fn name(&self) -> &'static str {
        "github_repo"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["url", "ref", "default_branch_hint"]
    }

    fn normalise(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
        let url = repo_url(&text(given, "url")?.unwrap_or_default())?;
        let mut reference = given.clone();
        set_text(&mut reference, "url", Some(&url));
        for key in ["ref", "default_branch_hint"] {
            let value = text(given, key)?;
            set_text(&mut reference, key, value.as_deref());
        }
        Ok(reference)
    }

    fn display(&self, reference: &Map<String, Value>) -> String {
        let url = reference.get("url").and_then(Value::as_str).unwrap_or_default();
        let name = url.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or(url);
        name.strip_suffix(".git").unwrap_or(name).to_owned()
    }
}

/// Checks a repository's address: http, https, ssh or git with a host, or `[user@]host:path`.
///
/// # Errors
/// `bad_repo_url`, `repo_url_with_password`.
pub fn repo_url(given: &str) -> Result<String, Refusal> {
    let url = given.trim();
    let bad = || {
        Refusal::invalid(
            "bad_repo_url",
            "a repository's url is http, https, ssh or git with a host, or `host:path`",
            "Use an address like `https://github.com/owner/name` or `git@host:owner/name.git`.",
        )
    };
    if url.is_empty() || url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(bad());
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return scp_like(url).then(|| url.to_owned()).ok_or_else(bad);
    };
    let known = ["http", "https", "ssh", "git"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if user.contains(':') {
        return Err(Refusal::invalid(
            "repo_url_with_password",
            "a repository's url carries no password",
            "Take the password out; git asks its own credential store on the machine.",
        ));
    }
    let named = !host.is_empty() && !host.starts_with(':') && !host.starts_with('-');
    if known && named { Ok(url.to_owned()) } else { Err(bad()) }
}

fn scp_like(url: &str) -> bool {
    let Some((host, path)) = url.split_once(':') else { return false };
    let host = host.rsplit('@').next().unwrap_or_default();
    // One letter before the colon is a Windows drive, a dash would be read as an option by ssh.
    host.len() > 1
        && !path.is_empty()
        && !host.starts_with('-')
        && !url.starts_with('-')
        && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._[]".contains(c))
}
