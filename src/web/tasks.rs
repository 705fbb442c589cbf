//! The list of tasks.

use maud::{Markup, html};

use super::layout::{dated, page as whole, pill};
use super::view::{Frame, StrandedRow, TaskRow};

/// Tasks that wait unusually long, those that are going on, then those that are over.
#[must_use]
pub fn page(frame: &Frame, stranded: &[StrandedRow], active: &[TaskRow], over: &[TaskRow]) -> Markup {
    let body = html! {
        h1 { "Tasks" }
        section #stranded data-live {
            @if !stranded.is_empty() {
                h2 { "Waiting unusually long" }
                div.card.scroll {
                    table {
                        thead { tr { th { "Task" } th { "Status" } th { "Because" } th { "Since" } } }
                        tbody {
                            @for row in stranded {
                                tr {
                                    td { a href={ "/tasks/" (row.id) } { (row.name) } }
                                    td { (pill(&row.status)) }
                                    td.wide { (row.because) }
                                    td { (dated(row.since)) }
                                }
                            }
                        }
                    }
                }
            }
        }
        section #active data-live {
            h2 { "Going on" }
            @if active.is_empty() { p.empty { "No task is going on." } } @else { (table(active, "Since")) }
        }
        section #over data-live {
            h2 { "Over" }
            @if over.is_empty() { p.empty { "No task is over yet." } } @else { (table(over, "Ended")) }
        }
    };
    whole(frame, "/tasks", "Tasks", "live-page.js", &body)
}

fn table(rows: &[TaskRow], moment_is: &str) -> Markup {
    html! {
        div.card.scroll {
            table {
                thead { tr { th { "Task" } th { "Status" } th { "Issue" } th { "Agent" } th { (moment_is) } } }
                tbody {
                    @for row in rows {
                        tr {
                            td { a href={ "/tasks/" (row.id) } { (row.name) } }
                            td { (pill(&row.status)) }
                            td.wide {
                                (row.title)
                                @if let Some(wait) = &row.waits_for { div.muted { (wait) } }
                                @if let Some(failure) = &row.failure { div.muted { (failure) } }
                            }
                            td { (row.agent) " " span.muted { (row.provider) } }
                            td { (dated(row.since)) }
                        }
                    }
                }
            }
        }
    }
}
