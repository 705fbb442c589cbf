//! Claude Code: `claude -p` with a stream of JSON lines.
//!
//! Seen with 2.1.197: the prompt is read from standard input; a session resumes only in the directory
//! it began in; after TERM it stops its tool, may still say `success` and exits 143; a command left in
//! the background is stopped a few seconds after the last word, and said so.

use std::collections::BTreeMap;

use serde_json::Value;

use super::arguments::{self, Reserved, Takes};
use super::classify;
use super::launch::{self, Launch, LaunchRefusal, LaunchRequest};
use super::reading::{Exit, Line, MessageKind, Outcome, Reader, ReaderSetup, Signal};
use super::record::{Record, Verdict, count_at, text_at, ticks};
use crate::domain::task::Usage;
use crate::kernel::limits::Limits;

const PROVIDER: &str = "claude";

/// How the CLI says that the session asked for isn't there.
const REJECTION: &str = "No conversation found with session ID";

const RESERVED: &[Reserved] = &[
    Reserved(&["-p", "--print"], Takes::Nothing),
    Reserved(&["--output-format"], Takes::One),
    Reserved(&["--input-format"], Takes::One),
    Reserved(&["--include-partial-messages", "--replay-user-messages"], Takes::Nothing),
    Reserved(&["--permission-mode", "--permission-prompt-tool"], Takes::One),
    Reserved(&["--dangerously-skip-permissions", "--allow-dangerously-skip-permissions"], Takes::Nothing),
    Reserved(&["-r", "--resume"], Takes::Maybe),
    Reserved(&["-c", "--continue", "--fork-session", "--no-session-persistence"], Takes::Nothing),
    Reserved(&["--from-pr", "--remote-control"], Takes::Maybe),
    Reserved(&["--session-id"], Takes::One),
    Reserved(&["-w", "--worktree", "--tmux"], Takes::Maybe),
    Reserved(&["--bg", "--background"], Takes::Nothing),
    Reserved(&["-h", "--help", "-v", "--version"], Takes::Nothing),
];

/// How to start it.
pub(super) fn launch(request: &LaunchRequest<'_>, limits: &Limits) -> Result<Launch, LaunchRefusal> {
    let stdin = launch::prompt_on_stdin(request)?;
    let mut arguments: Vec<String> = [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "bypassPermissions",
        // Nobody is there to answer.
        "--disallowedTools",
        "AskUserQuestion",
    ]
    .map(str::to_owned)
    .to_vec();
    if let Some(model) = request.model {
        arguments.extend(["--model".to_owned(), launch::flag_value("model", model)?]);
    }
    if let Some(session) = request.resume_session {
        arguments.extend(["--resume".to_owned(), launch::flag_value("session", session)?]);
    }
    let custom = arguments::sort(request, RESERVED);
    arguments.extend(custom.kept);
    // Without this it refuses to skip its questions as root.
    let root = request.running_as_root.then(|| ("IS_SANDBOX".to_owned(), "1".to_owned()));
    let launch = Launch {
        program: request.program.unwrap_or("claude").to_owned(),
        arguments,
        environment: root.into_iter().collect(),
        stdin,
        removed_arguments: custom.removed,
    };
    launch::checked(launch, limits)
}

/// Reads its output.
pub(super) struct ClaudeReader {
    record: Record,
    verdict: Option<Verdict>,
    /// The kind of the last error that it said instead of an answer.
    error_kind: Option<String>,
    model: String,
    /// By message, because a message comes in several lines that repeat its usage.
    seen: Option<(String, Usage)>,
    so_far: BTreeMap<String, Usage>,
    totals: Option<Vec<Usage>>,
    /// Commands in the background that it stopped itself after its last word.
    left_behind: Vec<String>,
    background: BTreeMap<String, String>,
    most_background: usize,
}

impl ClaudeReader {
    pub(super) fn new(setup: &ReaderSetup, limits: &Limits) -> Self {
        Self {
            record: Record::new(limits),
            verdict: None,
            error_kind: None,
            model: setup.model.clone().unwrap_or_else(|| "default".to_owned()),
            seen: None,
            so_far: BTreeMap::new(),
            totals: None,
            left_behind: Vec::new(),
            background: BTreeMap::new(),
            most_background: limits.open_tool_calls,
        }
    }

    fn system(&mut self, line: &Value) -> Vec<Signal> {
        match text_at(line, "/subtype") {
            "init" => {
                let model = text_at(line, "/model");
                if !model.is_empty() {
                    model.clone_into(&mut self.model);
                }
                self.record.session(text_at(line, "/session_id")).into_iter().collect()
            }
            "task_started" => {
                if self.background.len() < self.most_background {
                    let name = text_at(line, "/description").to_owned();
                    self.background.insert(text_at(line, "/task_id").to_owned(), name);
                }
                Vec::new()
            }
            "task_notification" => {
                let left = self.background.remove(text_at(line, "/task_id"));
                if let (Some(name), Some(_), "stopped") = (left, &self.verdict, text_at(line, "/status")) {
                    self.left_behind.push(name);
                }
                Vec::new()
            }
            "api_retry" => {
                let words = format!(
                    "the model's service refused: {} (status {}); try {} of {}",
                    text_at(line, "/error"),
                    count_at(line, "/error_status"),
                    count_at(line, "/attempt"),
                    count_at(line, "/max_retries"),
                );
                vec![self.record.error(&words)]
            }
            _ => Vec::new(),
        }
    }

    fn assistant(&mut self, line: &Value) -> Vec<Signal> {
        // It goes on, so whatever it said before wasn't its last word.
        self.verdict = None;
        self.left_behind.clear();
        self.count(line);
        self.error_kind = line.get("error").and_then(Value::as_str).map(str::to_owned);
        let blocks = line.pointer("/message/content").and_then(Value::as_array);
        blocks.into_iter().flatten().filter_map(|block| self.said(block)).collect()
    }

    fn said(&mut self, block: &Value) -> Option<Signal> {
        match text_at(block, "/type") {
            "text" if self.error_kind.is_some() => Some(self.record.error(text_at(block, "/text"))),
            "text" => Some(self.record.words(MessageKind::Text, text_at(block, "/text"))),
            "thinking" => Some(self.record.words(MessageKind::Thinking, text_at(block, "/thinking"))),
            "tool_use" => {
                let input = block.get("input").unwrap_or(&Value::Null);
                Some(self.record.tool_use(text_at(block, "/id"), text_at(block, "/name"), input))
            }
            _ => None,
        }
    }

    fn user(&mut self, line: &Value) -> Vec<Signal> {
        let blocks = line.pointer("/message/content").and_then(Value::as_array);
        blocks
            .into_iter()
            .flatten()
            .filter(|block| text_at(block, "/type") == "tool_result")
            .map(|block| self.record.tool_result(text_at(block, "/tool_use_id"), None, &result_words(block)))
            .collect()
    }

    fn result(&mut self, line: &Value) -> Vec<Signal> {
        let subtype = text_at(line, "/subtype");
        let failed = line.get("is_error").and_then(Value::as_bool).unwrap_or(true) || subtype != "success";
        let words = last_words(line);
        self.verdict =
            Some(if failed { self.failure(line, subtype, &words) } else { Verdict::Success(words) });
        let totals = totals(line);
        if totals.is_empty() {
            return Vec::new();
        }
        self.totals = Some(totals.clone());
        vec![Signal::Usage(totals)]
    }

    fn failure(&self, line: &Value, subtype: &str, words: &str) -> Verdict {
        let status = line.get("api_error_status").and_then(Value::as_u64);
        let reason = match subtype {
            "error_max_turns" => "iteration_limit",
            "error_max_budget_usd" => "agent_error.provider_quota_limit",
            _ => classify::reason(status, words)
                .or_else(|| self.error_kind.as_deref().and_then(by_kind))
                .unwrap_or("agent_error.unknown"),
        };
        let words = if words.is_empty() { subtype } else { words };
        match self.record.failure(reason, words) {
            Verdict::Failure { reason, detail, .. } => {
                Verdict::Failure { reason, session_rejected: words.contains(REJECTION), detail }
            }
            success @ Verdict::Success(_) => success,
        }
    }

    fn count(&mut self, line: &Value) {
        let (id, model) = (text_at(line, "/message/id"), text_at(line, "/message/model"));
        if model == "<synthetic>" || id.is_empty() {
            return;
        }
        let model = if model.is_empty() { &self.model } else { model };
        let usage = Usage {
            provider: PROVIDER.to_owned(),
            model: model.to_owned(),
            input_tokens: count_at(line, "/message/usage/input_tokens"),
            output_tokens: count_at(line, "/message/usage/output_tokens"),
            cache_read_tokens: count_at(line, "/message/usage/cache_read_input_tokens"),
            cache_write_tokens: count_at(line, "/message/usage/cache_creation_input_tokens"),
            cost_usd_ticks: None,
        };
        if let Some((before, last)) = self.seen.replace((id.to_owned(), usage))
            && before != id
        {
            add(&mut self.so_far, &last);
        }
    }
}

fn add(sums: &mut BTreeMap<String, Usage>, usage: &Usage) {
    let Some(sum) = sums.get_mut(&usage.model) else {
        sums.insert(usage.model.clone(), usage.clone());
        return;
    };
    sum.input_tokens = sum.input_tokens.saturating_add(usage.input_tokens);
    sum.output_tokens = sum.output_tokens.saturating_add(usage.output_tokens);
    sum.cache_read_tokens = sum.cache_read_tokens.saturating_add(usage.cache_read_tokens);
    sum.cache_write_tokens = sum.cache_write_tokens.saturating_add(usage.cache_write_tokens);
}

/// What a tool answered: a text, or blocks of which the texts count.
fn result_words(block: &Value) -> String {
    match block.get("content") {
        Some(Value::String(words)) => words.clone(),
        Some(Value::Array(parts)) => parts
            .iter()
            .map(|part| match text_at(part, "/type") {
                "text" => text_at(part, "/text").to_owned(),
                other => format!("[{other}]"),
            })
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}

fn last_words(line: &Value) -> String {
    if let Some(words) = line.get("result").and_then(Value::as_str) {
        return words.to_owned();
    }
    let errors = line.get("errors").and_then(Value::as_array);
    errors.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

fn totals(line: &Value) -> Vec<Usage> {
    let models = line.get("modelUsage").and_then(Value::as_object);
    models
        .into_iter()
        .flatten()
        .map(|(model, used)| Usage {
            provider: PROVIDER.to_owned(),
            model: model.clone(),
            input_tokens: count_at(used, "/inputTokens"),
            output_tokens: count_at(used, "/outputTokens"),
            cache_read_tokens: count_at(used, "/cacheReadInputTokens"),
            cache_write_tokens: count_at(used, "/cacheCreationInputTokens"),
            cost_usd_ticks: ticks(used.get("costUSD").and_then(Value::as_f64)),
        })
        .collect()
}

/// The reason of an error that the CLI named by its kind.
fn by_kind(kind: &str) -> Option<&'static str> {
    match kind {
        "authentication_failed" | "oauth_org_not_allowed" => Some("agent_error.provider_auth_or_access"),
        "billing_error" => Some("agent_error.provider_quota_limit"),
        "rate_limit" | "overloaded" => Some("agent_error.provider_capacity_or_rate_limit"),
        "model_not_found" => Some("agent_error.model_not_found_or_unavailable"),
        "invalid_request" => Some("api_invalid_request"),
        "server_error" => Some("agent_error.provider_server_error"),
        _ => None,
    }
}

impl Reader for ClaudeReader {
    fn stdout_line(&mut self, line: Line<'_>) -> Vec<Signal> {
        let (kind, line) = match self.record.object(line) {
            Ok(object) => object,
            Err(signals) => return signals,
        };
        match kind.as_str() {
            "system" => self.system(&line),
            "assistant" => self.assistant(&line),
            "user" => self.user(&line),
            "result" => self.result(&line),
            _ => Vec::new(),
        }
    }

    fn stderr_line(&mut self, line: Line<'_>) -> Vec<Signal> {
        self.record.plain_stderr_line(line)
    }

    fn open_tools(&self) -> &BTreeMap<String, String> {
        self.record.open_tools()
    }

    fn tools_used(&self) -> bool {
        self.record.tools_used()
    }

    fn usage(&self) -> Vec<Usage> {
        if let Some(totals) = &self.totals {
            return totals.clone();
        }
        let mut sums = self.so_far.clone();
        if let Some((_, last)) = &self.seen {
            add(&mut sums, last);
        }
        sums.into_values().collect()
    }

    fn finish(self: Box<Self>, exit: Exit) -> Outcome {
        let left_behind = self.left_behind.join(", ");
        let verdict = match self.verdict {
            Some(Verdict::Success(_)) if !left_behind.is_empty() && exit == Exit::Code(0) => {
                Some(self.record.failure(
                    "agent_error.unknown",
                    &format!("it ended while what it had started in the background still ran: {left_behind}"),
                ))
            }
            verdict => verdict,
        };
        self.record.conclude(verdict, exit, REJECTION)
    }
}
