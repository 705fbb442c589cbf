//! The API's answers as the facts that pages show.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::domain::task::failure;
use crate::http::error::ApiError;
use crate::web::view::{
    DirectoryCard, Explanation, MessageRow, Occupant, ProjectCard, ResourceRow, TaskPage, TaskRow,
};

/// A text; empty when it is none.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// An array's items; none when it is none.
pub fn items(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn some(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned)
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// A task as lists show it.
pub fn task_row(task: &Value, titles: &BTreeMap<String, String>) -> TaskRow {
    let status = text(&task["status"]);
    let since = match status.as_str() {
        "queued" | "deferred" => &task["queued_at"],
        "dispatched" => &task["dispatched_at"],
        "waiting_local_directory" => &task["parked_at"],
        "running" => &task["started_at"],
        _ => &task["completed_at"],
    };
    let waiting = &task["waiting"];
    let waits_for = waiting["label"].as_str().map(|label| match waiting["holder_name"].as_str() {
        Some(holder) => format!("waits for {label}, which {holder} has"),
        None => format!("waits for {label}"),
    });
    let reason = task["failure_reason"].as_str();
    let failure = reason.map(|code| failure::find(code).map_or(code, |reason| reason.sentence).to_owned());
    TaskRow {
        id: text(&task["id"]),
        name: text(&task["name"]),
        title: task["issue_id"].as_str().and_then(|id| titles.get(id)).cloned().unwrap_or_default(),
        agent: text(&task["agent_name"]),
        provider: text(&task["provider"]),
        since: time(since),
        waits_for,
        failure,
        status,
    }
}

/// A task with everything about it.
///
/// # Errors
/// An answer that isn't what it should be.
pub fn task_page(
    task: &Value,
    titles: &BTreeMap<String, String>,
    explanation: &Value,
    history: &Value,
    messages: &[Value],
    left_out: usize,
    machines: &BTreeMap<String, String>,
) -> Result<TaskPage, ApiError> {
    let row = task_row(task, titles);
    let can_cancel = !matches!(row.status.as_str(), "completed" | "failed" | "cancelled");
    Ok(TaskPage {
        issue_key: text(&task["issue_key"]),
        explanation: Explanation {
            sentence: text(&explanation["sentence"]),
            ends_when: text(&explanation["ends_when"]),
            causes: items(&explanation["causes"]).iter().map(|cause| text(&cause["sentence"])).collect(),
            commands: items(&explanation["commands"]).iter().map(text).collect(),
        },
        facts: facts(task, machines),
        output: some(&task["result"]["output"]),
        detail: some(&task["error"]),
        history: serde_json::from_value(history["entries"].clone())?,
        transcript: messages.iter().map(message).collect(),
        transcript_left_out: left_out as u64,
        can_cancel,
        row,
    })
}

fn facts(task: &Value, machines: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let on = machine(&task["daemon_id"], machines).map(Value::from).unwrap_or_default();
    let named = [
        ("Task", &task["id"]),
        ("Machine", &on),
        ("Work directory", &task["relative_work_dir"]),
        ("Branch", &task["branch_name"]),
        ("Session", &task["session_id"]),
        ("Failure", &task["failure_reason"]),
    ];
    let mut facts: Vec<(String, String)> =
        named.into_iter().filter_map(|(label, value)| Some((label.to_owned(), some(value)?))).collect();
    facts.push(("Attempt".to_owned(), format!("{} of {}", task["attempt"], task["max_attempts"])));
    for used in items(&task["usage"]) {
        let value = format!(
            "{}: {} tokens read ({} from cache), {} written",
            text(&used["model"]),
            used["input_tokens"],
            used["cache_read_tokens"],
            used["output_tokens"],
        );
        facts.push(("Usage".to_owned(), value));
    }
    facts
}

fn message(message: &Value) -> MessageRow {
    let kind = text(&message["type"]);
    let content = some(&message["content"]).or_else(|| some(&message["output"]));
    let input = (!message["input"].is_null()).then(|| message["input"].to_string());
    MessageRow {
        seq: message["seq"].as_i64().unwrap_or_default(),
        tool: some(&message["tool"]),
        text: content.or(input).unwrap_or_default(),
        stderr: message["stderr"].as_bool().unwrap_or_default(),
        kind,
    }
}

/// A directory with its queue.
pub fn directory_card(
    directory: &Value,
    machines: &BTreeMap<String, String>,
    agents: &BTreeMap<String, String>,
) -> DirectoryCard {
    let occupant = |value: &Value| {
        let task = text(&value["task_id"]);
        Occupant {
            name: text(&value["name"]),
            agent: agents.get(&task).cloned().unwrap_or_default(),
            since: time(&value["since"]),
            task,
        }
    };
    let holder = Some(&directory["holder"]).filter(|holder| !holder.is_null());
    let blocked =
        holder.map(|holder| &holder["blocked"]).filter(|blocked| !blocked.is_null()).map(|blocked| {
            match (blocked["program"].as_str(), blocked["pid"].as_u64()) {
                (Some(program), Some(pid)) => format!("{program} (process {pid}) has locked it"),
                _ => "another process has locked it".to_owned(),
            }
        });
    DirectoryCard {
        id: text(&directory["id"]),
        label: text(&directory["label"]),
        path: some(&directory["path"]),
        machine: machine(&directory["daemon_id"], machines).unwrap_or_default(),
        holder: holder.map(occupant),
        blocked,
        queue: items(&directory["queue"]).iter().map(occupant).collect(),
    }
}

fn machine(daemon: &Value, machines: &BTreeMap<String, String>) -> Option<String> {
    let daemon = daemon.as_str()?;
    Some(machines.get(daemon).filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| daemon.to_owned()))
}

/// A project with its resources.
pub fn project_card(
    project: &Value,
    resources: &[Value],
    machines: &BTreeMap<String, String>,
) -> ProjectCard {
    ProjectCard {
        id: text(&project["id"]),
        title: text(&project["title"]),
        status: text(&project["status"]),
        resources: resources.iter().map(|resource| resource_row(resource, machines)).collect(),
    }
}

fn resource_row(resource: &Value, machines: &BTreeMap<String, String>) -> ResourceRow {
    let kind = text(&resource["resource_type"]);
    let reference = &resource["resource_ref"];
    let place = some(&reference["local_path"])
        .or_else(|| some(&reference["url"]))
        .unwrap_or_else(|| reference.to_string());
    let last = place.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
    let directory = kind == "local_directory";
    ResourceRow {
        label: some(&resource["label"]).unwrap_or(last),
        mode: directory.then(|| some(&reference["execution_mode"]).unwrap_or_else(|| "in_place".to_owned())),
        machine: machine(&reference["daemon_id"], machines),
        verified: resource["verified"].as_bool().unwrap_or_default(),
        place,
        kind,
    }
}
