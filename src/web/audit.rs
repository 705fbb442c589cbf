//! The audit trail: filters, a sentence for each entry, and all of it behind each.

use maud::{Markup, html};

use super::feed::sentence;
use super::layout::{self, page as whole, with_code};
use super::view::{AuditView, Frame};
use crate::wire::audit::AuditEntry;

/// Name, label and an example of each filter that is typed.
const TYPED: [(&str, &str, &str); 7] = [
    ("q", "Words", "any words"),
    ("actor", "Who", "a name, or daemon"),
    ("target", "About", "GAME-12#3, issue/GAME-12"),
    ("type", "Type", "task.*"),
    ("since", "Since", "2h, 2026-05-01"),
    ("until", "Until", "a time"),
    ("correlation", "Intent", "an id"),
];

const OUTCOMES: [(&str, &str); 4] =
    [("", "whatever became of it"), ("done", "done"), ("ignored", "ignored"), ("refused", "refused")];

/// The page.
#[must_use]
pub fn page(frame: &Frame, view: &AuditView) -> Markup {
    let value = |name: &str| view.filters.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let body = html! {
        h1 { "Audit trail" }
        form.filters.card method="get" action="/audit" role="search" aria-label="Filters of the audit trail" {
            @for (name, label, example) in TYPED {
                label {
                    span { (label) }
                    input name=(name) value=[value(name)] placeholder=(example) autocomplete="off" maxlength="1024";
                }
            }
            label {
                span { "Outcome" }
                select name="outcome" {
                    @for (word, text) in OUTCOMES {
                        option value=(word) selected[value("outcome").is_some_and(|now| now == word)] { (text) }
                    }
                }
            }
            div.actions {
                button.primary type="submit" { "Filter" }
                @if !view.filters.is_empty() { a.button href="/audit" { "Show all" } }
            }
        }
        @if let Some((problem, step)) = &view.problem {
            div.card.problem role="alert" { p { strong { (with_code(problem)) } } p.muted { (with_code(step)) } }
        } @else {
            (entries(view))
            (ways_on(view))
        }
    };
    whole(frame, "/audit", "Audit trail", "live-page.js", &body)
}

fn entries(view: &AuditView) -> Markup {
    let entries = &view.page.entries;
    let at = |index: usize| entries.get(index).and_then(|entry| entry.entry.recorded_at.parse().ok());
    let day = |index: usize| at(index).map(layout::day);
    html! {
        @if entries.is_empty() { p.empty { "Nothing here fits." } }
        ol.feed.audit aria-label="Entries, newest first" {
            @for (index, entry) in entries.iter().enumerate() {
                @if index == 0 || day(index) != day(index - 1) { li.day { (day(index).unwrap_or_default()) } }
                li id={ "entry-" (entry.cursor) } {
                    (layout::moment(at(index)))
                    span {
                        (sentence(&entry.entry.text, &entry.entry.links))
                        @if entry.outcome != "done" { " " span class={ "pill tone " (tone(&entry.outcome)) } { (entry.outcome) } }
                        (whole_entry(view, entry))
                    }
                    a.kind href=(narrowed(view, "type", &entry.entry.event_type)) { (entry.entry.event_type) }
                }
            }
        }
    }
}

fn tone(outcome: &str) -> &'static str {
    if outcome == "refused" { "failed" } else { "queued" }
}

/// Everything about one entry, behind its sentence.
fn whole_entry(view: &AuditView, entry: &AuditEntry) -> Markup {
    let e = &entry.entry;
    let actor = format!("{}/{}", e.actor.kind, e.actor.id);
    let data = entry.data.as_ref().and_then(|data| serde_json::to_string_pretty(data).ok());
    html! {
        details {
            summary { span { "All of it" } }
            dl.facts {
                dt { "Position" } dd.mono { (e.position) }
                dt { "Who" } dd { a href=(narrowed(view, "actor", &actor)) { (e.actor.name) } " by " (e.actor.via) }
                @if !e.stream.id.is_empty() {
                    dt { "Stream" } dd.mono {
                        @if matches!(e.stream.kind.as_str(), "daemon") { (e.stream.kind) "/" (e.stream.id) }
                        @else {
                            @let target = format!("{}/{}", e.stream.kind, e.stream.id);
                            a href=(narrowed(view, "target", &target)) { (target) }
                        }
                    }
                }
                dt { "Intent" } dd.mono { a href={ "/audit?correlation=" (entry.correlation) } { (entry.correlation) } }
                dt { "Command" } dd.mono { (entry.command) }
                @if let Some(cause) = entry.causation { dt { "Caused by" } dd.mono { (cause) } }
                dt { "Recorded" } dd.mono { (e.recorded_at) }
                dt { "Actor's clock" } dd.mono { (e.occurred_at) }
                @if let Some(reason) = &entry.reason {
                    dt { "Refused" } dd { (reason.sentence) " (" code { (reason.code) } ")" }
                    dt { "What helps" } dd { (reason.next_step) }
                }
            }
            @if let Some(data) = data { pre.data { (data) } }
        }
    }
}

/// Older, newer, how far was searched, and all of it as a file.
fn ways_on(view: &AuditView) -> Markup {
    let first = view.page.entries.first();
    html! {
        @if let Some(reached) = &view.page.searched_to {
            p.muted { "Searched back to position " (reached.position) " (" (reached.recorded_at) ")." }
        }
        nav.ways aria-label="Pages of the audit trail" {
            @if let (true, Some(first)) = (view.newer, first) {
                a.button href=(with(view, "after", &first.cursor)) rel="prev" { "Newer" }
            }
            @if let Some(next) = &view.page.next {
                a.button href=(with(view, "before", next)) rel="next" { "Older" }
            }
            @for (format, name) in [("jsonl", "Export as JSON lines"), ("csv", "Export as CSV")] {
                form method="post" action={ "/audit/export" (with(view, "format", format).trim_start_matches("/audit")) } {
                    button type="submit" { (name) }
                }
            }
        }
    }
}

/// The page's address with one more parameter.
fn with(view: &AuditView, name: &str, value: &str) -> String {
    let mut filters = view.filters.clone();
    filters.push((name.to_owned(), value.to_owned()));
    address(&filters)
}

/// The page's address with another value of a filter.
fn narrowed(view: &AuditView, name: &str, value: &str) -> String {
    let mut filters: Vec<_> = view.filters.iter().filter(|(known, _)| known != name).cloned().collect();
    filters.push((name.to_owned(), value.to_owned()));
    address(&filters)
}

fn address(filters: &[(String, String)]) -> String {
    let pairs: Vec<String> =
        filters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    format!("/audit?{}", pairs.join("&"))
}

fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/*".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::audit::{AuditPage, Reason};
    use crate::wire::feed::{ActorName, Entry, StreamName};

    fn view(entries: Vec<AuditEntry>) -> AuditView {
        AuditView {
            filters: vec![("q".to_owned(), "\"><b>&x=1".to_owned())],
            page: AuditPage { entries, next: Some("7".to_owned()), searched_to: None, head: 9 },
            newer: false,
            problem: None,
        }
    }

    fn entry() -> AuditEntry {
        AuditEntry {
            cursor: "8".to_owned(),
            outcome: "refused".to_owned(),
            entry: Entry {
                position: 8,
                event_type: "task.cancel".to_owned(),
                workspace: String::new(),
                stream: StreamName { kind: "task".to_owned(), id: "t".to_owned() },
                actor: ActorName {
                    kind: "member".to_owned(),
                    id: "m".to_owned(),
                    name: "<i>Ada</i>".to_owned(),
                    via: "cli".to_owned(),
                },
                occurred_at: "2026-05-01T12:00:00Z".to_owned(),
                recorded_at: "2026-05-01T12:00:00Z".to_owned(),
                text: "<i>Ada</i> asked".to_owned(),
                links: vec![],
            },
            correlation: "c".to_owned(),
            command: "d".to_owned(),
            causation: None,
            reason: Some(Reason {
                code: "task_over".to_owned(),
                sentence: "it is over".to_owned(),
                next_step: "Look.".to_owned(),
            }),
            data: Some(serde_json::json!({"said": "</pre><script>"})),
        }
    }

    #[test]
    fn whatever_was_typed_or_said_is_text() {
        let html = page(&Frame::default(), &view(vec![entry()])).into_string();
        assert!(!html.contains("<b>") && !html.contains("<i>") && !html.contains("</pre><script>"), "{html}");
        assert!(html.contains("/audit?q=%22%3E%3Cb%3E%26x%3D1&amp;before=7"), "{html}");
        assert!(html.contains("/audit/export?q=%22%3E%3Cb%3E%26x%3D1&amp;format=csv"), "{html}");
        assert!(html.contains("/audit?correlation=c") && html.contains("it is over"), "{html}");
    }

    #[test]
    fn a_filter_that_can_not_be_answered_is_said_beside_the_form() {
        let mut view = view(Vec::new());
        view.problem = Some(("`type` is none".to_owned(), "Use another.".to_owned()));
        let html = page(&Frame::default(), &view).into_string();
        assert!(html.contains("role=\"alert\"") && html.contains("<code>type</code> is none"), "{html}");
        assert!(!html.contains("Nothing here fits"), "{html}");
    }
}
