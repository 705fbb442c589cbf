//! The API's answers as the facts that pages show.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::http::error::ApiError;
use crate::kernel::ids::{IssueId, TaskId};
use crate::web::view::{
    DirectoryCard, Explanation, MessageRow, Occupant, ProjectCard, ResourceRow, StrandedRow, TaskPage,
    TaskRow,
};
use crate::wire::api;

/// A text; empty when it is none.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn some(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned)
}

/// A task that waits unusually long.
pub fn stranded_row(one: api::Stranded) -> StrandedRow {
    let explained = one.explanation;
    StrandedRow {
        id: explained.task_id.to_string(),
        name: explained.name,
        status: explained.status,
        since: Some(one.since),
        because: explained.causes.last().map_or(explained.sentence, |cause| cause.sentence.clone()),
    }
}

/// A task as lists show it.
pub fn task_row(task: &api::Task, titles: &BTreeMap<IssueId, String>) -> TaskRow {
    let since = match task.status.as_str() {
        "queued" | "deferred" => task.queued_at,
        "dispatched" => task.dispatched_at,
        "waiting_local_directory" => task.parked_at,
        "running" => task.started_at,
        _ => task.completed_at,
    };
    let waits_for = task.waiting.as_ref().map(|waiting| match (&waiting.holder_name, &waiting.locked_by) {
        (Some(holder), _) => format!("waits for {}, which {holder} has", waiting.label),
        (None, Some(lock)) => format!("waits for {}, which {lock} has locked", waiting.label),
        (None, None) => format!("waits for {}", waiting.label),
    });
    let sentence = task.failure.as_ref().map(|failure| failure.sentence.clone());
    TaskRow {
        id: task.id.to_string(),
        name: task.name.clone(),
        title: titles.get(&task.issue_id).cloned().unwrap_or_default(),
        agent: task.agent_name.clone(),
        provider: task.provider.clone(),
        since,
        waits_for,
        failure: sentence.or_else(|| task.failure_reason.clone()),
        status: task.status.clone(),
    }
}

/// A task with everything about it.
///
/// # Errors
/// An answer that isn't what it should be.
pub fn task_page(
    task: api::Task,
    titles: &BTreeMap<IssueId, String>,
    explanation: api::Explanation,
    history: &Value,
    messages: &[api::Message],
    left_out: usize,
    machines: &BTreeMap<String, String>,
) -> Result<TaskPage, ApiError> {
    let row = task_row(&task, titles);
    let can_cancel = !matches!(row.status.as_str(), "completed" | "failed" | "cancelled");
    Ok(TaskPage {
        facts: facts(&task, machines),
        issue_key: task.issue_key,
        explanation: Explanation {
            sentence: explanation.sentence,
            ends_when: explanation.ends_when.unwrap_or_default(),
            causes: explanation.causes.into_iter().map(|cause| (cause.sentence, cause.since)).collect(),
            until: explanation.until,
            detail: explanation.detail.clone().filter(|detail| !detail.is_empty()),
            advice: explanation.advice,
            commands: explanation.commands,
        },
        output: task.result.map(|result| result.output).filter(|output| !output.is_empty()),
        detail: beyond(task.error, explanation.detail.as_deref()),
        history: serde_json::from_value(history["entries"].clone())?,
        transcript: messages.iter().map(message).collect(),
        transcript_gone: task.transcript_gone.map(|gone| gone.sentence),
        transcript_left_out: left_out as u64,
        can_cancel,
        row,
    })
}

/// An error that the excerpt doesn't show whole already: nothing is shown twice.
fn beyond(error: Option<String>, excerpt: Option<&str>) -> Option<String> {
    error.filter(|error| !error.trim().is_empty() && Some(error.trim()) != excerpt)
}

fn facts(task: &api::Task, machines: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let named = [
        ("Task", Some(task.id.to_string())),
        ("Machine", Some(machine(&task.daemon_id, machines))),
        ("Branch", task.branch_name.clone()),
        ("Session", task.session_id.clone()),
        ("Failure", task.failure_reason.clone()),
        ("Attempt", Some(format!("{} of {}", task.attempt, task.max_attempts))),
    ];
    let some = |(label, value): (&str, Option<String>)| {
        Some((label.to_owned(), value.filter(|value| !value.is_empty())?))
    };
    let mut facts: Vec<(String, String)> = named.into_iter().filter_map(some).collect();
    for used in &task.usage {
        let value = format!(
            "{}: {} tokens read ({} from cache), {} written",
            used.model, used.input_tokens, used.cache_read_tokens, used.output_tokens,
        );
        facts.push(("Usage".to_owned(), value));
    }
    facts
}

fn message(message: &api::Message) -> MessageRow {
    let said = &message.said;
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let content = filled(&said.content).or_else(|| filled(&said.output));
    let input = said.input.as_ref().map(Value::to_string);
    MessageRow {
        seq: said.seq,
        tool: filled(&said.tool),
        text: content.or(input).unwrap_or_default(),
        stderr: said.stderr,
        kind: said.kind.clone(),
    }
}

/// A directory with its queue.
pub fn directory_card(
    directory: &api::Directory,
    machines: &BTreeMap<String, String>,
    agents: &BTreeMap<TaskId, String>,
) -> DirectoryCard {
    let occupant = |task: TaskId, name: &Option<String>, since| Occupant {
        name: name.clone().unwrap_or_default(),
        agent: agents.get(&task).cloned().unwrap_or_default(),
        since,
        task: task.to_string(),
    };
    let holder = directory.holder.as_ref();
    let blocked =
        holder.and_then(|holder| holder.blocked.as_ref()).map(|lock| format!("{} has locked it", lock.by));
    DirectoryCard {
        id: directory.id.to_string(),
        label: directory.label.clone(),
        path: directory.path.clone(),
        machine: directory.daemon_id.as_ref().map(|id| machine(id, machines)).unwrap_or_default(),
        holder: holder.map(|holder| occupant(holder.task_id, &holder.name, holder.since)),
        blocked,
        queue: directory.queue.iter().map(|next| occupant(next.task_id, &next.name, next.since)).collect(),
        stopping: directory
            .stopping
            .iter()
            .map(|run| occupant(run.task_id, &Some(run.name.clone()), run.since))
            .collect(),
    }
}

fn machine(daemon: &str, machines: &BTreeMap<String, String>) -> String {
    machines.get(daemon).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| daemon.to_owned())
}

/// A project with its resources.
pub fn project_card(
    project: api::Project,
    resources: &[api::Resource],
    machines: &BTreeMap<String, String>,
) -> ProjectCard {
    ProjectCard {
        id: project.id.to_string(),
        title: project.title,
        status: project.status,
        resources: resources.iter().map(|resource| resource_row(resource, machines)).collect(),
    }
}

fn resource_row(resource: &api::Resource, machines: &BTreeMap<String, String>) -> ResourceRow {
    let said = |key: &str| resource.resource_ref.get(key).and_then(some);
    let place = said("local_path")
        .or_else(|| said("url"))
        .unwrap_or_else(|| Value::Object(resource.resource_ref.clone()).to_string());
    let last = place.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    let directory = resource.resource_type == "local_directory";
    ResourceRow {
        label: resource.label.clone().filter(|label| !label.is_empty()).unwrap_or(last),
        mode: directory.then(|| said("execution_mode").unwrap_or_else(|| "in_place".to_owned())),
        machine: said("daemon_id").map(|id| machine(&id, machines)),
        verified: resource.verified,
        kind: resource.resource_type.clone(),
        place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_shown_whole_where_its_excerpt_is_not_all_of_it() {
        let beyond = |error: &str, excerpt| beyond(Some(error.to_owned()), excerpt);
        assert_eq!(beyond("one\ntwo", Some("two")).as_deref(), Some("one\ntwo"));
        assert_eq!(beyond("two\n", Some("two")), None);
        assert_eq!(beyond("two", None).as_deref(), Some("two"));
        assert_eq!(beyond(" \n", None), None);
        assert_eq!(super::beyond(None, Some("two")), None);
    }
}
