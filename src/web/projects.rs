//! Projects with their resources.

use maud::{Markup, html};

use super::layout::{page as whole, pill};
use super::view::{Frame, ProjectCard, ResourceRow};

/// One card for each project.
#[must_use]
pub fn page(frame: &Frame, projects: &[ProjectCard]) -> Markup {
    let body = html! {
        h1 { "Projects" }
        section #projects data-live {
            @if projects.is_empty() {
                p.empty { "No project yet: " code { "multica project create --title \"Game\"" } }
            }
            @for project in projects {
                article.card id=(project.id) {
                    h2 { (project.title) " " (pill(&project.status)) }
                    @if project.resources.is_empty() {
                        p.muted { "No resources: its tasks work in empty directories of their own." }
                    } @else { (resources(&project.resources)) }
                }
            }
        }
    };
    whole(frame, "/projects", "Projects", "live-page.js", &body)
}

fn resources(rows: &[ResourceRow]) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { th { "Resource" } th { "Type" } th { "Where" } th { "Mode" } th { "Machine" } } }
                tbody {
                    @for row in rows {
                        tr {
                            td { (row.label) }
                            td { (row.kind) }
                            td.mono.wide { (row.place) }
                            td {
                                @if let Some(mode) = &row.mode { span.pill.tone { (mode.replace('_', " ")) } }
                                @if !row.verified && row.kind == "local_directory" { " " span.muted { "unverified" } }
                            }
                            td { (row.machine.as_deref().unwrap_or("–")) }
                        }
                    }
                }
            }
        }
    }
}
