//! What to start for a run, and why a request can't become that.

use crate::domain::agent::CommandLine;
use crate::kernel::limits::Limits;

/// What the agent's process reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stdin {
    /// End of file at once.
    Empty,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
}

/// A process to start in the work directory, without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Absolute, or to be found on the directory owner's PATH.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Set over the environment that all agents share.
    pub environment: Vec<(String, String)>,
    /// What it reads.
    pub stdin: Stdin,
    /// Custom arguments that were left out because the run's protocol is ours to choose.
    pub removed_arguments: Vec<String>,
}

/// What a run is started from.
#[derive(Debug, Clone, Copy)]
pub struct LaunchRequest<'a> {
    /// The task, in words.
    pub prompt: &'a str,
    /// The directory it will be started in.
    pub work_dir: &'a str,
    /// Where detection found the provider's program; its plain name else.
    pub program: Option<&'a str>,
    /// The model asked for.
    pub model: Option<&'a str>,
    /// The provider's session to go on with.
    pub resume_session: Option<&'a str>,
    /// Further arguments for the provider's CLI.
    pub custom_arguments: &'a [String],
    /// For provider `command`: what is started.
    pub command: Option<&'a CommandLine>,
    /// Whether the process will run as root.
    pub running_as_root: bool,
}

/// Why a request can't become a command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchRefusal {
    /// Provider `command` without a command.
    #[error("the agent has no command to start")]
    NoCommand,
    /// The program is neither absolute nor a plain name.
    #[error("the program {program:?} is neither an absolute path nor a plain name")]
    ProgramNeitherAbsoluteNorName {
        /// The program asked for.
        program: String,
    },
    /// A coding agent was given nothing to do.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// An argument can't hold a NUL character.
    #[error("the {what} holds a NUL character")]
    Nul {
        /// Which argument.
        what: &'static str,
    },
    /// The kernel takes no argument of that length.
    #[error("the {what} has {bytes} bytes; an argument takes fewer than {limit}")]
    TooLongForArgument {
        /// Which argument.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The value would be read as a flag.
    #[error("the {what} {value:?} can't be told from a flag")]
    LooksLikeFlag {
        /// Which value.
        what: &'static str,
        /// The value.
        value: String,
    },
}

impl LaunchRefusal {
    /// The failure reason of a task that is refused like this.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::ProgramNeitherAbsoluteNorName { .. } => "agent_error.runtime_missing_executable",
            Self::NoCommand
            | Self::EmptyPrompt
            | Self::Nul { .. }
            | Self::TooLongForArgument { .. }
            | Self::LooksLikeFlag { .. } => "agent_error.missing_config",
        }
    }
}

/// The prompt for a CLI that reads it from standard input.
pub(super) fn prompt_on_stdin(request: &LaunchRequest<'_>) -> Result<Stdin, LaunchRefusal> {
    if request.prompt.trim().is_empty() {
        return Err(LaunchRefusal::EmptyPrompt);
    }
    Ok(Stdin::Bytes(request.prompt.as_bytes().to_vec()))
}

/// A value that follows a flag: not empty, not itself a flag.
pub(super) fn flag_value(what: &'static str, value: &str) -> Result<String, LaunchRefusal> {
    if value.is_empty() || value.starts_with('-') {
        return Err(LaunchRefusal::LooksLikeFlag { what, value: value.to_owned() });
    }
    Ok(value.to_owned())
}

/// An argument that the kernel takes: its limit counts the NUL that ends the argument.
pub(super) fn argument(what: &'static str, value: &str, limits: &Limits) -> Result<String, LaunchRefusal> {
    if value.contains('\0') {
        return Err(LaunchRefusal::Nul { what });
    }
    let limit = limits.prompt_argument_bytes;
    if value.len() >= limit {
        return Err(LaunchRefusal::TooLongForArgument { what, bytes: value.len(), limit });
    }
    Ok(value.to_owned())
}

/// A launch whose every part the kernel takes.
pub(super) fn checked(launch: Launch, limits: &Limits) -> Result<Launch, LaunchRefusal> {
    program(&launch.program)?;
    argument("program", &launch.program, limits)?;
    for value in &launch.arguments {
        argument("argument", value, limits)?;
    }
    for (_, value) in &launch.environment {
        argument("environment value", value, limits)?;
    }
    Ok(launch)
}

fn program(program: &str) -> Result<(), LaunchRefusal> {
    let plain = !program.is_empty() && !program.contains('/') && program != "." && program != "..";
    if plain || program.starts_with('/') {
        return Ok(());
    }
    Err(LaunchRefusal::ProgramNeitherAbsoluteNorName { program: program.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Provider;
    use crate::domain::task::failure;

    fn request(custom: &[String]) -> LaunchRequest<'_> {
        LaunchRequest {
            prompt: "do it",
            work_dir: "/home/dev/project",
            program: None,
            model: Some("m"),
            resume_session: Some("s-1"),
            custom_arguments: custom,
            command: None,
            running_as_root: true,
        }
    }

    #[test]
    fn each_cli_is_started_in_full_as_it_was_seen_to_work() {
        let custom = ["--resume=x", "--json", "--format", "text", "--model", "other", "--keep", "-c", "a=b"];
        let custom = custom.map(str::to_owned);
        let started = |provider: Provider| provider.launch(&request(&custom), &Limits::default()).unwrap();
        let claude = started(Provider::Claude);
        assert_eq!(
            claude.arguments.join(" "),
            "-p --output-format stream-json --verbose --permission-mode bypassPermissions --disallowedTools AskUserQuestion \
             --model m --resume s-1 --json --format text --keep a=b"
        );
        assert_eq!(claude.environment, [("IS_SANDBOX".to_owned(), "1".to_owned())]);
        assert_eq!(claude.removed_arguments, ["--resume=x", "--model", "other", "-c"]);
        let codex = started(Provider::Codex);
        assert_eq!(
            codex.arguments.join(" "),
            "exec --config=allow_login_shell=false --resume=x --format text --keep -c a=b --json --skip-git-repo-check --model m \
             --dangerously-bypass-approvals-and-sandbox resume s-1 -"
        );
        assert_eq!(codex.removed_arguments, ["--json", "--model", "other"]);
        let opencode = started(Provider::Opencode);
        assert_eq!(
            opencode.arguments.join(" "),
            "run --format json --dangerously-skip-permissions --dir /home/dev/project --model m --session s-1 \
             --resume=x --json --keep a=b"
        );
        assert_eq!(opencode.removed_arguments, ["--format", "text", "--model", "other", "-c"]);
        assert_eq!(opencode.environment, [("PWD".to_owned(), "/home/dev/project".to_owned())]);
        for launch in [claude, codex, opencode] {
            assert_eq!(launch.stdin, Stdin::Bytes(b"do it".to_vec()));
        }
    }

    #[test]
    fn a_request_that_could_change_the_command_line_is_refused() {
        for provider in [Provider::Claude, Provider::Codex, Provider::Opencode] {
            let refused = |change: &dyn Fn(&mut LaunchRequest<'_>)| {
                let mut request = request(&[]);
                change(&mut request);
                let refusal = provider.launch(&request, &Limits::default()).unwrap_err();
                assert!(failure::find(refusal.reason()).is_some());
                refusal
            };
            assert_eq!(refused(&|r| r.prompt = " \n"), LaunchRefusal::EmptyPrompt);
            assert!(matches!(refused(&|r| r.model = Some("--yolo")), LaunchRefusal::LooksLikeFlag { .. }));
            assert!(matches!(
                refused(&|r| r.resume_session = Some("-")),
                LaunchRefusal::LooksLikeFlag { .. }
            ));
            assert!(matches!(refused(&|r| r.model = Some("a\0b")), LaunchRefusal::Nul { .. }));
            assert!(matches!(
                refused(&|r| r.program = Some("./claude")),
                LaunchRefusal::ProgramNeitherAbsoluteNorName { .. }
            ));
            let custom = ["--keep".to_owned(), "x\0".to_owned()];
            let request = LaunchRequest { custom_arguments: &custom, ..request(&[]) };
            assert!(matches!(provider.launch(&request, &Limits::default()), Err(LaunchRefusal::Nul { .. })));
        }
    }
}
