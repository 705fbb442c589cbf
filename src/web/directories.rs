//! Every real directory: who has it, who waits.

use maud::{Markup, html};

use super::layout::{dated, page as whole};
use super::view::{DirectoryCard, Frame, Occupant};

/// One card for each directory.
#[must_use]
pub fn page(frame: &Frame, directories: &[DirectoryCard]) -> Markup {
    let body = html! {
        h1 { "Directories" }
        section #directories data-live {
            @if directories.is_empty() {
                p.empty { "No task has entered a directory yet. Attach one to a project: "
                    code { "multica project resource add PROJECT --type local_directory --local-path DIR" } }
            }
            div.cards { @for directory in directories { (card(directory)) } }
        }
    };
    whole(frame, "/directories", "Directories", "live-page.js", &body)
}

fn card(directory: &DirectoryCard) -> Markup {
    html! {
        article.card id=(directory.id) {
            h2 { (directory.label) }
            p.muted { (directory.machine) @if let Some(path) = &directory.path { " · " span.mono { (path) } } }
            @match &directory.holder {
                Some(holder) => {
                    p { span.pill.tone.running { "held" } " by " (occupant(holder)) }
                    @if let Some(blocked) = &directory.blocked { p.cause { (blocked) } }
                }
                None => p { span.pill.tone.completed { "free" } }
            }
            @for run in &directory.stopping {
                p.cause { (occupant(run)) " was given up and may be at work there until its machine has stopped it" }
            }
            @if !directory.queue.is_empty() {
                ol.queue aria-label="Who waits, first come first" {
                    @for waiting in &directory.queue { li { (occupant(waiting)) } }
                }
            }
        }
    }
}

fn occupant(occupant: &Occupant) -> Markup {
    html! {
        a href={ "/tasks/" (occupant.task) } { (occupant.name) }
        span.muted { " " (occupant.agent) " since " (dated(occupant.since)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_given_up_in_a_directory_is_named_beside_its_being_free() {
        let run = |name: &str| Occupant {
            task: "1".to_owned(),
            name: name.to_owned(),
            agent: "dev".to_owned(),
            since: None,
        };
        let free = DirectoryCard {
            id: "d".to_owned(),
            label: "game".to_owned(),
            path: None,
            machine: "desktop".to_owned(),
            holder: None,
            blocked: None,
            queue: Vec::new(),
            stopping: vec![run("GAME-1#1")],
        };
        let page = card(&free).into_string();
        assert!(
            page.contains(">free<") && page.contains("GAME-1#1") && page.contains("was given up"),
            "{page}"
        );
        let none = card(&DirectoryCard { stopping: Vec::new(), ..free }).into_string();
        assert!(!none.contains("given up"), "{none}");
    }
}
