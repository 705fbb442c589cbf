//! The pages' routes: who reads, what the API's own functions answer, rendered by `web`.
//!
//! Invariants: a page shows what the API would have told the same person; whoever isn't signed in gets
//! the sign-in page; errors are pages too, with the API's sentence and next step.

mod audit;
mod facts;
mod webhooks;

use std::collections::BTreeMap;

use axum::Json;
use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use maud::Markup;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::as_of::AsAsked;
use super::auth::Identity;
use super::body::{Path, Query};
use super::error::{ApiError, Told};
use super::idempotency::Call;
use super::routes::{agents, directories, issues, projections, projects, stranded, tasks, workspaces};
use super::{App, feed, left_out};
use crate::domain::workspace::Role;
use crate::kernel::ids::{IssueId, TaskId};
use crate::web;
use crate::web::view::Frame;
use crate::wire::api;

/// Every page.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/", get(feed_page))
        .route("/tasks", get(tasks_page))
        .route("/tasks/{id}", get(task_page))
        .route("/tasks/{id}/cancel", post(cancel))
        .route("/directories", get(directories_page))
        .route("/projects", get(projects_page))
        .route("/webhooks", get(webhooks::page))
        .route("/audit", get(audit::page))
        .route("/audit/export", post(audit::export))
        .route("/assets/{name}", get(asset))
        // Asked for by browsers that show something else than a page of ours.
        .route("/favicon.ico", get(icon))
}

/// A person who reads pages.
struct Reader(Identity);

/// An error as a page.
struct PageError(ApiError);

impl<E: Into<ApiError>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        as_page(self.0.into_response())
    }
}

/// A problem as a page. Status and headers stay the API's: a 503 says when to come back, a failure is logged.
fn as_page(response: Response) -> Response {
    let Some(Told(told)) = response.extensions().get::<Told>().cloned() else { return response };
    let page = match told.code.as_str() {
        "unauthenticated" => web::sign_in::needed(),
        _ => web::layout::problem(&told.title, &told.detail, &told.next_step),
    };
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_TYPE);
    parts.headers.remove(header::CONTENT_LENGTH);
    (parts.status, parts.headers, page).into_response()
}

/// Whoever looks at this server with a browser gets problems as pages, wherever they came from: a path that
/// isn't there, a link without its code, a body that is too long. The API's own routes answer programs.
pub async fn for_browsers(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let for_programs = path == "/health" || path == "/api" || path.starts_with("/api/");
    let accepts = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let browser = !for_programs && accepts.is_some_and(|accepted| accepted.contains("text/html"));
    let response = next.run(request).await;
    let problem = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes() == b"application/problem+json");
    if browser && problem { as_page(response) } else { response }
}

impl FromRequestParts<App> for Reader {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, PageError> {
        let who = Identity::from_request_parts(parts, app).await?;
        who.user()?;
        Ok(Self(who))
    }
}

/// A query for one of the API's own functions.
fn asked<T: DeserializeOwned>(value: Value) -> Result<Query<T>, ApiError> {
    Ok(Query(serde_json::from_value(value)?))
}

/// What surrounds the page: taken before its facts are read, so that nothing falls between.
async fn frame(app: &App, who: &Identity, filters: String) -> Result<Frame, ApiError> {
    let as_of = app.store.as_of();
    let position = as_of.map_or_else(|| *app.store.head().borrow(), |moment| moment.position);
    let Json(me) = workspaces::me(AsAsked(app.clone()), who.clone()).await?;
    let Json(all) = workspaces::list(AsAsked(app.clone()), who.clone()).await?;
    let all = serde_json::to_value(all)?;
    let here = who.workspace.to_string();
    let workspace = all.as_array().into_iter().flatten().find(|workspace| workspace["id"] == here.as_str());
    Ok(Frame {
        position,
        as_of: as_of.map(|moment| moment.time),
        member: facts::text(&me["name"]),
        workspace: workspace.map(|workspace| facts::text(&workspace["name"])).unwrap_or_default(),
        filters,
        faults: projections::faults(app).await,
        left_out: 0,
        admin: who.role >= Role::Admin,
    })
}

/// The page around its facts, which are all read by now.
fn finished(frame: Frame) -> Frame {
    Frame { left_out: left_out::count(), ..frame }
}

/// `GET /?before=`.
#[derive(Debug, Deserialize)]
struct Before {
    before: Option<i64>,
}

async fn feed_page(
    AsAsked(app): AsAsked,
    reader: Result<Reader, PageError>,
    Query(asked): Query<Before>,
) -> Result<Markup, PageError> {
    let Reader(who) = reader?;
    let frame = frame(&app, &who, String::new()).await?;
    let before = asked.before.unwrap_or(frame.position + 1).clamp(1, frame.position + 1);
    let mut entries =
        feed::between(&app, who.workspace, before - 1 - app.limits.page_entries, before).await?;
    entries.reverse();
    let oldest = (before - app.limits.page_entries).max(1);
    Ok(web::feed::page(&frame, &entries, (oldest > 1).then_some(oldest)))
}

async fn listed(app: &App, who: &Identity, wanted: Value) -> Result<Vec<api::Task>, ApiError> {
    let Json(mut answer) = tasks::list(AsAsked(app.clone()), who.clone(), asked(wanted)?).await?;
    Ok(serde_json::from_value(answer["tasks"].take())?)
}

async fn titles(app: &App, who: &Identity) -> Result<BTreeMap<IssueId, String>, ApiError> {
    let wanted = asked(json!({"limit": 1000}))?;
    let Json(mut answer) = issues::list(AsAsked(app.clone()), who.clone(), wanted).await?;
    let issues: Vec<api::Issue> = serde_json::from_value(answer["issues"].take())?;
    Ok(issues.into_iter().map(|issue| (issue.id, issue.title)).collect())
}

async fn tasks_page(AsAsked(app): AsAsked, reader: Result<Reader, PageError>) -> Result<Markup, PageError> {
    let Reader(who) = reader?;
    let frame = frame(&app, &who, String::new()).await?;
    let titles = titles(&app, &who).await?;
    let active = listed(&app, &who, json!({"active": true, "limit": 200})).await?;
    let over = listed(&app, &who, json!({"status": "completed,failed,cancelled", "limit": 100})).await?;
    let rows =
        |tasks: &[api::Task]| -> Vec<_> { tasks.iter().map(|task| facts::task_row(task, &titles)).collect() };
    let Json(mut answer) = stranded::list(AsAsked(app.clone()), who.clone()).await?;
    let stranded: Vec<api::Stranded> = serde_json::from_value(answer["tasks"].take())?;
    let stranded: Vec<_> = stranded.into_iter().map(facts::stranded_row).collect();
    Ok(web::tasks::page(&finished(frame), &stranded, &rows(&active), &rows(&over)))
}

async fn task_page(
    AsAsked(app): AsAsked,
    reader: Result<Reader, PageError>,
    Path(path): Path<String>,
) -> Result<Markup, PageError> {
    let Reader(who) = reader?;
    let id = tasks::named(&app, who.workspace, &path).await?;
    let frame = frame(&app, &who, format!("task={id}")).await?;
    let task = tasks::shown(&app, who.workspace, id).await?;
    let titles = titles(&app, &who).await?;
    let Json(explanation) = tasks::explain(AsAsked(app.clone()), who.clone(), Path(path.clone())).await?;
    let Json(history) = tasks::history(AsAsked(app.clone()), who.clone(), Path(path.clone())).await?;
    let Json(messages) =
        tasks::messages(AsAsked(app.clone()), who.clone(), Path(path), asked(json!({}))?).await?;
    let left_out = messages.len().saturating_sub(app.limits.page_messages);
    let machines = machines(&app, &who).await?;
    let shown = &messages[left_out..];
    let page = facts::task_page(task, &titles, explanation, &history, shown, left_out, &machines)?;
    Ok(web::task::page(&finished(frame), &page))
}

async fn cancel(
    State(app): State<App>,
    headers: HeaderMap,
    call: Call,
    Path(path): Path<String>,
) -> Result<Redirect, PageError> {
    if !super::auth::comes_from_our_page(&headers) {
        return Err(ApiError::Forbidden {
            code: "foreign_page",
            sentence: "this request doesn't come from a page of this server",
        }
        .into());
    }
    let to = format!("/tasks/{path}");
    tasks::cancel(State(app), call, Path(path)).await?;
    Ok(Redirect::to(&to))
}

async fn directories_page(
    AsAsked(app): AsAsked,
    reader: Result<Reader, PageError>,
) -> Result<Markup, PageError> {
    let Reader(who) = reader?;
    let frame = frame(&app, &who, String::new()).await?;
    let Json(mut answer) = directories::list(AsAsked(app.clone()), who.clone()).await?;
    let directories: Vec<api::Directory> = serde_json::from_value(answer["directories"].take())?;
    let machines = machines(&app, &who).await?;
    let tasks = listed(&app, &who, json!({"active": true, "limit": 1000})).await?;
    let agents: BTreeMap<TaskId, String> = tasks.into_iter().map(|task| (task.id, task.agent_name)).collect();
    let cards: Vec<_> =
        directories.iter().map(|directory| facts::directory_card(directory, &machines, &agents)).collect();
    Ok(web::directories::page(&finished(frame), &cards))
}

/// Names of machines by daemon id.
async fn machines(app: &App, who: &Identity) -> Result<BTreeMap<String, String>, ApiError> {
    let Json(mut answer) = agents::daemons(AsAsked(app.clone()), who.clone()).await?;
    let daemons: Vec<api::Daemon> = serde_json::from_value(answer["daemons"].take())?;
    Ok(daemons.into_iter().map(|daemon| (daemon.daemon_id, daemon.device_name)).collect())
}

async fn projects_page(
    AsAsked(app): AsAsked,
    reader: Result<Reader, PageError>,
) -> Result<Markup, PageError> {
    let Reader(who) = reader?;
    let frame = frame(&app, &who, String::new()).await?;
    let Json(mut answer) = projects::list(AsAsked(app.clone()), who.clone(), asked(json!({}))?).await?;
    let listed: Vec<api::Project> = serde_json::from_value(answer["projects"].take())?;
    let machines = machines(&app, &who).await?;
    let mut cards = Vec::new();
    for project in listed {
        let path = Path(project.id.to_string());
        let Json(mut answer) = projects::resources(AsAsked(app.clone()), who.clone(), path).await?;
        let resources: Vec<api::Resource> = serde_json::from_value(answer["resources"].take())?;
        cards.push(facts::project_card(project, &resources, &machines));
    }
    Ok(web::projects::page(&finished(frame), &cards))
}

async fn icon(headers: HeaderMap) -> Result<Response, PageError> {
    asset(headers, Path("icon.svg".to_owned())).await
}

async fn asset(headers: HeaderMap, Path(name): Path<String>) -> Result<Response, PageError> {
    let asset = web::assets::get(&name).ok_or_else(|| ApiError::unknown("asset", &name))?;
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|tag| tag.as_bytes() == asset.etag.as_bytes());
    let caching = [(header::ETAG, asset.etag), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if known {
        return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
    }
    Ok((caching, [(header::CONTENT_TYPE, asset.media_type)], asset.bytes).into_response())
}
