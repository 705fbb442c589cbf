//! Every route: the table of contents of the API.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{delete, get, post};
use tower_http::catch_panic::CatchPanicLayer;

use super::error::ApiError;
use super::routes::{
    agents, audit, bundle, daemon, directories, erasures, issues, metrics, projections, projects, retention,
    sign_in, stranded, tasks, verify, webhook_deliveries, webhooks, what_if, workspaces,
};
use super::{App, as_of, feed, hosts, left_out, limits, pages, position, routes};
use crate::kernel::limits::Millis;

/// The whole API.
pub fn router(app: App) -> Router {
    let quick = Router::new()
        .merge(people())
        .merge(work())
        .merge(pages::routes())
        .nest("/api/daemon", machines())
        .route("/health", get(routes::health))
        .route("/api/feed", get(feed::feed))
        .fallback(|| async { ApiError::NoRoute.into_response() })
        .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed.into_response() });
    let (quick_limit, slow_limit) = (app.limits.http_timeout, app.limits.slow_request);
    Router::new()
        .merge(bounded(quick, &app, quick_limit))
        .merge(bounded(slow(), &app, slow_limit))
        .layer(from_fn_with_state(app.clone(), hosts::check))
        .layer(from_fn(pages::for_browsers))
        .layer(from_fn(left_out::tell))
        .layer(from_fn(limits::secure))
        .with_state(app)
}

/// Bounds what requests of these routes may send, and how long their answers may take.
fn bounded(routes: Router<App>, app: &App, limit: Millis) -> Router<App> {
    routes
        .layer(from_fn(as_of::guard))
        .layer(from_fn_with_state(app.clone(), position::wait))
        .layer(DefaultBodyLimit::max(app.limits.body_bytes))
        .layer(CatchPanicLayer::custom(limits::panicked))
        .layer(from_fn_with_state((app.clone(), limit), limits::bound))
}

/// Routes that read the whole log: a long one takes minutes.
fn slow() -> Router<App> {
    Router::new()
        .route("/api/erasures", get(erasures::plan).post(erasures::erase))
        .route("/api/retention", get(retention::show))
        .route("/api/seals", post(verify::record))
        .route("/api/verify", post(verify::verify))
        .route("/api/projections/{id}/rebuild", post(projections::rebuild))
        .route("/api/projections/{id}/verify", post(projections::verify))
        .route("/api/what-if", get(what_if::list))
        .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed.into_response() })
}

fn people() -> Router<App> {
    Router::new()
        .route("/api/me", get(workspaces::me))
        .route("/api/workspaces", get(workspaces::list))
        .route("/api/workspaces/{id}", get(workspaces::get))
        .route("/api/workspaces/{id}/members", get(workspaces::members))
        .route("/api/tokens", get(workspaces::tokens).post(workspaces::issue_token))
        .route("/api/tokens/current/renew", post(workspaces::renew_token))
        .route("/api/tokens/{id}", delete(workspaces::revoke_token))
        .route("/api/sign-in-links", post(sign_in::link))
        .route("/api/seal", get(verify::seal))
        .route("/api/metrics", get(metrics::metrics))
        .route("/api/projections", get(projections::list))
        .route("/api/projections/{id}/skip", post(projections::skip))
        .route("/sign-in", get(sign_in::page).post(sign_in::sign_in))
        .route("/sign-out", post(sign_in::sign_out))
}

fn work() -> Router<App> {
    Router::new()
        .route("/api/projects", get(projects::list).post(projects::create))
        .route("/api/projects/{id}", get(projects::get).put(projects::update).delete(projects::remove))
        .route("/api/projects/{id}/resources", get(projects::resources).post(projects::attach))
        .route(
            "/api/projects/{id}/resources/{rid}",
            axum::routing::put(projects::update_resource).delete(projects::detach),
        )
        .route("/api/agents", get(agents::list).post(agents::create))
        .route("/api/agents/{id}", get(agents::get).put(agents::update))
        .route("/api/agents/{id}/archive", post(agents::archive))
        .route("/api/agents/{id}/tasks", get(tasks::of_agent))
        .route("/api/squads", get(agents::squads))
        .route("/api/issues", get(issues::list).post(issues::create))
        .route("/api/issues/{id}", get(issues::get).put(issues::update))
        .route("/api/issues/{id}/comments", get(issues::comments).post(issues::comment))
        .route("/api/issues/{id}/task-runs", get(tasks::of_issue))
        .route("/api/issues/{id}/active-task", get(tasks::active_of_issue))
        .route("/api/issues/{id}/rerun", post(issues::rerun))
        .route("/api/issues/{id}/tasks/{tid}/cancel", post(tasks::cancel_of_issue))
        .route("/api/tasks", get(tasks::list))
        .route("/api/stranded-tasks", get(stranded::list))
        .route("/api/tasks/{id}", get(tasks::get))
        .route("/api/tasks/{id}/cancel", post(tasks::cancel))
        .route("/api/tasks/{id}/messages", get(tasks::messages))
        .route("/api/tasks/{id}/explain", get(tasks::explain))
        .route("/api/tasks/{id}/history", get(tasks::history))
        .route("/api/tasks/{id}/bundle", get(bundle::bundle))
        .route("/api/webhooks", get(webhooks::list).post(webhooks::create))
        .route("/api/webhooks/{id}", get(webhooks::get).put(webhooks::update).delete(webhooks::remove))
        .route("/api/webhooks/{id}/deliveries", get(webhook_deliveries::list))
        .route("/api/webhooks/{id}/rotate-secret", post(webhooks::rotate_secret))
        .route("/api/webhooks/{id}/retry", post(webhook_deliveries::retry))
        .route("/api/webhooks/{id}/replay", post(webhook_deliveries::replay))
        .route("/api/webhooks/{id}/test", post(webhook_deliveries::test))
        .route("/api/audit", get(audit::list))
        .route("/api/audit/export", post(audit::export))
        .route("/api/audit/{position}", get(audit::show))
        .route("/api/directories", get(directories::list))
        .route("/api/directories/{id}", get(directories::get))
        .route("/api/runtimes", get(agents::runtimes))
        .route("/api/daemons", get(agents::daemons))
        .route("/api/daemons/{id}/declare-dead", post(daemon::declare_dead))
}

fn machines() -> Router<App> {
    Router::new()
        .route("/workspaces", get(daemon::workspaces))
        .route("/workspaces/{id}/runtime-profiles", get(daemon::runtime_profiles))
        .route("/register", post(daemon::register))
        .route("/heartbeat", post(daemon::heartbeat))
        .route("/deregister", post(daemon::deregister))
        .route("/drain", post(daemon::drain))
        .route("/claim", post(daemon::claim))
        .route("/tasks/claim", post(daemon::claim))
        .route("/orders", get(daemon::orders))
        .route("/orders/{id}/probed", post(daemon::probed))
        .route("/runtimes/{id}/recover-orphans", post(daemon::recover_orphans))
        .route("/runtimes/{id}/tasks/claim", post(daemon::claim_one))
        .route("/runtimes/{id}/tasks/{tid}/prepare-lease", post(daemon::prepare_lease))
        .route("/tasks/{id}/assignment", get(daemon::assignment))
        .route("/tasks/{id}/status", get(daemon::status))
        .route("/tasks/{id}/messages", post(daemon::messages).get(daemon::messages_so_far))
        .route("/tasks/{id}/progress", post(daemon::progress))
        .route("/tasks/{id}/wait-local-directory", post(daemon::wait_local_directory))
        .route("/tasks/{id}/{report}", post(daemon::report))
}
