//! Codex: `codex exec --json` with a stream of JSON lines.
//!
//! Seen with 0.171.0: the prompt is read from standard input where `-` stands for it, resumed or not;
//! a session that isn't there is said on standard error only; the usage of a resumed session counts
//! the whole session; an `item` of type `error` is a warning, a line of type `error` a try that failed;
//! its shell is a login shell, whose profile takes our own directory out of the PATH, unless told otherwise.

use std::collections::BTreeMap;

use serde_json::Value;

use super::arguments::{self, Reserved, Takes};
use super::classify;
use super::launch::{self, Launch, LaunchRefusal, LaunchRequest};
use super::reading::{Exit, Line, MessageKind, Outcome, Reader, ReaderSetup, Signal};
use super::record::{Record, Verdict, count_at, text_at};
use crate::domain::task::Usage;
use crate::kernel::limits::Limits;

const PROVIDER: &str = "codex";

/// How the CLI says that the session asked for isn't there.
const REJECTION: &str = "no rollout found for thread id";

/// So that its shell finds `multica` where the run's PATH has it. Custom arguments may say otherwise.
const NO_LOGIN_SHELL: &str = "--config=allow_login_shell=false";

const RESERVED: &[Reserved] = &[
    Reserved(&["--json", "--experimental-json", "--skip-git-repo-check"], Takes::Nothing),
    Reserved(&["--dangerously-bypass-approvals-and-sandbox", "--yolo", "--full-auto"], Takes::Nothing),
    Reserved(&["--approve-for-me", "--ephemeral", "--last", "--all"], Takes::Nothing),
    Reserved(&["-s", "--sandbox", "-a", "--ask-for-approval", "-C", "--cd"], Takes::One),
    Reserved(&["--remote", "--remote-auth-token-env"], Takes::One),
    Reserved(&["-h", "--help", "-V", "--version"], Takes::Nothing),
];

/// How to start it.
pub(super) fn launch(request: &LaunchRequest<'_>, limits: &Limits) -> Result<Launch, LaunchRefusal> {
    let stdin = launch::prompt_on_stdin(request)?;
    let custom = arguments::sort(request, RESERVED);
    let mut arguments = vec!["exec".to_owned(), NO_LOGIN_SHELL.to_owned()];
    // Before ours: a flag with many values would otherwise swallow the prompt's place.
    arguments.extend(custom.kept);
    arguments.extend(["--json", "--skip-git-repo-check"].map(str::to_owned));
    if let Some(model) = request.model {
        arguments.extend(["--model".to_owned(), launch::flag_value("model", model)?]);
    }
    arguments.push("--dangerously-bypass-approvals-and-sandbox".to_owned());
    if let Some(session) = request.resume_session {
        arguments.extend(["resume".to_owned(), launch::flag_value("session", session)?]);
    }
    arguments.push("-".to_owned());
    let launch = Launch {
        program: request.program.unwrap_or("codex").to_owned(),
        arguments,
        environment: Vec::new(),
        stdin,
        removed_arguments: custom.removed,
    };
    launch::checked(launch, limits)
}

/// Reads its output.
pub(super) struct CodexReader {
    record: Record,
    verdict: Option<Verdict>,
    model: String,
    before: Vec<Usage>,
    last_words: String,
    usage: Vec<Usage>,
}

impl CodexReader {
    pub(super) fn new(setup: &ReaderSetup, limits: &Limits) -> Self {
        Self {
            record: Record::new(limits),
            verdict: None,
            model: setup.model.clone().unwrap_or_else(|| "default".to_owned()),
            before: setup.session_usage.clone(),
            last_words: String::new(),
            usage: Vec::new(),
        }
    }

    fn item(&mut self, event: &str, item: &Value) -> Option<Signal> {
        let id = text_at(item, "/id");
        match (text_at(item, "/type"), event) {
            ("agent_message", "item.completed") => {
                text_at(item, "/text").clone_into(&mut self.last_words);
                Some(self.record.words(MessageKind::Text, text_at(item, "/text")))
            }
            ("reasoning", "item.completed") => {
                Some(self.record.words(MessageKind::Thinking, text_at(item, "/text")))
            }
            // It goes on after such an error.
            ("error", "item.completed") => {
                Some(self.record.words(MessageKind::Error, text_at(item, "/message")))
            }
            ("todo_list", "item.started" | "item.updated") => {
                Some(self.record.tool_note(id, "todo_list", item.get("items").unwrap_or(&Value::Null)))
            }
            ("agent_message" | "reasoning" | "error" | "todo_list", _) => None,
            (_, "item.started") => Some(self.record.tool_use(id, &tool(item), &input(item))),
            (_, "item.completed") => Some(self.record.tool_result(id, Some(&tool(item)), &output(item))),
            _ => None,
        }
    }

    /// A completed item of a tool that never said it had begun: both messages.
    fn completed(&mut self, item: &Value) -> Vec<Signal> {
        let is_tool =
            !matches!(text_at(item, "/type"), "agent_message" | "reasoning" | "error" | "todo_list");
        let mut signals = Vec::new();
        if is_tool && !self.record.open_tools().contains_key(text_at(item, "/id")) {
            signals.extend(self.item("item.started", item));
        }
        signals.extend(self.item("item.completed", item));
        signals
    }

    fn turn_completed(&mut self, line: &Value) -> Vec<Signal> {
        self.verdict = Some(Verdict::Success(std::mem::take(&mut self.last_words)));
        if line.get("usage").is_none() {
            return Vec::new();
        }
        let cached = count_at(line, "/usage/cached_input_tokens");
        let written = count_at(line, "/usage/cache_write_input_tokens");
        let mut usage = Usage {
            provider: PROVIDER.to_owned(),
            model: self.model.clone(),
            input_tokens: count_at(line, "/usage/input_tokens")
                .saturating_sub(cached)
                .saturating_sub(written),
            output_tokens: count_at(line, "/usage/output_tokens"),
            cache_read_tokens: cached,
            cache_write_tokens: written,
            cost_usd_ticks: None,
        };
        for before in &self.before {
            usage.input_tokens = usage.input_tokens.saturating_sub(before.input_tokens);
            usage.output_tokens = usage.output_tokens.saturating_sub(before.output_tokens);
            usage.cache_read_tokens = usage.cache_read_tokens.saturating_sub(before.cache_read_tokens);
            usage.cache_write_tokens = usage.cache_write_tokens.saturating_sub(before.cache_write_tokens);
        }
        self.usage = vec![usage];
        vec![Signal::Usage(self.usage.clone())]
    }

    fn turn_failed(&mut self, line: &Value) -> Vec<Signal> {
        let words = text_at(line, "/error/message");
        let reason = classify::reason(None, words).unwrap_or("agent_error.unknown");
        self.verdict = Some(self.record.failure(reason, words));
        Vec::new()
    }
}

/// The tool's name, as people know it.
fn tool(item: &Value) -> String {
    match text_at(item, "/type") {
        "command_execution" => "shell".to_owned(),
        "file_change" => "apply_patch".to_owned(),
        "mcp_tool_call" => format!("{}.{}", text_at(item, "/server"), text_at(item, "/tool")),
        other => other.to_owned(),
    }
}

/// What the tool was called with: its item without what is its answer.
fn input(item: &Value) -> Value {
    let mut input = item.as_object().cloned().unwrap_or_default();
    for answer in
        ["id", "type", "status", "aggregated_output", "exit_code", "result", "error", "server", "tool"]
    {
        input.remove(answer);
    }
    Value::Object(input)
}

/// What the tool answered.
fn output(item: &Value) -> String {
    let mut output = text_at(item, "/aggregated_output").to_owned();
    for answer in ["result", "error"] {
        if let Some(value) = item.get(answer).filter(|value| !value.is_null()) {
            output.push_str(&value.to_string());
        }
    }
    if let Some(code) = item.get("exit_code").and_then(Value::as_i64).filter(|code| *code != 0) {
        output.extend(["[exit code ", &code.to_string(), "]"]);
    }
    if output.is_empty() {
        text_at(item, "/status").clone_into(&mut output);
    }
    output
}

impl Reader for CodexReader {
    fn stdout_line(&mut self, line: Line<'_>) -> Vec<Signal> {
        let (kind, line) = match self.record.object(line) {
            Ok(object) => object,
            Err(signals) => return signals,
        };
        let item = line.get("item").unwrap_or(&Value::Null);
        match kind.as_str() {
            "thread.started" => self.record.session(text_at(&line, "/thread_id")).into_iter().collect(),
            "turn.started" => {
                self.verdict = None;
                Vec::new()
            }
            "item.completed" => self.completed(item),
            "item.started" | "item.updated" => self.item(&kind, item).into_iter().collect(),
            "error" => vec![self.record.error(text_at(&line, "/message"))],
            "turn.completed" => self.turn_completed(&line),
            "turn.failed" => self.turn_failed(&line),
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
        self.usage.clone()
    }

    fn finish(self: Box<Self>, exit: Exit) -> Outcome {
        self.record.conclude(self.verdict, exit, REJECTION)
    }
}
