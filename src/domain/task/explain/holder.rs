//! What the task that holds the directory is at: the cause behind the cause.

use super::{Cause, Facts, absence_of, after};
use crate::domain::sentence::Link;
use crate::domain::task::Status;
use jiff::Timestamp;

/// What keeps the holder from letting go, with the commands that help, and by when a time limit ends it.
pub(super) struct Behind {
    pub(super) causes: Vec<Cause>,
    pub(super) commands: Vec<String>,
    pub(super) until: Option<Timestamp>,
}

pub(super) fn behind(link: &Link, facts: &Facts<'_>) -> Behind {
    let mut behind = Behind { causes: Vec::new(), commands: Vec::new(), until: None };
    let Some(holder) = &facts.holder else { return behind };
    let name = &link.label;
    let absent = absence_of(&holder.daemon, &holder.machine, facts);
    let gone = absent.is_some();
    behind.causes.extend(absent);
    let (sentence, since) = match holder.status {
        Status::Running if gone => {
            behind.until = after(holder.machine.last_seen, facts.terms.grace);
            behind.commands.push(format!("multica daemon declare-dead {}", holder.daemon));
            (format!("{name} ran there, and its machine can't say how it went on"), holder.last_output)
        }
        Status::Running => match holder.last_output {
            None => (format!("{name} runs, and its agent hasn't said anything yet"), None),
            said => (format!("{name} runs; this is when its agent last said something"), said),
        },
        Status::Completed | Status::Failed | Status::Cancelled => {
            if gone {
                behind.until = after(holder.machine.last_seen, facts.terms.grace);
                behind.commands.push(format!("multica daemon declare-dead {}", holder.daemon));
            }
            (
                format!(
                    "{name} is {}, and its machine hasn't let the directory go yet",
                    holder.status.words()
                ),
                None,
            )
        }
        Status::WaitingLocalDirectory => {
            let lock = facts.directory.and_then(|directory| directory.holder.as_ref()?.blocked.as_ref());
            let locked = lock.map_or_else(
                || "another program has locked the directory".to_owned(),
                |lock| super::locked(lock, facts),
            );
            (format!("{name} waits itself: {locked}"), None)
        }
        Status::Dispatched | Status::Queued | Status::Deferred => {
            (format!("{name} is getting ready there"), None)
        }
    };
    behind.causes.push(Cause { sentence, since, link: Some(link.clone()) });
    behind
}
