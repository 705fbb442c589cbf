//! opencode: `opencode run --format json` with a stream of JSON lines.
//!
//! Seen with 1.18.33: the prompt is read from standard input; a tool call is said only once it is
//! over, so an open step stands for its tools; a refused permission ends the run with exit code 0 but
//! without a step that ended with `stop`; a session that isn't there is said on standard error only.

use std::collections::BTreeMap;

use serde_json::Value;

use super::arguments::{self, Reserved, Takes};
use super::classify;
use super::launch::{self, Launch, LaunchRefusal, LaunchRequest};
use super::reading::{Exit, Line, MessageKind, Outcome, Reader, ReaderSetup, Signal};
use super::record::{Record, Verdict, count_at, text_at, ticks};
use crate::domain::task::Usage;
use crate::kernel::limits::Limits;

const PROVIDER: &str = "opencode";

/// How the CLI says that the session asked for isn't there.
const REJECTION: &str = "Session not found";

/// Under which name an open step stands among the open tools.
const STEP: &str = "step";

const RESERVED: &[Reserved] = &[
    Reserved(&["--format", "-s", "--session", "--dir", "--command"], Takes::One),
    Reserved(&["--attach", "-p", "--password", "-u", "--username", "--port"], Takes::One),
    Reserved(&["-c", "--continue", "--fork", "--share", "-i", "--interactive"], Takes::Nothing),
    Reserved(&["--auto", "--dangerously-skip-permissions"], Takes::Nothing),
    Reserved(&["-h", "--help", "-v", "--version"], Takes::Nothing),
];

/// How to start it.
pub(super) fn launch(request: &LaunchRequest<'_>, limits: &Limits) -> Result<Launch, LaunchRefusal> {
    let stdin = launch::prompt_on_stdin(request)?;
    // Newer ones call it `--auto` and still know this name; older ones know no other.
    let mut arguments: Vec<String> =
        ["run", "--format", "json", "--dangerously-skip-permissions", "--dir", request.work_dir]
            .map(str::to_owned)
            .to_vec();
    if let Some(model) = request.model {
        arguments.extend(["--model".to_owned(), launch::flag_value("model", model)?]);
    }
    if let Some(session) = request.resume_session {
        arguments.extend(["--session".to_owned(), launch::flag_value("session", session)?]);
    }
    let custom = arguments::sort(request, RESERVED);
    arguments.extend(custom.kept);
    let launch = Launch {
        program: request.program.unwrap_or("opencode").to_owned(),
        arguments,
        // It believes PWD before it asks the kernel.
        environment: vec![("PWD".to_owned(), request.work_dir.to_owned())],
        stdin,
        removed_arguments: custom.removed,
    };
    launch::checked(launch, limits)
}

/// Reads its output.
pub(super) struct OpencodeReader {
    record: Record,
    verdict: Option<Verdict>,
    last_words: String,
    last_message: String,
    usage: Usage,
    cost: f64,
    steps: u64,
}

impl OpencodeReader {
    pub(super) fn new(setup: &ReaderSetup, limits: &Limits) -> Self {
        let usage = Usage {
            provider: PROVIDER.to_owned(),
            model: setup.model.clone().unwrap_or_else(|| "default".to_owned()),
            input_tokens: 0,
            output_tokens: 0,
            cache_read_tokens: 0,
            cache_write_tokens: 0,
            cost_usd_ticks: None,
        };
        Self {
            record: Record::new(limits),
            verdict: None,
            last_words: String::new(),
            last_message: String::new(),
            usage,
            cost: 0.0,
            steps: 0,
        }
    }

    fn text(&mut self, line: &Value) -> Option<Signal> {
        let words = text_at(line, "/part/text");
        let message = text_at(line, "/part/messageID");
        if message != self.last_message {
            message.clone_into(&mut self.last_message);
            self.last_words.clear();
        }
        if !self.last_words.is_empty() {
            self.last_words.push('\n');
        }
        self.last_words.push_str(words);
        Some(self.record.words(MessageKind::Text, words))
    }

    fn tool(&mut self, line: &Value) -> Vec<Signal> {
        let (call, tool) = (text_at(line, "/part/callID"), text_at(line, "/part/tool"));
        let input = line.pointer("/part/state/input").unwrap_or(&Value::Null);
        let output = match text_at(line, "/part/state/status") {
            "completed" => {
                let mut output = text_at(line, "/part/state/output").to_owned();
                let code = line.pointer("/part/state/metadata/exit").and_then(Value::as_i64);
                if let Some(code) = code.filter(|code| *code != 0) {
                    output.push_str(&format!("[exit code {code}]"));
                }
                output
            }
            "error" => text_at(line, "/part/state/error").to_owned(),
            _ => return vec![self.record.tool_use(call, tool, input)],
        };
        let mut signals = Vec::new();
        if !self.record.open_tools().contains_key(call) {
            signals.push(self.record.tool_use(call, tool, input));
        }
        signals.push(self.record.tool_result(call, Some(tool), &output));
        signals
    }

    fn step_finish(&mut self, line: &Value) -> Vec<Signal> {
        self.record.close(STEP);
        let at = |name: &str| count_at(line, &format!("/part/tokens/{name}"));
        let (input, read, written) = (at("input"), at("cache/read"), at("cache/write"));
        // Whether the words thought are among those written differs; the total doesn't.
        let output = match at("total") {
            0 => at("output").saturating_add(at("reasoning")),
            total => total.saturating_sub(input).saturating_sub(read).saturating_sub(written),
        };
        self.usage.input_tokens = self.usage.input_tokens.saturating_add(input);
        self.usage.output_tokens = self.usage.output_tokens.saturating_add(output);
        self.usage.cache_read_tokens = self.usage.cache_read_tokens.saturating_add(read);
        self.usage.cache_write_tokens = self.usage.cache_write_tokens.saturating_add(written);
        self.cost += line.pointer("/part/cost").and_then(Value::as_f64).unwrap_or_default();
        self.usage.cost_usd_ticks = ticks(Some(self.cost));
        self.steps += 1;
        match text_at(line, "/part/reason") {
            "stop" => {
                self.verdict = Some(Verdict::Success(self.last_words.clone()));
                vec![Signal::Usage(self.usage())]
            }
            // The model wants to go on; if nothing follows, that was no end.
            "tool-calls" | "unknown" => Vec::new(),
            other => {
                let words = format!("its last step ended with {other:?}");
                self.verdict = Some(self.record.failure("agent_error.unknown", &words));
                vec![Signal::Usage(self.usage())]
            }
        }
    }

    fn error(&mut self, line: &Value) -> Signal {
        let name = text_at(line, "/error/name");
        let words = match text_at(line, "/error/data/message") {
            "" => name.to_owned(),
            words => format!("{name}: {words}"),
        };
        let status = line.pointer("/error/data/statusCode").and_then(Value::as_u64);
        // The kind of error stands in the body that the service sent, if anywhere.
        let told = format!("{words} {}", text_at(line, "/error/data/responseBody"));
        let reason = classify::reason(status, &told).unwrap_or("agent_error.unknown");
        // The first error is the cause; the same one may be said again.
        if !matches!(self.verdict, Some(Verdict::Failure { .. })) {
            self.verdict = Some(self.record.failure(reason, &words));
        }
        self.record.error(&words)
    }
}

impl Reader for OpencodeReader {
    fn stdout_line(&mut self, line: Line<'_>) -> Vec<Signal> {
        let (kind, line) = match self.record.object(line) {
            Ok(object) => object,
            Err(signals) => return signals,
        };
        let mut signals: Vec<Signal> =
            self.record.session(text_at(&line, "/sessionID")).into_iter().collect();
        match kind.as_str() {
            "step_start" => {
                self.verdict = None;
                self.record.open(STEP, STEP);
            }
            "text" => signals.extend(self.text(&line)),
            "reasoning" => {
                signals.push(self.record.words(MessageKind::Thinking, text_at(&line, "/part/text")))
            }
            "tool_use" => signals.extend(self.tool(&line)),
            "step_finish" => signals.extend(self.step_finish(&line)),
            "error" => signals.push(self.error(&line)),
            _ => {}
        }
        signals
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
        if self.steps == 0 { Vec::new() } else { vec![self.usage.clone()] }
    }

    fn finish(self: Box<Self>, exit: Exit) -> Outcome {
        self.record.conclude(self.verdict, exit, REJECTION)
    }
}
