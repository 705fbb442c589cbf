//! The coding agents' command lines: how each is found, started and read. One file per provider.
//!
//! Invariants: pure; a [`Launch`] says what to start and a [`Reader`] is fed what came out. Only a
//! provider's explicit word of success, together with exit code 0, makes a run completed. Everything
//! kept is bounded, and every text handed on is free of NUL, invalid UTF-8 and known kinds of secrets.
//!
//! Not here: starting and stopping processes (`process`, driven by `supervisor`), the environment that
//! all agents share and the prompt's text (`execenv`), watchdog clocks (`supervisor`).

mod arguments;
mod classify;
mod claude;
mod codex;
mod command;
mod launch;
mod opencode;
mod reading;
mod record;

#[cfg(test)]
mod recorded_tests;

pub use launch::{Launch, LaunchRefusal, LaunchRequest, Stdin};
pub use reading::{Exit, Line, Message, MessageKind, Outcome, Reader, ReaderSetup, Signal, not_startable};

use crate::kernel::limits::Limits;

/// A kind of coding agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Provider {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// opencode.
    Opencode,
    /// Any program that the agent names.
    Command,
}

impl Provider {
    /// Every provider there is.
    pub const ALL: [Self; 4] = [Self::Claude, Self::Codex, Self::Opencode, Self::Command];

    /// Its name in events, in the API and on the command line.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Command => "command",
        }
    }

    /// The provider of that name.
    #[must_use]
    pub fn find(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.id() == id)
    }

    /// How a machine finds out whether it has the provider; none for one that every machine has.
    #[must_use]
    pub const fn detection(self) -> Option<Detection> {
        match self {
            Self::Claude => Some(Detection { binary: "claude", path_variable: "MULTICA_CLAUDE_PATH" }),
            Self::Codex => Some(Detection { binary: "codex", path_variable: "MULTICA_CODEX_PATH" }),
            Self::Opencode => Some(Detection { binary: "opencode", path_variable: "MULTICA_OPENCODE_PATH" }),
            Self::Command => None,
        }
    }

    /// The file of the work directory in which its CLI looks for standing instructions.
    #[must_use]
    pub const fn brief_file(self) -> Option<&'static str> {
        match self {
            Self::Claude => Some("CLAUDE.md"),
            Self::Codex | Self::Opencode => Some("AGENTS.md"),
            Self::Command => None,
        }
    }

    /// How to start it for one run.
    ///
    /// # Errors
    /// [`LaunchRefusal`] when the request can't become a command line.
    pub fn launch(self, request: &LaunchRequest<'_>, limits: &Limits) -> Result<Launch, LaunchRefusal> {
        match self {
            Self::Claude => claude::launch(request, limits),
            Self::Codex => codex::launch(request, limits),
            Self::Opencode => opencode::launch(request, limits),
            Self::Command => command::launch(request, limits),
        }
    }

    /// A reader for the output of one run.
    #[must_use]
    pub fn reader(self, setup: &ReaderSetup, limits: &Limits) -> Box<dyn Reader> {
        match self {
            Self::Claude => Box::new(claude::ClaudeReader::new(setup, limits)),
            Self::Codex => Box::new(codex::CodexReader::new(setup, limits)),
            Self::Opencode => Box::new(opencode::OpencodeReader::new(setup, limits)),
            Self::Command => Box::new(command::CommandReader::new(limits)),
        }
    }
}

/// How a machine finds out whether it has a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detection {
    /// The program's name, looked up on PATH.
    pub binary: &'static str,
    /// The environment variable that names the program instead; then nothing else is tried.
    pub path_variable: &'static str,
}

impl Detection {
    /// The arguments with which the program says its version.
    pub const VERSION_ARGUMENTS: [&'static str; 1] = ["--version"];

    /// The version in what the program said: the first word that begins with two dotted numbers.
    #[must_use]
    pub fn version(output: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(output);
        text.split_whitespace()
            .map(|word| word.trim_start_matches('v'))
            .find(|word| {
                let mut parts = word.split('.');
                let number =
                    |part: Option<&str>| part.is_some_and(|p| p.starts_with(|c: char| c.is_ascii_digit()));
                number(parts.next()) && number(parts.next())
            })
            .map(|word| crate::kernel::text::head(word, 64).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_found_by_its_id_and_by_no_other_name() {
        for provider in Provider::ALL {
            assert_eq!(Provider::find(provider.id()), Some(provider));
        }
        assert_eq!(Provider::find("Claude"), None);
        assert_eq!(Provider::find(""), None);
    }

    #[test]
    fn the_version_is_read_from_each_cli_s_answer() {
        for (said, version) in [
            ("2.1.197 (Claude Code)\n", "2.1.197"),
            ("codex-cli 0.171.0\n", "0.171.0"),
            ("1.18.33\n", "1.18.33"),
            ("tool v0.9\n", "0.9"),
        ] {
            assert_eq!(Detection::version(said.as_bytes()).as_deref(), Some(version));
        }
        assert_eq!(Detection::version(b"no version, sorry"), None);
        assert_eq!(Detection::version(&[0xff, 0x00]), None);
    }
}
