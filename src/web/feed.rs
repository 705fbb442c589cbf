//! The feed: one readable sentence for each event, newest first.

use jiff::Timestamp;
use maud::{Markup, html};

use super::layout;
use super::view::Frame;
use crate::wire::feed::{Entry, Link};

/// The home page.
#[must_use]
pub fn page(frame: &Frame, entries: &[Entry], older: Option<i64>) -> Markup {
    let body = html! {
        h1 { "Feed" }
        div #fresh-note hidden { button.primary type="button" { "new entries" } }
        @if entries.is_empty() {
            p.empty { "Nothing has happened here yet. Create an issue and assign it to an agent." }
        }
        ol.feed aria-live="polite" aria-label="What happened, newest first" { (rows(entries, true)) }
        @if let Some(position) = older {
            p { a.button href={ "/?before=" (position) } { "Older" } }
        }
    };
    layout::page(frame, "/", "Feed", "feed-page.js", &body)
}

/// Entries as list items, with a separator for each day.
#[must_use]
pub fn rows(entries: &[Entry], days: bool) -> Markup {
    let at: Vec<Option<Timestamp>> = entries.iter().map(|entry| entry.recorded_at.parse().ok()).collect();
    let day_of = |index: usize| at.get(index).copied().flatten().map(layout::day);
    html! {
        @for (index, entry) in entries.iter().enumerate() {
            @let today = day_of(index);
            @if days && (index == 0 || today != day_of(index - 1)) {
                li.day { (today.unwrap_or_default()) }
            }
            li id={ "entry-" (entry.position) } {
                (layout::moment(at[index]))
                span { (sentence(&entry.text, &entry.links)) }
                a.kind href={ "#entry-" (entry.position) } { (entry.event_type) }
            }
        }
    }
}

/// The sentence, with each label it speaks of as a link.
#[must_use]
pub fn sentence(text: &str, links: &[Link]) -> Markup {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((at, link)) = links
        .iter()
        .filter(|link| !link.label.is_empty() && target(link).is_some())
        .filter_map(|link| rest.find(&link.label).map(|at| (at, link)))
        .min_by_key(|(at, link)| (*at, usize::MAX - link.label.len()))
    {
        parts.push((&rest[..at], Some(link)));
        rest = &rest[at + link.label.len()..];
    }
    parts.push((rest, None));
    html! {
        @for (before, link) in parts {
            (before)
            @if let Some(link) = link {
                a href=(target(link).unwrap_or_default()) { (link.label) }
            }
        }
    }
}

fn target(link: &Link) -> Option<String> {
    match link.rel.as_str() {
        "task" => Some(format!("/tasks/{}", link.id)),
        "directory" => Some(format!("/directories#{}", link.id)),
        "project" => Some(format!("/projects#{}", link.id)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_becomes_a_link_and_everything_else_is_escaped() {
        let link = Link { rel: "task".into(), id: "42".into(), label: "GAME-1#1".into() };
        let html = sentence("<b>dev</b> claimed GAME-1#1", &[link]).into_string();
        assert_eq!(html, "&lt;b&gt;dev&lt;/b&gt; claimed <a href=\"/tasks/42\">GAME-1#1</a>");
    }

    #[test]
    fn of_two_labels_at_one_place_the_longer_one_is_linked() {
        let link = |id: &str, label: &str| Link { rel: "task".into(), id: id.into(), label: label.into() };
        let html = sentence("GAME-1#11 ran", &[link("a", "GAME-1#1"), link("b", "GAME-1#11")]).into_string();
        assert_eq!(html, "<a href=\"/tasks/b\">GAME-1#11</a> ran");
    }
}
