//! Who one is: `login`, `auth`, `workspace`, `token`, `config`.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::cli::error::CliError;
use crate::cli::output::{items, note, read, short, text};
use crate::cli::session::{Session, pick};
use crate::client::api::{Call, server_address};
use crate::client::config::keys::{KEYS, Shape};
use crate::client::config::{ConfigFile, Settings};
use crate::client::http::method::DELETE;
use crate::wire::api::Token;

/// `multica login`.
#[derive(Debug, Args)]
pub struct LoginArgs {
    /// A token (mul_…); `-` reads it from standard input.
    #[arg(long, value_name = "TOKEN", required_unless_present = "link")]
    token: Option<String>,
    /// Prints a link that signs a browser in, once, instead of signing this command line in.
    #[arg(long, conflicts_with = "token")]
    link: bool,
}

/// `multica auth`.
#[derive(Debug, Subcommand)]
pub enum AuthVerb {
    /// Says as whom, where, and why.
    Status,
}

/// `multica workspace`.
#[derive(Debug, Subcommand)]
pub enum WorkspaceVerb {
    /// Lists the workspaces one is a member of.
    List,
}

/// `multica token`.
#[derive(Debug, Subcommand)]
pub enum TokenVerb {
    /// Creates a token; it is shown once.
    Create {
        /// What it is for.
        #[arg(long, default_value = "")]
        name: String,
        /// Makes it a daemon's token (mdt_): one workspace, one daemon.
        #[arg(long, value_name = "ID")]
        daemon: Option<String>,
    },
    /// Lists one's tokens.
    List,
    /// Makes a token void.
    Revoke {
        /// Id, four or more characters of it, or the name.
        token: String,
    },
}

/// `multica config`.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Shows the profile's settings; secrets are hidden.
    Show,
    /// Changes one.
    Set {
        /// What to change.
        #[arg(value_parser = keys())]
        key: String,
        /// Text, or JSON.
        value: String,
    },
}

/// The keys that this build reads, for help and completion.
fn keys() -> PossibleValuesParser {
    PossibleValuesParser::new(KEYS.map(|(key, _)| key))
}

pub async fn login(session: &Session, args: LoginArgs) -> Result<(), CliError> {
    session.people_only("login")?;
    let Some(token) = args.token else { return sign_in_link(session).await };
    let token = if token == "-" { read_line()? } else { token };
    let mut settings = session.settings()?;
    settings.token = Some(SecretString::from(token.trim().to_owned()));
    let profile = session.profile()?;
    let server = settings.server_url.clone().ok_or(CliError::NoServer)?;
    let api = session.api_as(settings.clone())?;
    let me: Value = api.get("/api/me").await?;
    let workspaces: Value = api.get("/api/workspaces").await?;
    let path = profile.config_path();
    let mut file = ConfigFile::read(&path)?;
    file.set("server_url", Value::from(server_address(&server)?.as_str().trim_end_matches('/')));
    file.set("token", Value::from(token.trim()));
    let known = settings.workspace.is_some();
    if let (false, Some(first)) = (known, items(&workspaces, "workspaces").first()) {
        file.set("workspace_id", Value::from(text(first, "id")));
    }
    file.write(&path)?;
    let sentence = format!("Signed in as {} (profile {}).", text(&me, "name"), profile.title());
    session.out.done(&me, &sentence)
}

async fn sign_in_link(session: &Session) -> Result<(), CliError> {
    let link = session.call(Call::post("/api/sign-in-links", &serde_json::json!({}))?).await?;
    session.out.done(&link, &text(&link, "url"))
}

pub async fn auth(session: &Session, AuthVerb::Status: AuthVerb) -> Result<(), CliError> {
    let settings = session.settings()?;
    if let Some(context) = &settings.in_task {
        note(&format!("Inside a task: {}.", context.because()));
    }
    let me = session.get("/api/me").await?;
    let mut whole = me.clone();
    whole["server_url"] = Value::from(settings.server_url.clone());
    whole["workspace_id"] = Value::from(settings.workspace.clone());
    whole["profile"] = Value::from(settings.profile.as_ref().map(|p| p.title().to_owned()));
    whole["inside_task"] = Value::from(settings.in_task.is_some());
    session.out.fields(
        &whole,
        &[
            ("NAME", text(&me, "name")),
            ("EMAIL", text(&me, "email")),
            ("ID", text(&me, "id")),
            ("SERVER", text(&whole, "server_url")),
            ("WORKSPACE", text(&whole, "workspace_id")),
            ("PROFILE", text(&whole, "profile")),
        ],
    )
}

pub async fn workspace(session: &Session, WorkspaceVerb::List: WorkspaceVerb) -> Result<(), CliError> {
    let answer = session.get("/api/workspaces").await?;
    let rows = items(&answer, "workspaces")
        .iter()
        .map(|w| vec![text(w, "id"), text(w, "name"), text(w, "slug"), text(w, "issue_prefix")])
        .collect();
    session.out.list(&answer, &["id", "name", "slug", "prefix"], rows, "No workspace.")
}

pub async fn token(session: &Session, verb: TokenVerb) -> Result<(), CliError> {
    session.people_only("token")?;
    match verb {
        TokenVerb::Create { name, daemon } => {
            let mut body = json!({"name": name});
            if let Some(daemon) = daemon {
                body["daemon_id"] = Value::from(daemon);
            }
            let made = session.call(Call::post("/api/tokens", &body)?).await?;
            note("The token is shown this once; keep it safe.");
            let token: Token = read(&made)?;
            session.out.done(&made, &token.token.unwrap_or_default())
        }
        TokenVerb::List => {
            let answer = session.get("/api/tokens").await?;
            let rows = read::<Vec<Token>>(&answer)?
                .into_iter()
                .map(|token| {
                    let (created, ends) =
                        (session.out.since(token.created_at), session.out.since(token.expires_at));
                    let daemon = token.daemon_id.unwrap_or_default();
                    vec![short(&token.id.to_string()), token.name, token.kind, daemon, created, ends]
                })
                .collect();
            let headers = ["id", "name", "kind", "daemon", "created", "ends"];
            session.out.list(&answer, &headers, rows, "No token.")
        }
        TokenVerb::Revoke { token } => {
            let answer = session.get("/api/tokens").await?;
            let found = pick(read::<Vec<Token>>(&answer)?, &token)?;
            let path = format!("/api/tokens/{}", found.id);
            let answer = session.call(Call::write(DELETE, &path, &json!({}))?).await?;
            session.out.done(&answer, &format!("Revoked {}.", found.name))
        }
    }
}

pub fn config(session: &Session, verb: ConfigVerb) -> Result<(), CliError> {
    session.people_only("config")?;
    let Settings { profile, .. } = session.settings()?;
    let profile = profile.ok_or(CliError::NoServer)?;
    let path = profile.config_path();
    let mut file = ConfigFile::read(&path)?;
    match verb {
        ConfigVerb::Show => {
            note(&path.display().to_string());
            session.out.json(&Value::Object(file.shown()))
        }
        ConfigVerb::Set { key, value } => {
            file.set(&key, Shape::typed(&key, &value));
            file.write(&path)?;
            session.out.done(&Value::Object(file.shown()), &format!("Set {key} in {}.", path.display()))
        }
    }
}

fn read_line() -> Result<String, CliError> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(CliError::Output)?;
    Ok(line)
}
