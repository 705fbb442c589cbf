//! What one run is asked to do.

use std::fmt::Write as _;

use super::quote::{fenced, inline};
use crate::wire::daemon::Assignment;

/// Writes it; texts are quoted up to `max` bytes each.
///
/// `brief` is given when the provider reads no brief file, or the file could not be extended; `forgotten`
/// says that there was a session of this conversation that can't be gone on with.
#[must_use]
pub fn prompt(assignment: &Assignment, brief: Option<&str>, forgotten: bool, max: usize) -> String {
    let mut out = String::new();
    if let Some(brief) = brief {
        let _ = writeln!(out, "{}\n", brief.trim_end());
    }
    let key = inline(&assignment.issue_key);
    let _ = writeln!(out, "# Work on {key}: {}\n", inline(&assignment.thread_name));
    if assignment.issue_description.trim().is_empty() {
        out.push_str("The issue has no description.\n");
    } else {
        let _ = writeln!(out, "{}", fenced(&assignment.issue_description, max));
    }
    if !assignment.comments.is_empty() {
        out.push_str("\n## Comments, oldest first\n");
        for comment in &assignment.comments {
            let (author, at) = (inline(&comment.author), inline(&comment.created_at));
            let _ = writeln!(out, "\n{author}, {at}:\n\n{}", fenced(&comment.body, max));
        }
    }
    if assignment.attempt > 1 {
        let _ = writeln!(
            out,
            "\nThis is attempt {} of {}: an earlier one was interrupted; look at what it left before you go on.",
            assignment.attempt, assignment.max_attempts
        );
    }
    if !assignment.left_out.is_empty() {
        out.push_str("\n## Left out\n\nThis could not be read for this run:\n\n");
        for sentence in &assignment.left_out {
            let _ = writeln!(out, "- {}", inline(sentence));
        }
    }
    if forgotten {
        out.push_str(
            "\n## A fresh session\n\nYou have worked on this before, in a session that can't be gone on with here. \
             You remember nothing of it: read the comments, and look at what is there before you begin.\n",
        );
    }
    let _ = writeln!(
        out,
        "\n{} When you are done, say so with `multica issue comment add {key} --content-stdin`.",
        if assignment.comments.is_empty() { "Do what the issue asks." } else { "Answer the last comment." }
    );
    out
}
