//! `multica project resource`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::cli::error::{CliError, UsageError};
use crate::cli::output::{note, read, short, text};
use crate::cli::session::{Session, pick};
use crate::client::api::Call;
use crate::client::http::method::{DELETE, PUT};
use crate::wire::api::{Project, Resource, Task};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum ResourceVerb {
    /// Attaches a directory, a repository, or anything else.
    Add {
        /// The project.
        project: String,
        /// local_directory, github_repo, or another type with --ref.
        #[arg(long = "type", default_value = "github_repo", value_name = "TYPE")]
        kind: String,
        #[command(flatten)]
        reference: Reference,
    },
    /// Lists what is attached.
    List {
        /// The project.
        project: String,
    },
    /// Changes what is attached; what isn't named stays.
    Update {
        /// The project.
        project: String,
        /// The resource: id, four or more characters of it, or its label.
        resource: String,
        #[command(flatten)]
        reference: Reference,
    },
    /// Detaches it. The directory itself stays as it is.
    Remove {
        /// The project.
        project: String,
        /// The resource: id, four or more characters of it, or its label.
        resource: String,
    },
}

/// What a resource points to.
#[derive(Debug, Default, Args)]
pub struct Reference {
    /// The directory; a relative path is taken from here.
    #[arg(long, value_name = "PATH")]
    local_path: Option<PathBuf>,
    /// The daemon on whose machine it is; this machine's otherwise.
    #[arg(long, value_name = "ID")]
    daemon_id: Option<String>,
    /// in_place: the only mode of this version, and what counts when it isn't said.
    #[arg(long, value_name = "MODE")]
    execution_mode: Option<String>,
    /// What people call it.
    #[arg(long, alias = "label", value_name = "LABEL")]
    ref_label: Option<String>,
    /// The repository's address.
    #[arg(long)]
    url: Option<String>,
    /// A branch, tag or commit of a repository; a JSON object is the whole reference, for any type.
    #[arg(long = "ref", value_name = "REF")]
    raw: Option<String>,
}

pub async fn run(session: &Session, verb: ResourceVerb) -> Result<(), CliError> {
    match verb {
        ResourceVerb::Add { project, kind, reference } => add(session, &project, &kind, reference).await,
        ResourceVerb::List { project } => list(session, &project).await,
        ResourceVerb::Update { project, resource, reference } => {
            update(session, &project, &resource, reference).await
        }
        ResourceVerb::Remove { project, resource } => {
            let (path, found) = find(session, &project, &resource).await?;
            let answer = session.call(Call::write(DELETE, &path, &json!({}))?).await?;
            session.out.done(&answer, &format!("Detached {}; nothing in it was changed.", place(&found)))?;
            tell_waiting(session, &session.project(&project).await?, &found, "was detached").await
        }
    }
}

async fn add(session: &Session, project: &str, kind: &str, reference: Reference) -> Result<(), CliError> {
    let kind = if reference.local_path.is_some() && kind == "github_repo" { "local_directory" } else { kind };
    let label = reference.ref_label.clone();
    let object = whole_reference(session, kind, reference)?;
    let found = session.project(project).await?;
    let path = format!("/api/projects/{}/resources", found.id);
    let mut body = json!({"resource_type": kind, "resource_ref": object});
    if let Some(label) = label {
        body["label"] = Value::from(label);
    }
    let made = session.call(Call::post(&path, &body)?).await?;
    let resource: Resource = read(&made)?;
    let mut sentence = format!("Attached {} to {} ({}).", place(&resource), found.title, resource.id);
    for warning in resource.warnings.iter().flatten() {
        sentence.push_str("\nNote: ");
        sentence.push_str(warning);
    }
    session.out.done(&made, &sentence)
}

fn whole_reference(
    session: &Session,
    kind: &str,
    reference: Reference,
) -> Result<Map<String, Value>, CliError> {
    if let Some(object) = reference.raw.as_deref().and_then(json_object) {
        return Ok(object);
    }
    match kind {
        "local_directory" => {
            if reference.local_path.is_none() {
                return Err(CliError::Usage(UsageError::LocalPath));
            }
            let mut object = given(session, reference)?;
            if !object.contains_key("daemon_id") {
                object.insert("daemon_id".to_owned(), Value::from(session.daemon_id()?));
            }
            Ok(object)
        }
        "github_repo" if reference.url.is_none() => Err(CliError::Usage(UsageError::Url)),
        "github_repo" => given(session, reference),
        _ if reference.raw.is_some() => Err(CliError::Usage(UsageError::RefForm)),
        other => Err(CliError::Usage(UsageError::Ref(other.to_owned()))),
    }
}

fn json_object(text: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(text).ok()
}

/// The members that the flags name.
fn given(session: &Session, reference: Reference) -> Result<Map<String, Value>, CliError> {
    let path = match reference.local_path {
        Some(typed) => Some(local_path(session, &typed)?),
        None => None,
    };
    let members = [
        ("local_path", path),
        ("daemon_id", reference.daemon_id),
        ("execution_mode", reference.execution_mode),
        ("label", reference.ref_label),
        ("url", reference.url),
        ("ref", reference.raw),
    ];
    let given = members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?))));
    Ok(given.collect())
}

/// The absolute path as text. One that is no UTF-8 can't be sent: replacing its bytes would name another
/// directory.
fn local_path(session: &Session, typed: &Path) -> Result<String, CliError> {
    let absolute = session.absolute(typed);
    if absolute != typed {
        note(&format!("{} is taken as {}", typed.display(), absolute.display()));
    }
    absolute.into_os_string().into_string().map_err(|_| CliError::Usage(UsageError::PathNotUtf8))
}

async fn list(session: &Session, project: &str) -> Result<(), CliError> {
    let found = session.project(project).await?;
    let answer = session.get(&format!("/api/projects/{}/resources", found.id)).await?;
    let resources: Vec<Resource> = read(&answer["resources"])?;
    let rows = resources
        .into_iter()
        .map(|resource| {
            let said = |key| text(&Value::Object(resource.resource_ref.clone()), key);
            vec![
                short(&resource.id.to_string()),
                resource.resource_type.clone(),
                resource.label.clone().unwrap_or_default(),
                place(&resource),
                mode(&resource),
                short(&said("daemon_id")),
            ]
        })
        .collect();
    let headers = ["id", "type", "label", "place", "mode", "daemon"];
    session.out.list(&answer["resources"], &headers, rows, "Nothing is attached to this project.")
}

/// How tasks work in a directory: what isn't said is the default.
fn mode(resource: &Resource) -> String {
    let said = text(&Value::Object(resource.resource_ref.clone()), "execution_mode");
    match resource.resource_type.as_str() {
        "local_directory" if said.is_empty() => "in_place".to_owned(),
        _ => said,
    }
}

async fn update(
    session: &Session,
    project: &str,
    resource: &str,
    reference: Reference,
) -> Result<(), CliError> {
    let (path, found) = find(session, project, resource).await?;
    let label = reference.ref_label.clone();
    let whole = reference.raw.as_deref().and_then(json_object);
    let change = if whole.is_some() { Map::new() } else { given(session, reference)? };
    if change.is_empty() && whole.is_none() {
        return Err(CliError::Usage(UsageError::NothingToChange));
    }
    let mut object = whole.unwrap_or_else(|| found.resource_ref.clone());
    object.extend(change);
    let mut body = json!({"resource_ref": object});
    if let Some(label) = label {
        body["label"] = Value::from(label);
    }
    let answer = session.call(Call::write(PUT, &path, &body)?).await?;
    let changed: Resource = read(&answer)?;
    let place = place(&changed);
    session.out.done(&answer, &format!("Changed {place}. Tasks claimed from now on see it."))?;
    if changed.resource_ref.get("local_path") == found.resource_ref.get("local_path") {
        return Ok(());
    }
    tell_waiting(session, &session.project(project).await?, &found, "is another one now").await
}

/// Tells of the project's tasks that are at work in a directory that isn't the project's any more, or wait for it.
async fn tell_waiting(
    session: &Session,
    project: &Project,
    gone: &Resource,
    what: &str,
) -> Result<(), CliError> {
    if gone.resource_type != "local_directory" || session.out.is_json() {
        return Ok(());
    }
    tell_tasks(session, project, what).await
}

/// The same of all of a project's directories.
pub async fn tell_tasks(session: &Session, project: &Project, what: &str) -> Result<(), CliError> {
    let project = project.id.to_string();
    let call = Call::get("/api/tasks").query("project_id", &project).query("active", true);
    let tasks: Vec<Task> = read(&session.call(call).await?["tasks"])?;
    let count = |status: &str| tasks.iter().filter(|task| task.status == status).count();
    let (runs, waits) = (count("running"), count("waiting_local_directory"));
    if runs > 0 {
        note(&format!("{runs} of its tasks still at work there will finish there."));
    }
    if waits > 0 {
        note(&format!(
            "{waits} of its tasks waiting for a directory will fail when their turn comes if it {what}: \
             `multica task list`, then `multica task cancel` or `multica issue rerun`."
        ));
    }
    Ok(())
}

async fn find(session: &Session, project: &str, resource: &str) -> Result<(String, Resource), CliError> {
    let found = session.project(project).await?;
    let base = format!("/api/projects/{}/resources", found.id);
    let answer = session.get(&base).await?;
    let one = pick(read::<Vec<Resource>>(&answer["resources"])?, resource)?;
    Ok((format!("{base}/{}", one.id), one))
}

/// What a resource points to, in one line.
pub fn place(resource: &Resource) -> String {
    let reference = Value::Object(resource.resource_ref.clone());
    let said = ["local_path", "url"].map(|key| text(&reference, key));
    let place = said.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| reference.to_string());
    // The same repository may be there with several branches.
    match text(&reference, "ref").as_str() {
        "" => place,
        branch => format!("{place} at {branch}"),
    }
}
