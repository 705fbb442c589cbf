//! What a run's output is read into.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::task::Usage;
use crate::kernel::text;

/// One line of output, without its line end.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// The bytes, whatever they are.
    pub bytes: &'a [u8],
    /// Whether the line was longer and its rest dropped.
    pub truncated: bool,
}

impl<'a> Line<'a> {
    /// A line that is all there.
    #[must_use]
    pub const fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, truncated: false }
    }
}

/// How the agent's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It isn't known: whoever watched it is gone.
    Unknown,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("an unknown exit status"),
        }
    }
}

/// What sort of transcript message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Words of the agent, or a line of a command.
    Text,
    /// What the agent thought aloud.
    Thinking,
    /// It called a tool.
    ToolUse,
    /// The tool answered.
    ToolResult,
    /// Something went wrong; the run may go on.
    Error,
}

/// A transcript message: bounded, redacted, without NUL.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// What sort it is.
    pub kind: MessageKind,
    /// The tool, for tool messages.
    pub tool: Option<String>,
    /// The provider's name for the tool call, which ties use and result together.
    pub call: Option<String>,
    /// The words; empty for tool messages.
    pub content: String,
    /// What the tool was called with.
    pub input: Option<Value>,
    /// What it answered.
    pub output: Option<String>,
    /// Whether it came on standard error.
    pub stderr: bool,
}

impl Message {
    /// Something that went wrong, as whoever watches the agent says it.
    #[must_use]
    pub fn error(words: &str) -> Self {
        Self {
            kind: MessageKind::Error,
            tool: None,
            call: None,
            content: text::without_nul(words),
            input: None,
            output: None,
            stderr: false,
        }
    }
}

/// What a line of output told.
#[derive(Debug, Clone, PartialEq)]
pub enum Signal {
    /// A message for the transcript.
    Message(Message),
    /// The provider's session, said once for each.
    Session(String),
    /// What the run used in all so far; a later one replaces it.
    Usage(Vec<Usage>),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The agent said so.
    Completed {
        /// Its last word.
        output: String,
    },
    /// Anything else.
    Failed {
        /// A code of [`crate::domain::task::failure::CATALOGUE`].
        reason: &'static str,
        /// What exactly, for people; bounded and redacted.
        detail: String,
        /// Whether the provider refused to go on with the session it was asked to.
        session_rejected: bool,
    },
}

impl Outcome {
    /// Whether the run should be tried once more, at once, with a fresh session: it was to go on with
    /// one, did nothing yet, and it is the session that stands in the way.
    #[must_use]
    pub fn wants_fresh_session(&self, resumed: bool, tools_used: bool) -> bool {
        match self {
            Self::Completed { .. } => false,
            Self::Failed { reason, session_rejected, .. } => {
                let history = matches!(*reason, "agent_error.context_overflow" | "api_invalid_request");
                resumed && !tools_used && (*session_rejected || history)
            }
        }
    }
}

/// Whether a later run may go on with the session of a run that failed for that reason.
#[must_use]
pub fn session_survives(reason: &str) -> bool {
    !matches!(reason, "iteration_limit" | "api_invalid_request" | "agent_error.context_overflow")
}

/// The outcome of a run whose program could not be started at all.
#[must_use]
pub fn not_startable(program: &str, error: &std::io::Error) -> Outcome {
    let detail = format!("{program} can't be started: {error}");
    Outcome::Failed {
        reason: match error.kind() {
            std::io::ErrorKind::PermissionDenied => "agent_error.runtime_not_executable",
            _ => "agent_error.runtime_missing_executable",
        },
        detail: text::without_nul(&detail),
        session_rejected: false,
    }
}

/// What a reader has to know from outside the output.
#[derive(Debug, Clone, Default)]
pub struct ReaderSetup {
    /// The model asked for: codex and opencode don't say which one they use.
    pub model: Option<String>,
    /// What earlier runs of the resumed session used: codex counts the whole session.
    pub session_usage: Vec<Usage>,
}

/// Reads the output of one run. It never waits and never fails: what it can't read, it counts.
pub trait Reader: Send {
    /// A line of standard output.
    fn stdout_line(&mut self, line: Line<'_>) -> Vec<Signal>;

    /// A line of standard error.
    fn stderr_line(&mut self, line: Line<'_>) -> Vec<Signal>;

    /// Tool calls that were begun and not answered, by the provider's name for the call. While there
    /// are any, silence is the tool's.
    fn open_tools(&self) -> &BTreeMap<String, String>;

    /// Whether any tool was called; a run that only talked can be tried again with a fresh session.
    fn tools_used(&self) -> bool;

    /// The best that is known of what the run used, on every way out of it.
    fn usage(&self) -> Vec<Usage>;

    /// The outcome, once both outputs have ended and the process is gone.
    fn finish(self: Box<Self>, exit: Exit) -> Outcome;
}
