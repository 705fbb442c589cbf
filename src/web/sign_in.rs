//! Signing in: a link's page that posts its code, so that a preview of the link uses nothing up.

use maud::{Markup, html};

use super::layout::bare;

/// The page behind a sign-in link.
#[must_use]
pub fn page(code: &str) -> Markup {
    bare(
        "Sign in",
        &html! {
            div.sign-in.card {
                h1 { "multica" }
                p { "This link signs this browser in, once." }
                form method="post" action="/sign-in" {
                    input type="hidden" name="code" value=(code);
                    button.primary type="submit" autofocus { "Sign in" }
                }
            }
        },
    )
}

/// The page of somebody who isn't signed in.
#[must_use]
pub fn needed() -> Markup {
    bare(
        "Sign in",
        &html! {
            div.sign-in.card {
                h1 { "multica" }
                p { "You aren't signed in here." }
                p.muted { "Take the link that " code { "multica up" } " printed, or make a new one: " }
                p { code { "multica login --link" } }
            }
        },
    )
}
