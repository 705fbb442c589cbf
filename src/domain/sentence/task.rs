//! Sentences of a task's events.

use super::{Writer, count, ordinal};
use crate::domain::task::{
    Completed, Failed, LateReportRecorded, Parked, ParkedBecause, Prepared, ProcessExited, Queued, TaskEvent,
    Trigger, UsageRecorded, WorkPlace, failure,
};
use crate::kernel::ids::TaskId;

pub(super) fn task(w: &mut Writer<'_>, actor: &str, id: TaskId, event: &TaskEvent) -> String {
    if let TaskEvent::Queued(e) = event {
        return queued(w, actor, id, e);
    }
    let task = w.task(id);
    match event {
        TaskEvent::Queued(_) => task,
        TaskEvent::Claimed(e) => {
            let daemon = w.daemon(&e.daemon);
            let nth =
                if e.generation > 1 { format!(" ({} claim)", ordinal(e.generation)) } else { String::new() };
            format!("{daemon} claimed {task}{nth}")
        }
        TaskEvent::ClaimReceived(_) => format!("{actor} confirmed that it has {task}"),
        TaskEvent::ClaimReleased(e) => format!("{task} is back in the queue: {}", released(&e.reason)),
        TaskEvent::DirectoryEntered(e) => {
            let directory = w.directory(e.directory, Some(&e.label));
            format!("{task} got {directory}, which was free")
        }
        TaskEvent::Parked(e) => parked(w, actor, &task, e),
        TaskEvent::Promoted(e) => {
            let directory = w.directory(e.directory, None);
            let daemon = w.daemon(&e.daemon);
            format!("{task} was promoted: {directory} is its own now, and {daemon} is told to go on")
        }
        TaskEvent::PrepareFailed(e) => format!("{actor} could not get {task} ready: {}", reason(&e.reason)),
        TaskEvent::Prepared(e) => prepared(actor, &task, e),
        TaskEvent::Started(_) => format!("{actor} started {task}"),
        TaskEvent::ProcessStarted(e) => format!("{task} runs {} as process {}", e.program, e.pid),
        TaskEvent::SessionPinned(_) => format!("{task} has a session that a later run can go on with"),
        TaskEvent::UsageRecorded(e) => usage(&task, e),
        TaskEvent::CancelRequested(e) => match e.generation {
            Some(_) => format!("{actor} asked to stop {task}; its machine is told"),
            None => format!("{actor} asked to stop {task}; no machine is at work for it"),
        },
        TaskEvent::Cancelled(e) => match &e.reason {
            Some(code) => format!("{actor} cancelled {task}: {}", reason(code)),
            None => format!("{actor} cancelled {task}"),
        },
        TaskEvent::CancelReceived(_) => format!("{actor} is stopping {task}"),
        TaskEvent::ProcessExited(e) => exited(&task, e),
        TaskEvent::Finalized(_) => format!("{actor} put the place where {task} worked in order"),
        TaskEvent::SidecarsLeft(e) => format!(
            "{task} left {} behind that could not be removed",
            count(e.paths.len(), "context file", "context files")
        ),
        TaskEvent::SidecarsRemoved(e) => format!(
            "{task} removed {} that an earlier run had left",
            count(e.paths.len(), "context file", "context files")
        ),
        TaskEvent::CancelAcknowledged(e) => match &e.reason {
            Some(code) => {
                format!("{actor} is done with {task}, which was over, but not well: {}", reason(code))
            }
            None => format!("{actor} is done with {task}, which was over"),
        },
        TaskEvent::Completed(e) => completed(w, &task, e),
        TaskEvent::Failed(e) => failed(w, &task, e),
        TaskEvent::Retried(e) => {
            let by = w.task(e.by);
            format!("{by} was queued in place of {task}")
        }
        TaskEvent::LateReportRecorded(e) => late(actor, &task, e),
    }
}

fn queued(w: &mut Writer<'_>, actor: &str, id: TaskId, e: &Queued) -> String {
    let name = format!("{}#{}", e.issue_key, e.run);
    let task = w.link("task", id.to_string(), Some(name));
    let agent = w.link("agent", e.agent.to_string(), Some(e.agent_name.clone()));
    let why = match &e.trigger {
        Trigger::Assignment => {
            let issue = w.link("issue", e.issue.to_string(), Some(e.issue_key.clone()));
            format!("{issue} is assigned to it")
        }
        Trigger::Comment { .. } => "somebody commented".to_owned(),
        Trigger::Rerun { of } => {
            let of = w.task(*of);
            format!("another run after {of} was asked for")
        }
        Trigger::Retry { of, reason: code } => {
            let of = w.task(*of);
            format!("{of} failed ({}), try {} of {}", reason(code), e.attempt, e.max_attempts)
        }
    };
    format!("{actor} queued {task} for {agent}: {why}")
}

fn released(code: &str) -> String {
    match code {
        "no_receipt" => "its daemon didn't confirm the claim in time".to_owned(),
        "undelivered" => "the claim could not be delivered".to_owned(),
        "returned" => "its daemon gave it back".to_owned(),
        "superseded" => "its daemon was started anew".to_owned(),
        other => other.to_owned(),
    }
}

fn parked(w: &mut Writer<'_>, actor: &str, task: &str, e: &Parked) -> String {
    let directory = w.directory(e.directory, Some(&e.label));
    let place = if e.place > 0 { format!(", {} in line", ordinal(e.place)) } else { String::new() };
    match e.because {
        ParkedBecause::Held => match e.holder {
            Some(holder) => {
                let holder = w.task(holder);
                format!("{actor} parked {task}: {directory} is held by {holder}{place}")
            }
            None => format!("{actor} parked {task}: others wait for {directory} before it{place}"),
        },
        ParkedBecause::ForeignLock => {
            format!("{actor} parked {task}: {directory} is its own, but somebody else has locked it")
        }
        ParkedBecause::PromotionUnanswered => {
            format!("{task} is parked again{place}: its daemon didn't answer that {directory} is free")
        }
    }
}

fn prepared(actor: &str, task: &str, e: &Prepared) -> String {
    let place = match e.place {
        WorkPlace::InPlace => "in the attached directory itself",
        WorkPlace::Managed => "in a directory of its own",
    };
    match e.git.as_ref().filter(|git| git.changed_paths > 0) {
        Some(git) => {
            let more = if git.more { "more than " } else { "" };
            let paths = count(git.changed_paths as usize, "changed path", "changed paths");
            format!("{actor} got {task} ready {place}, which had {more}{paths}")
        }
        None => format!("{actor} got {task} ready {place}"),
    }
}

fn usage(task: &str, e: &UsageRecorded) -> String {
    let input: u64 = e.usage.iter().map(|usage| usage.input_tokens).sum();
    let output: u64 = e.usage.iter().map(|usage| usage.output_tokens).sum();
    format!("{task} used {input} tokens in and {output} out so far")
}

fn exited(task: &str, e: &ProcessExited) -> String {
    let how = match (e.code, e.signal) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => "in a way that isn't known".to_owned(),
    };
    let killed = match e.killed {
        0 => String::new(),
        n => format!("; {} had to be killed", count(n as usize, "further process", "further processes")),
    };
    format!("the processes of {task} have ended {how}{killed}")
}

fn completed(w: &Writer<'_>, task: &str, e: &Completed) -> String {
    match &e.output {
        Some(output) if output.bytes > 0 => format!("{task} is completed: {}", w.quoted(output)),
        _ => format!("{task} is completed"),
    }
}

fn failed(w: &Writer<'_>, task: &str, e: &Failed) -> String {
    match &e.detail {
        Some(detail) if detail.bytes > 0 => {
            format!("{task} failed: {} ({})", reason(&e.reason), w.quoted(detail))
        }
        _ => format!("{task} failed: {}", reason(&e.reason)),
    }
}

fn late(actor: &str, task: &str, e: &LateReportRecorded) -> String {
    let said = match e.kind.as_str() {
        "complete" => "that it is completed",
        "fail" => "that it failed",
        "start" => "that it started",
        _ => "something",
    };
    format!("{actor} reported {said} of {task}, which was over; the outcome stays")
}

/// A failure reason in words; a code that isn't known stays as it is.
fn reason(code: &str) -> String {
    failure::find(code).map_or_else(|| code.to_owned(), |known| known.sentence.to_owned())
}
