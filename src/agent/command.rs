//! Provider `command`: any program that the agent names. Its lines are its words, its exit code its verdict.

use std::collections::BTreeMap;

use super::launch::{self, Launch, LaunchRefusal, LaunchRequest, Stdin};
use super::reading::{Exit, Line, MessageKind, Outcome, Reader, Signal};
use super::record::{Record, Tail};
use crate::domain::agent::PromptVia;
use crate::domain::task::Usage;
use crate::kernel::limits::Limits;
use crate::kernel::text;

/// How to start it.
pub(super) fn launch(request: &LaunchRequest<'_>, limits: &Limits) -> Result<Launch, LaunchRefusal> {
    let command = request.command.ok_or(LaunchRefusal::NoCommand)?;
    let mut arguments = command.arguments.clone();
    arguments.extend_from_slice(request.custom_arguments);
    let stdin = match command.prompt {
        PromptVia::Stdin => Stdin::Bytes(request.prompt.as_bytes().to_vec()),
        PromptVia::Argument => {
            arguments.push(launch::argument("prompt", request.prompt, limits)?);
            Stdin::Empty
        }
        PromptVia::None => Stdin::Empty,
    };
    let launch = Launch {
        program: command.program.clone(),
        arguments,
        environment: Vec::new(),
        stdin,
        removed_arguments: Vec::new(),
    };
    launch::checked(launch, limits)
}

/// Reads its output.
pub(super) struct CommandReader {
    record: Record,
    stdout: Tail,
}

impl CommandReader {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { record: Record::new(limits), stdout: Tail::new(limits.output_tail_bytes) }
    }
}

fn words(line: Line<'_>) -> String {
    let mut words = text::lossy(line.bytes);
    if line.truncated {
        words.push_str(" [the rest of this line was left out]");
    }
    words
}

impl Reader for CommandReader {
    fn stdout_line(&mut self, line: Line<'_>) -> Vec<Signal> {
        let line = words(line);
        self.stdout.push(&line);
        vec![self.record.words(MessageKind::Text, &line)]
    }

    fn stderr_line(&mut self, line: Line<'_>) -> Vec<Signal> {
        let line = words(line);
        vec![self.record.stderr_line(&line)]
    }

    fn open_tools(&self) -> &BTreeMap<String, String> {
        self.record.open_tools()
    }

    fn tools_used(&self) -> bool {
        // It may have done anything: never tried again by itself.
        true
    }

    fn usage(&self) -> Vec<Usage> {
        Vec::new()
    }

    fn finish(self: Box<Self>, exit: Exit) -> Outcome {
        if exit == Exit::Code(0) {
            return Outcome::Completed { output: self.stdout.text().to_owned() };
        }
        let mut detail = format!("it ended with {exit}");
        let stderr = self.record.stderr_tail();
        if !stderr.is_empty() {
            detail.extend(["\nstandard error:\n", stderr]);
        }
        Outcome::Failed { reason: "agent_error.process_failure", detail, session_rejected: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Message, Provider, ReaderSetup};
    use crate::domain::agent::CommandLine;

    fn command(prompt: PromptVia) -> CommandLine {
        CommandLine { program: "sh".to_owned(), arguments: vec!["-c".to_owned(), "cat".to_owned()], prompt }
    }

    fn request<'a>(command: &'a CommandLine, prompt: &'a str) -> LaunchRequest<'a> {
        LaunchRequest {
            prompt,
            work_dir: "/work",
            program: None,
            model: None,
            resume_session: None,
            custom_arguments: &[],
            command: Some(command),
            running_as_root: false,
        }
    }

    #[test]
    fn the_prompt_goes_to_standard_input_or_is_the_last_argument_or_isn_t_given() {
        let limits = Limits::default();
        let stdin = command(PromptVia::Stdin);
        let launch = Provider::Command.launch(&request(&stdin, "do it"), &limits).unwrap();
        assert_eq!(launch.stdin, Stdin::Bytes(b"do it".to_vec()));
        assert_eq!(launch.arguments, ["-c", "cat"]);
        let argument = command(PromptVia::Argument);
        let launch = Provider::Command.launch(&request(&argument, "do it"), &limits).unwrap();
        assert_eq!(launch.stdin, Stdin::Empty);
        assert_eq!(launch.arguments, ["-c", "cat", "do it"]);
        let none = command(PromptVia::None);
        let launch = Provider::Command.launch(&request(&none, "do it\0"), &limits).unwrap();
        assert_eq!((launch.stdin, launch.arguments), (Stdin::Empty, vec!["-c".to_owned(), "cat".to_owned()]));
    }

    #[test]
    fn a_prompt_that_the_kernel_takes_as_no_argument_is_refused_by_name() {
        let limits = Limits::default();
        let argument = command(PromptVia::Argument);
        let fits = "x".repeat(128 * 1_024 - 1);
        assert!(Provider::Command.launch(&request(&argument, &fits), &limits).is_ok());
        let refusal =
            Provider::Command.launch(&request(&argument, &format!("{fits}x")), &limits).unwrap_err();
        let expected = LaunchRefusal::TooLongForArgument { what: "prompt", bytes: 131_072, limit: 131_072 };
        assert_eq!(refusal, expected);
        let refusal = Provider::Command.launch(&request(&argument, "a\0b"), &limits).unwrap_err();
        assert_eq!(refusal, LaunchRefusal::Nul { what: "prompt" });
        let stdin = command(PromptVia::Stdin);
        assert!(Provider::Command.launch(&request(&stdin, &format!("{fits}x\0")), &limits).is_ok());
    }

    #[test]
    fn a_program_relative_to_the_work_directory_is_refused() {
        for program in ["./run", "bin/run", "", "..", "../run"] {
            let command = CommandLine { program: program.to_owned(), ..command(PromptVia::Stdin) };
            let refusal = Provider::Command.launch(&request(&command, "x"), &Limits::default()).unwrap_err();
            assert_eq!(refusal.reason(), "agent_error.runtime_missing_executable", "{program}");
        }
    }

    #[test]
    fn each_line_is_a_message_and_exit_0_completes_with_the_output() {
        let mut reader = Provider::Command.reader(&ReaderSetup::default(), &Limits::default());
        let signals = reader.stdout_line(Line::whole(b"one\xff"));
        let [Signal::Message(Message { kind: MessageKind::Text, content, stderr: false, .. })] = &signals[..]
        else {
            panic!("{signals:?}");
        };
        assert_eq!(content, "one\u{fffd}");
        let signals = reader.stderr_line(Line::whole(b"warn"));
        let [Signal::Message(Message { kind: MessageKind::Text, stderr: true, .. })] = &signals[..] else {
            panic!("{signals:?}");
        };
        assert_eq!(reader.stdout_line(Line::whole(b"")).len(), 1);
        reader.stdout_line(Line { bytes: b"three", truncated: true });
        let Outcome::Completed { output } = reader.finish(Exit::Code(0)) else { panic!() };
        assert_eq!(output, "one\u{fffd}\n\nthree [the rest of this line was left out]");
    }

    /// S294.
    #[test]
    fn exit_0_without_a_word_completes() {
        let reader = Provider::Command.reader(&ReaderSetup::default(), &Limits::default());
        assert_eq!(reader.finish(Exit::Code(0)), Outcome::Completed { output: String::new() });
    }

    #[test]
    fn another_exit_fails_with_the_code_and_the_last_4_kib_of_standard_error() {
        for (exit, said) in [(Exit::Code(3), "exit code 3"), (Exit::Signal(9), "signal 9")] {
            let mut reader = Provider::Command.reader(&ReaderSetup::default(), &Limits::default());
            for n in 0..2_000 {
                reader.stderr_line(Line::whole(format!("line {n}").as_bytes()));
            }
            let Outcome::Failed { reason, detail, .. } = reader.finish(exit) else { panic!() };
            assert_eq!(reason, "agent_error.process_failure");
            assert!(
                detail.contains(said) && detail.ends_with("line 1999") && detail.len() < 4_200,
                "{detail}"
            );
        }
    }

    #[test]
    fn only_the_last_64_kib_of_the_output_are_kept() {
        let mut reader = Provider::Command.reader(&ReaderSetup::default(), &Limits::default());
        for n in 0..40_000 {
            reader.stdout_line(Line::whole(format!("line {n}").as_bytes()));
        }
        let Outcome::Completed { output } = reader.finish(Exit::Code(0)) else { panic!() };
        assert_eq!(output.len(), 64 * 1_024);
        assert!(output.ends_with("line 39999"));
    }
}
