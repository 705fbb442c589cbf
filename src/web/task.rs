//! One task: why it is where it is, its story, its transcript.

use maud::{Markup, html};

use super::feed::rows;
use super::layout::{dated, page as whole, pill};
use super::view::{Explanation, Frame, MessageRow, TaskPage};

/// The page of one task.
#[must_use]
pub fn page(frame: &Frame, task: &TaskPage) -> Markup {
    let row = &task.row;
    let body = html! {
        section #head data-live {
            h1 { (row.name) " " (pill(&row.status)) }
            p { (row.title) span.muted { " · " (task.issue_key) " · " (row.agent) " (" (row.provider) ")" } }
            @if task.can_cancel {
                form method="post" action={ "/tasks/" (row.id) "/cancel" } {
                    button.danger type="submit" { "Cancel this task" }
                }
            }
            div.card { (explanation(&row.status, &task.explanation)) }
            @if let Some(detail) = &task.detail {
                details.card.transcript {
                    summary { "All of the error" }
                    article.error { pre { (detail) } }
                }
            }
            @if let Some(output) = &task.output { div.card.transcript { article { pre { (output) } } } }
            div.card {
                dl.facts {
                    @for (label, value) in &task.facts { dt { (label) } dd.mono { (value) } }
                }
            }
        }
        section #story data-live {
            h2 { "Timeline" }
            div.card { ol.feed aria-label="What happened to this task, in order" { (rows(&task.history, true)) } }
        }
        section #transcript data-live {
            h2 { "Transcript" }
            div.card.transcript { (transcript(&task.transcript, task.transcript_left_out, task.transcript_gone.as_deref())) }
        }
    };
    whole(frame, "/tasks", &row.name, "live-page.js", &body)
}

fn explanation(status: &str, explanation: &Explanation) -> Markup {
    html! {
        div class={ "cause tone " (status) } {
            p { strong { (explanation.sentence) } }
            @if let Some(detail) = &explanation.detail { pre.said { (detail) } }
            @for (cause, since) in &explanation.causes {
                p { (cause) @if let Some(since) = since { span.muted { " (" (dated(Some(*since))) ")" } } }
            }
            @if !explanation.ends_when.is_empty() {
                p.muted {
                    "It ends when " (explanation.ends_when)
                    @if let Some(until) = explanation.until { ", by " (dated(Some(until))) " at the latest" }
                    "."
                }
            }
            @for advice in &explanation.advice { p { (advice) } }
            @for command in &explanation.commands { code { (command) } }
        }
    }
}

fn transcript(messages: &[MessageRow], left_out: u64, gone: Option<&str>) -> Markup {
    html! {
        @if left_out > 0 { p.muted { (left_out) " earlier messages aren't shown here; `multica task logs` has them." } }
        @if let Some(gone) = gone { p.muted { (gone) } }
        @else if messages.is_empty() { p.muted { "The agent hasn't said anything." } }
        @for message in messages {
            article class=(class(message)) {
                span.kind {
                    (message.kind.replace('_', " "))
                    @if let Some(tool) = &message.tool { " · " (tool) }
                    @if message.stderr { " · error stream" }
                }
                pre { (message.text) }
            }
        }
    }
}

fn class(message: &MessageRow) -> &'static str {
    if message.kind == "error" {
        "error"
    } else if message.stderr {
        "stderr"
    } else {
        "message"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::view::TaskRow;

    fn shown(detail: Option<&str>, output: Option<&str>) -> String {
        let row = TaskRow { name: "GAME-1#1".to_owned(), status: "failed".to_owned(), ..TaskRow::default() };
        let (detail, output) = (detail.map(str::to_owned), output.map(str::to_owned));
        page(&Frame::default(), &TaskPage { row, detail, output, ..TaskPage::default() }).into_string()
    }

    #[test]
    fn all_of_an_error_is_a_card_of_its_own_as_text() {
        let said = shown(Some("line one\n<script>line two</script>"), None);
        let (_, card) = said.split_once("<details class=\"card transcript\">").expect("a card");
        let (card, _) = card.split_once("</details>").expect("its end");
        assert!(card.starts_with("<summary>All of the error</summary>"), "{card}");
        let text = "<article class=\"error\"><pre>line one\n&lt;script&gt;line two&lt;/script&gt;</pre>";
        assert!(card.contains(text), "{card}");
    }

    #[test]
    fn without_an_error_there_is_no_such_card() {
        let said = shown(None, Some("It is done."));
        assert!(!said.contains("All of the error") && !said.contains("<details"), "{said}");
        assert!(said.contains("It is done."), "{said}");
    }
}
