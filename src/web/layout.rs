//! What every page has: head, bar, live state.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{DOCTYPE, Markup, html};

use super::view::Frame;

const PAGES: [(&str, &str); 6] = [
    ("/", "Feed"),
    ("/tasks", "Tasks"),
    ("/directories", "Directories"),
    ("/projects", "Projects"),
    ("/audit", "Audit"),
    (FOR_ADMINS, "Webhooks"),
];

const FOR_ADMINS: &str = "/webhooks";

/// A whole page: `script` is the module that makes it live.
#[must_use]
pub fn page(frame: &Frame, here: &str, title: &str, script: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body data-position=(frame.position) data-filters=(frame.filters) {
                a.skip href="#main" { "Skip to the page" }
                header.bar {
                    a.brand href="/" { "multica" }
                    nav aria-label="Pages" {
                        @for (path, name) in PAGES.into_iter().filter(|(path, _)| frame.admin || *path != FOR_ADMINS) {
                            a href=(href(frame, path)) aria-current=[(path == here).then_some("page")] { (name) }
                        }
                    }
                    @if frame.as_of.is_none() {
                        span #live-state role="status" data-state="joining" { "as loaded" }
                    }
                    form method="get" role="search" {
                        input type="search" name="as_of" aria-label="As of" placeholder="as of: 2h ago, 1234"
                            value=[frame.as_of.map(|_| frame.position)];
                    }
                    span.muted.who { (frame.member) " · " (frame.workspace) }
                    form method="post" action="/sign-out" { button type="submit" { "Sign out" } }
                }
                @if let Some(time) = frame.as_of {
                    p.muted role="status" {
                        "As of position " (frame.position) ", " (whole(time)) ". " a href="?" { "Show what is now" }
                    }
                }
                @if !frame.faults.is_empty() {
                    div.faults role="alert" {
                        @for fault in &frame.faults {
                            p { "What is shown may lack something: " (fault) "." }
                        }
                        p.muted { "An admin sees more with " code { "multica doctor" } "." }
                    }
                }
                main #main {
                    @if frame.left_out > 0 {
                        p.notice role="status" {
                            (left_out(frame.left_out)) code { "multica verify" } " names the places."
                        }
                    }
                    (body)
                }
                // What was stays as it was: nothing makes such a page live.
                @if frame.as_of.is_none() { script type="module" src={ "/assets/" (script) } {} }
            }
        }
    }
}

/// A page of ours, as of the moment that this one shows.
#[must_use]
pub fn href(frame: &Frame, path: &str) -> String {
    match frame.as_of {
        Some(_) => format!("{path}?as_of={}", frame.position),
        None => path.to_owned(),
    }
}

fn whole(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%A, %-d %B %Y, %H:%M:%S UTC").to_string()
}

fn left_out(things: usize) -> String {
    let what = if things == 1 { "One thing is".to_owned() } else { format!("{things} things are") };
    format!("{what} missing here: the log can't be read there. ")
}

/// A page without a session: sign-in and errors.
#[must_use]
pub fn bare(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body { main #main { (body) } }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            title { (title) " · multica" }
            link rel="icon" type="image/svg+xml" href="/assets/icon.svg";
            link rel="stylesheet" href="/assets/app.css";
        }
    }
}

/// A sentence whose parts between backticks are to be typed, or were.
#[must_use]
pub fn with_code(sentence: &str) -> Markup {
    html! {
        @for (index, part) in sentence.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// A page that says what went wrong and what to do.
#[must_use]
pub fn problem(title: &str, sentence: &str, next_step: &str) -> Markup {
    bare(
        title,
        &html! {
            div.sign-in.card {
                h1 { (title) }
                p { (with_code(sentence)) }
                p.muted { (with_code(next_step)) }
                p { a href="/" { "To the feed" } }
            }
        },
    )
}

/// A status as a pill: text first, colour besides.
#[must_use]
pub fn pill(status: &str) -> Markup {
    let text =
        if status == "waiting_local_directory" { "parked".to_owned() } else { status.replace('_', " ") };
    html! { span class={ "pill tone " (status) } { (text) } }
}

/// A moment: the time of day, with the whole moment for machines and on hover.
#[must_use]
pub fn moment(at: Option<Timestamp>) -> Markup {
    let Some(at) = at else { return html! { span.muted { "–" } } };
    let whole = at.to_string();
    let short = at.to_zoned(TimeZone::UTC).strftime("%H:%M:%S").to_string();
    html! { time datetime=(whole) title=(whole) { (short) } }
}

/// A moment that may be of another day than what stands around it.
#[must_use]
pub fn dated(at: Option<Timestamp>) -> Markup {
    let Some(at) = at else { return moment(None) };
    let whole = at.to_string();
    let short = at.to_zoned(TimeZone::UTC).strftime("%-d %b %H:%M:%S").to_string();
    html! { time datetime=(whole) title=(whole) { (short) } }
}

/// The day of a moment, for separators.
#[must_use]
pub fn day(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%A, %-d %B %Y").to_string()
}
