//! Webhooks: where events are delivered to, what was delivered last, what was given up.

use maud::{Markup, html};

use super::layout::{moment, page as whole};
use super::view::{Frame, WebhookCard};
use crate::domain::webhook::OffBecause;
use crate::wire::api::{Delivery, Progress, Webhook};

/// One section for each webhook.
#[must_use]
pub fn page(frame: &Frame, cards: &[WebhookCard]) -> Markup {
    let body = html! {
        h1 { "Webhooks" }
        div #webhooks data-live {
            @if cards.is_empty() {
                p.empty { "Nothing is delivered anywhere. Events can be, signed and in order: "
                    code { "multica webhook create --name NAME --url https://…" } }
            }
            @for card in cards { (section(card)) }
        }
    };
    whole(frame, "/webhooks", "Webhooks", "live-page.js", &body)
}

fn section(card: &WebhookCard) -> Markup {
    let webhook = &card.webhook;
    let heading = format!("webhook-{}", webhook.id);
    html! {
        section.card aria-labelledby=(heading) {
            h2 id=(heading) { (webhook.name) " " (status(webhook)) }
            dl.facts {
                dt { "To" } dd.mono { (webhook.url) }
                dt { "Types" } dd { @if webhook.types.is_empty() { "all" } @else { (webhook.types.join(", ")) } }
                @if let Some(progress) = &webhook.progress { (standing(progress)) }
                @if let Some(until) = webhook.old_secret_until {
                    dt { "Old secret" } dd { "signs too until " (moment(Some(until))) }
                }
            }
            @if let Some(because) = webhook.off_because {
                p.cause.tone.failed { (why_off(because)) " "
                    code { "multica webhook update " (webhook.name) " --enable" } }
            }
            @if webhook.dead > 0 {
                div.tone.failed {
                    p.cause { (count(webhook.dead, "delivery was", "deliveries were")) " given up. "
                        code { "multica webhook retry " (webhook.name) " --all" } }
                    (table("Given up", &card.dead))
                }
            }
            @if !card.newest.is_empty() { (table("Newest deliveries", &card.newest)) }
        }
    }
}

fn status(webhook: &Webhook) -> Markup {
    let tone = if webhook.off_because.is_some() { "failed" } else { "online" };
    html! { span class={ "pill tone " (tone) } { (webhook.status) } }
}

fn why_off(because: OffBecause) -> &'static str {
    match because {
        OffBecause::Asked => {
            "It was switched off. What happens meanwhile isn't delivered; what waited is, once it is on:"
        }
        OffBecause::Gone => "Its receiver answered 410: it wants nothing any more. If that was a mistake:",
        OffBecause::Failing => "Too many deliveries were given up. Once the receiver is well:",
    }
}

fn standing(progress: &Progress) -> Markup {
    let behind = progress.head - progress.position;
    html! {
        dt { "At" } dd {
            "position " (progress.position)
            @if behind > 0 { ", behind by " (behind) }
            @for replay in &progress.replays { ", replay at " (replay.position) " of " (replay.up_to) }
        }
        dt { "Waiting" } dd { (progress.waiting) }
        dt { "Last taken" } dd { (moment(progress.delivered_at)) }
        @if progress.failed_at.is_some() { dt { "Last failed" } dd { (moment(progress.failed_at)) } }
    }
}

fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

fn table(caption: &str, deliveries: &[Delivery]) -> Markup {
    html! {
        div.scroll {
            table {
                caption { (caption) }
                thead { tr {
                    th scope="col" { "Event" } th scope="col" { "Type" } th scope="col" { "State" }
                    th scope="col" { "Attempts" } th scope="col" { "Tried" } th scope="col" { "Answer" }
                    th scope="col" { "Next" }
                } }
                tbody { @for one in deliveries { (row(one)) } }
            }
        }
    }
}

fn row(one: &Delivery) -> Markup {
    let tone = match one.state.as_str() {
        "delivered" => "completed",
        "dead" => "failed",
        _ => "queued",
    };
    html! {
        tr {
            td { a href={ "/audit?before=" (one.position + 1) } { (one.position) } }
            td.mono { (one.event_type) }
            td { span class={ "pill tone " (tone) } { (one.state) } }
            td { (one.attempts) @if one.rounds > 1 { span.muted { " (made due " (one.rounds) " times)" } } }
            td { (moment(one.tried_at)) }
            td {
                @if let Some(status) = one.status { (status) }
                @if let Some(text) = &one.problem_text { " " span.muted { (text) } }
                @if let Some(millis) = one.millis { span.muted { " " (millis) " ms" } }
            }
            td { @if one.due_at.is_some() { (moment(one.due_at)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::kernel::ids::{WebhookId, WorkspaceId};

    fn delivery(state: &str) -> Delivery {
        Delivery {
            id: "msg_1".to_owned(),
            position: 7,
            event_type: "task.queued".to_owned(),
            stream_id: Uuid::nil(),
            state: state.to_owned(),
            attempts: 3,
            rounds: 2,
            due_at: None,
            tried_at: None,
            problem: Some("status".to_owned()),
            problem_text: Some("the receiver didn't take it".to_owned()),
            status: Some(500),
            millis: Some(12),
        }
    }

    fn card() -> WebhookCard {
        let webhook = Webhook {
            id: WebhookId(Uuid::nil()),
            workspace_id: WorkspaceId(Uuid::nil()),
            name: "<b>chat</b>".to_owned(),
            url: "https://example.com/?<script>".to_owned(),
            types: Vec::new(),
            status: "off".to_owned(),
            off_because: Some(OffBecause::Gone),
            old_secret_until: None,
            created_at: None,
            updated_at: None,
            dead: 1,
            progress: None,
            secret: Some("whsec_hush".to_owned()),
        };
        WebhookCard { webhook, newest: vec![delivery("delivered")], dead: vec![delivery("dead")] }
    }

    #[test]
    fn what_was_given_up_stands_beside_what_to_do_and_names_are_text() {
        let html = page(&Frame::default(), &[card()]).into_string();
        assert!(!html.contains("<b>chat") && !html.contains("<script>"), "{html}");
        assert!(!html.contains("whsec_"), "a page never shows a secret: {html}");
        for said in ["1 delivery was given up", "--all", "--enable", "410", "500", "made due 2 times"] {
            assert!(html.contains(said), "{said} in {html}");
        }
        assert!(html.matches("<caption>").count() == 2 && html.contains("aria-labelledby"), "{html}");
        // A page of what was has no deliveries, and says nothing of them.
        let mut past = card();
        (past.newest, past.dead, past.webhook.dead) = (Vec::new(), Vec::new(), 0);
        assert!(!page(&Frame::default(), &[past]).into_string().contains("<table"));
    }
}
