//! What all readers keep of a run, bounded, and how they turn words and exit into an outcome.

use std::collections::BTreeMap;

use serde_json::Value;

use super::classify;
use super::reading::{Exit, Line, Message, MessageKind, Outcome, Signal};
use crate::kernel::limits::Limits;
use crate::kernel::{json, redact, text};

/// The last bytes of a text that grows by lines, without secrets.
#[derive(Debug)]
pub(super) struct Tail {
    kept: String,
    most: usize,
    begun: bool,
}

impl Tail {
    pub(super) const fn new(most: usize) -> Self {
        Self { kept: String::new(), most, begun: false }
    }

    pub(super) fn push(&mut self, line: &str) {
        if self.begun {
            self.kept.push('\n');
        }
        self.begun = true;
        self.kept.push_str(&redact::secrets(line));
        // Cut only once twice the bound is reached, so that a line costs its own length.
        if self.kept.len() > self.most.saturating_mul(2) {
            self.kept = text::tail(&self.kept, self.most).to_owned();
        }
    }

    pub(super) fn text(&self) -> &str {
        text::tail(&self.kept, self.most)
    }
}

/// What the provider itself said about the run's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It did its work; its last word.
    Success(String),
    /// It failed.
    Failure { reason: &'static str, detail: String, session_rejected: bool },
}

/// What is kept of a run.
#[derive(Debug)]
pub(super) struct Record {
    limits: Limits,
    session: Option<String>,
    open: BTreeMap<String, String>,
    tools_used: bool,
    stderr: Tail,
    unreadable: Tail,
    unreadable_lines: u64,
    last_error: Option<String>,
}

impl Record {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            stderr: Tail::new(limits.stderr_tail_bytes),
            unreadable: Tail::new(limits.stderr_tail_bytes),
            limits: limits.clone(),
            session: None,
            open: BTreeMap::new(),
            tools_used: false,
            unreadable_lines: 0,
            last_error: None,
        }
    }

    pub(super) const fn open_tools(&self) -> &BTreeMap<String, String> {
        &self.open
    }

    pub(super) fn stderr_tail(&self) -> &str {
        self.stderr.text()
    }

    pub(super) const fn tools_used(&self) -> bool {
        self.tools_used
    }

    /// The line as one JSON object with a `type`, if it is one. A line that isn't is counted and kept
    /// for the detail of a failure.
    pub(super) fn object(&mut self, line: Line<'_>) -> Result<(String, Value), Vec<Signal>> {
        if line.bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(Vec::new());
        }
        if line.truncated {
            // It may have been the answer of any open tool: from here on silence counts again.
            self.open.clear();
            self.unreadable_lines += 1;
            let most = self.limits.agent_line_bytes;
            return Err(vec![self.error(&format!("a line of more than {most} bytes was left out"))]);
        }
        let value: Option<Value> = serde_json::from_slice(line.bytes).ok();
        let kind = value.as_ref().and_then(|v| v.get("type")).and_then(Value::as_str).map(str::to_owned);
        if let (Some(value), Some(kind)) = (value, kind) {
            return Ok((kind, value));
        }
        self.unreadable_lines += 1;
        self.unreadable.push(&text::lossy(line.bytes));
        Err(Vec::new())
    }

    /// The session, if it is a new one with a name that can be passed back to the provider.
    pub(super) fn session(&mut self, id: &str) -> Option<Signal> {
        let passable = !id.is_empty()
            && id.len() <= 128
            && !id.starts_with('-')
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.');
        if !passable || self.session.as_deref() == Some(id) {
            return None;
        }
        self.session = Some(id.to_owned());
        Some(Signal::Session(id.to_owned()))
    }

    pub(super) fn words(&self, kind: MessageKind, content: &str) -> Signal {
        Signal::Message(Message {
            kind,
            tool: None,
            call: None,
            content: clean(content, self.limits.transcript_message_bytes),
            input: None,
            output: None,
            stderr: false,
        })
    }

    /// Something that went wrong; it is also what a run that ends without a verdict ended with.
    pub(super) fn error(&mut self, content: &str) -> Signal {
        self.last_error = Some(clean(content, self.limits.stderr_tail_bytes));
        self.words(MessageKind::Error, content)
    }

    pub(super) fn tool_use(&mut self, call: &str, tool: &str, input: &Value) -> Signal {
        let signal = self.tool_note(call, tool, input);
        self.open(call, tool);
        signal
    }

    /// A tool call that isn't waited for.
    pub(super) fn tool_note(&mut self, call: &str, tool: &str, input: &Value) -> Signal {
        self.tools_used = true;
        let most = self.limits.transcript_message_bytes;
        let input = redacted(input);
        let words = input.to_string();
        // Deeper than that it isn't taken by the server, which would cost the messages beside it.
        let deep = json::is_deeper_than(&input, self.limits.json_depth / 2);
        let input = if deep || words.len() > most { Value::String(cut(&words, most)) } else { input };
        Signal::Message(Message {
            kind: MessageKind::ToolUse,
            tool: Some(name(tool)),
            call: Some(name(call)),
            content: String::new(),
            input: Some(input),
            output: None,
            stderr: false,
        })
    }

    /// Something that explains silence from now on, without a message of its own.
    pub(super) fn open(&mut self, call: &str, tool: &str) {
        if self.open.len() < self.limits.open_tool_calls {
            self.open.insert(name(call), name(tool));
        }
    }

    pub(super) fn close(&mut self, call: &str) -> Option<String> {
        self.open.remove(&name(call))
    }

    pub(super) fn tool_result(&mut self, call: &str, tool: Option<&str>, output: &str) -> Signal {
        let opened_as = self.close(call);
        Signal::Message(Message {
            kind: MessageKind::ToolResult,
            tool: opened_as.or_else(|| tool.map(name)),
            call: Some(name(call)),
            content: String::new(),
            input: None,
            output: Some(clean(output, self.limits.tool_output_bytes)),
            stderr: false,
        })
    }

    /// A line of standard error: a marked message, and kept for the detail of a failure.
    pub(super) fn stderr_line(&mut self, line: &str) -> Signal {
        self.stderr.push(line);
        Signal::Message(Message {
            kind: MessageKind::Text,
            tool: None,
            call: None,
            content: clean(line, self.limits.transcript_message_bytes),
            input: None,
            output: None,
            stderr: true,
        })
    }

    /// The same for CLIs that colour what they say there; blank lines tell nothing.
    pub(super) fn plain_stderr_line(&mut self, line: Line<'_>) -> Vec<Signal> {
        let line = text::lossy(line.bytes);
        let line = anstream::adapter::strip_str(&line).to_string();
        if line.trim().is_empty() {
            return Vec::new();
        }
        vec![self.stderr_line(&line)]
    }

    /// A failure that the provider told in words, with what is known besides them.
    pub(super) fn failure(&self, reason: &'static str, words: &str) -> Verdict {
        Verdict::Failure {
            reason,
            detail: clean(words, self.limits.stderr_tail_bytes),
            session_rejected: false,
        }
    }

    /// The outcome. `rejection` is how the provider's CLI says, on its way out, that a session isn't there.
    pub(super) fn conclude(&self, verdict: Option<Verdict>, exit: Exit, rejection: &str) -> Outcome {
        match (verdict, exit) {
            (Some(Verdict::Success(output)), Exit::Code(0)) => Outcome::Completed {
                output: text::tail(&clean_whole(&output), self.limits.output_tail_bytes).to_owned(),
            },
            (Some(Verdict::Failure { reason, detail, session_rejected }), _) => {
                Outcome::Failed { reason, detail, session_rejected }
            }
            (Some(Verdict::Success(_)), exit) => self.failed(
                "agent_error.process_failure",
                &format!("it said that it was done, then ended with {exit}"),
            ),
            (None, Exit::Code(0)) => self.said_nothing(),
            (None, exit) => self.broke_off(exit, rejection),
        }
    }

    fn said_nothing(&self) -> Outcome {
        if let Some(reason) = self.last_error.as_deref().and_then(|error| classify::reason(None, error)) {
            return self.failed(reason, "it ended without a result");
        }
        let readable =
            format!("it ended without a result; {} lines could not be read", self.unreadable_lines);
        self.failed("agent_error.empty_or_unparseable_output", &readable)
    }

    fn broke_off(&self, exit: Exit, rejection: &str) -> Outcome {
        let reason = match exit {
            // Whoever sends a signal has a reason of their own; the agent's last words aren't it.
            Exit::Signal(_) | Exit::Unknown => None,
            Exit::Code(_) => self
                .last_error
                .as_deref()
                .and_then(|error| classify::reason(None, error))
                .or_else(|| classify::reason(None, self.stderr.text())),
        };
        let rejected = !rejection.is_empty() && self.stderr.text().contains(rejection);
        match self.failed(reason.unwrap_or("agent_error.process_failure"), &format!("it ended with {exit}")) {
            Outcome::Failed { reason, detail, .. } => {
                Outcome::Failed { reason, detail, session_rejected: rejected }
            }
            completed @ Outcome::Completed { .. } => completed,
        }
    }

    /// A failure with the run's last words, each part within its bound.
    fn failed(&self, reason: &'static str, what: &str) -> Outcome {
        let mut detail = what.to_owned();
        if let Some(error) = &self.last_error {
            detail.push_str("\nlast error: ");
            detail.push_str(error);
        }
        for (title, words) in
            [("standard error", self.stderr.text()), ("unreadable output", self.unreadable.text())]
        {
            if !words.is_empty() {
                detail.extend(["\n", title, ":\n", words]);
            }
        }
        Outcome::Failed { reason, detail, session_rejected: false }
    }
}

/// Without NUL and secrets. Always before cutting: half a secret can't be told from a word.
fn clean_whole(words: &str) -> String {
    redact::secrets(&text::without_nul(words))
}

fn clean(words: &str, most: usize) -> String {
    cut(&clean_whole(words), most)
}

/// The name of a tool or a call; no provider's is longer.
fn name(name: &str) -> String {
    text::without_nul(text::head(name, 256))
}

/// The head of `words` with a note of what is missing.
fn cut(words: &str, most: usize) -> String {
    let head = text::head(words, most);
    if head.len() == words.len() {
        return head.to_owned();
    }
    format!("{head}\n[{} bytes left out]", words.len() - head.len())
}

fn redacted(value: &Value) -> Value {
    match value {
        Value::String(words) => Value::String(clean_whole(words)),
        Value::Array(items) => Value::Array(items.iter().map(redacted).collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, item)| (text::without_nul(key), redacted(item))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The text at a JSON pointer; empty when there is none.
pub(super) fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a JSON pointer; 0 when there is none.
pub(super) fn count_at(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

/// A price in dollars as 1e-10 dollars; none when it isn't one.
pub(super) fn ticks(dollars: Option<f64>) -> Option<u64> {
    let dollars = dollars.filter(|d| d.is_finite() && (0.0..1e8).contains(d))?;
    format!("{:.0}", dollars * 1e10).parse().ok()
}
