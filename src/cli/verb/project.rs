//! `multica project`.

use clap::Subcommand;
use serde_json::{Value, json};

use super::resource::{ResourceVerb, run as run_resource};
use crate::cli::error::CliError;
use crate::cli::output::{read, short};
use crate::cli::session::Session;
use crate::client::api::Call;
use crate::client::http::method::DELETE;
use crate::wire::api::{Project, Resource};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum ProjectVerb {
    /// Creates a project.
    Create {
        /// Its title.
        #[arg(long)]
        title: String,
        /// What it is about.
        #[arg(long)]
        description: Option<String>,
        /// A Git repository of it; may be given again.
        #[arg(long = "repo", value_name = "URL")]
        repos: Vec<String>,
    },
    /// Lists the projects.
    List,
    /// Shows a project and its resources.
    #[command(visible_alias = "show")]
    Get {
        /// Id, four or more characters of it, or the exact title.
        project: String,
    },
    /// Deletes a project.
    Delete {
        /// Id, four or more characters of it, or the exact title.
        project: String,
    },
    /// Directories and repositories attached to a project.
    #[command(subcommand)]
    Resource(ResourceVerb),
}

pub async fn run(session: &Session, verb: ProjectVerb) -> Result<(), CliError> {
    match verb {
        ProjectVerb::Create { title, description, repos } => {
            create(session, &title, description, &repos).await
        }
        ProjectVerb::List => list(session).await,
        ProjectVerb::Get { project } => get(session, &project).await,
        ProjectVerb::Delete { project } => {
            let found = session.project(&project).await?;
            let path = format!("/api/projects/{}", found.id);
            let answer = session.call(Call::write(DELETE, &path, &json!({}))?).await?;
            session.out.done(&answer, &format!("Deleted project {}.", found.title))?;
            if session.out.is_json() {
                return Ok(());
            }
            super::resource::tell_tasks(session, &found, "was the deleted project's").await
        }
        ProjectVerb::Resource(verb) => run_resource(session, verb).await,
    }
}

async fn create(
    session: &Session,
    title: &str,
    description: Option<String>,
    repos: &[String],
) -> Result<(), CliError> {
    let mut body = json!({"title": title});
    if let Some(description) = description {
        body["description"] = Value::from(description);
    }
    if !repos.is_empty() {
        body["resources"] = repos
            .iter()
            .map(|url| json!({"resource_type": "github_repo", "resource_ref": {"url": url}}))
            .collect();
    }
    let made = session.call(Call::post("/api/projects", &body)?).await?;
    let project: Project = read(&made)?;
    session.out.done(&made, &format!("Created project {} ({}).", project.title, project.id))
}

async fn list(session: &Session) -> Result<(), CliError> {
    let answer = session.get("/api/projects").await?;
    let projects: Vec<Project> = read(&answer["projects"])?;
    let rows = projects
        .into_iter()
        .map(|project| {
            vec![
                short(&project.id.to_string()),
                project.title,
                project.status,
                project.resource_count.to_string(),
                session.out.since(project.created_at),
            ]
        })
        .collect();
    let headers = ["id", "title", "status", "resources", "created"];
    let empty = "No project yet: `multica project create --title T`.";
    session.out.list(&answer["projects"], &headers, rows, empty)
}

async fn get(session: &Session, reference: &str) -> Result<(), CliError> {
    let id = session.project(reference).await?.id;
    let mut whole = session.get(&format!("/api/projects/{id}")).await?;
    let project: Project = read(&whole)?;
    let answer = session.get(&format!("/api/projects/{id}/resources")).await?;
    let resources: Vec<Resource> = read(&answer["resources"])?;
    whole["resources"] = answer["resources"].clone();
    let lines: Vec<String> = resources
        .iter()
        .map(|resource| {
            let id = short(&resource.id.to_string());
            format!("{id}  {}  {}", resource.resource_type, super::resource::place(resource))
        })
        .collect();
    session.out.fields(
        &whole,
        &[
            ("ID", project.id.to_string()),
            ("TITLE", project.title),
            ("STATUS", project.status),
            ("DESCRIPTION", project.description.unwrap_or_default()),
            ("RESOURCES", lines.join("\n")),
            ("CREATED", session.out.since(project.created_at)),
        ],
    )
}
