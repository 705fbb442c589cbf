//! From words to a role, and a client's role from start to exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use super::args::{Cli, Common, DaemonStart, Role, Verb};
use super::error::{CliError, CommandLine, UsageError};
use super::output;
use super::session::Session;
use super::verb;
use crate::daemon::DaemonConfig;
use crate::kernel::error_chain::Chain;
use crate::kernel::limits::Limits;

/// A verb that is a client of the server.
#[derive(Debug)]
pub struct ClientRole {
    common: Common,
    verb: Verb,
}

impl ClientRole {
    /// Whether it is to say more about what goes on.
    #[must_use]
    pub const fn debug(&self) -> bool {
        self.common.debug
    }
}

/// Reads the command line. An error is an exit code: what is to be said has been said.
///
/// # Errors
/// For a command line that means nothing (1), and for `--help` and `--version` (0).
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Role, ExitCode> {
    let words: Vec<OsString> = words.into_iter().collect();
    let cli = Cli::try_parse_from(&words).map_err(|error| {
        if error.use_stderr() && wants_json(&words) {
            return report(&CliError::CommandLine(CommandLine::of(&error)), true);
        }
        // Nobody to tell it to: the exit code still says it.
        drop(error.print());
        if error.use_stderr() {
            output::next(&CliError::CommandLine(CommandLine::of(&error)).next_step());
        }
        if error.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS }
    })?;
    let Cli { common, verb } = cli;
    if common.as_of.is_some() && !verb.shows_the_past() {
        return Err(report(&CliError::Usage(UsageError::AsOf), common.wants_json()));
    }
    Ok(match verb {
        Verb::Up(args) => Role::Up(common, args),
        Verb::Server(args) => Role::Server(common, args),
        Verb::Daemon(verb::daemon::DaemonVerb::Start(args)) if args.foreground => Role::Daemon(common, args),
        verb => Role::Client(Box::new(ClientRole { common, verb })),
    })
}

/// Whether a command line asks for JSON, also one that can't be parsed.
#[must_use]
pub fn wants_json(words: &[OsString]) -> bool {
    let words = words.iter().map(OsString::as_os_str).take_while(|word| *word != "--");
    let mut said = false;
    let mut json = false;
    for word in words {
        if said {
            json = word == "json";
        } else if let Some(format) = word.to_str().and_then(|word| word.strip_prefix("--output=")) {
            json = format == "json";
        }
        said = word == "--output";
    }
    json
}

/// Runs a client's verb and says how it went.
pub async fn run(role: ClientRole, limits: Limits) -> ExitCode {
    let json = role.common.wants_json();
    let session = Session::new(&role.common, limits);
    let ended = dispatch(&session, role).await;
    session.tell_left_out();
    if let Some(answered) = session.past.answered().filter(|_| !json) {
        output::note(&format!("As of position {} ({}).", answered.position, answered.time));
    }
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error, json),
    }
}

/// Prints why something failed and turns it into an exit code.
#[must_use]
pub fn report(error: &CliError, json: bool) -> ExitCode {
    // The reader has gone away (`multica … | head`): it has what it wanted.
    if matches!(error, CliError::Output(source) if source.kind() == std::io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    output::failure(error, json);
    ExitCode::from(error.exit_code())
}

/// Prints why another role failed.
#[must_use]
pub fn fail(error: &dyn std::error::Error, code: &str, next_step: &str, json: bool) -> ExitCode {
    output::told(&output::as_sentence(&Chain(error).to_string()), code, next_step, json);
    ExitCode::FAILURE
}

/// Settles how `daemon start --foreground` runs.
///
/// # Errors
/// When something is missing, or this is inside a task.
pub fn daemon_config(common: &Common, args: &DaemonStart, limits: Limits) -> Result<DaemonConfig, CliError> {
    verb::daemon::daemon_config(&Session::new(common, limits), args)
}

/// Refuses `daemon start --foreground` where it would only be in the way.
///
/// # Errors
/// When the profile's server is part of a `multica up` that doesn't run.
pub async fn daemon_may_start(common: &Common, limits: Limits) -> Result<(), CliError> {
    verb::daemon::may_start(&Session::new(common, limits)).await
}

async fn dispatch(session: &Session, role: ClientRole) -> Result<(), CliError> {
    match role.verb {
        Verb::Daemon(verb) => verb::daemon::run(session, &role.common, verb).await,
        Verb::Project(verb) => verb::project::run(session, verb).await,
        Verb::Agent(verb) => verb::agent::run(session, verb).await,
        Verb::Issue(verb) => verb::issue::run(session, verb).await,
        Verb::Task(verb) => verb::task::run(session, verb).await,
        Verb::Directory(verb) => verb::directory::run(session, verb).await,
        Verb::Webhook(verb) => verb::webhook::run(session, verb).await,
        Verb::Audit(args) => verb::audit::run(session, *args).await,
        Verb::Feed(args) => verb::task::feed(session, args).await,
        Verb::Workspace(verb) => verb::account::workspace(session, verb).await,
        Verb::Token(verb) => verb::account::token(session, verb).await,
        Verb::Login(args) => verb::account::login(session, args).await,
        Verb::Auth(verb) => verb::account::auth(session, verb).await,
        Verb::Config(verb) => verb::account::config(session, verb),
        Verb::Verify(args) => verb::verify::run(session, args).await,
        Verb::Seal(args) => verb::verify::seal(session, args).await,
        Verb::Erase(verb) => verb::erase::run(session, verb).await,
        Verb::Retention(args) => verb::retention::run(session, args).await,
        Verb::Replay(args) => verb::replay::file(session, &args),
        Verb::Projections(verb) => verb::projections::run(session, verb).await,
        Verb::Events(verb) => verb::events::run(session, verb),
        Verb::Doctor => verb::doctor::run(session).await,
        Verb::WhatIf(args) => verb::what_if::run(session, args).await,
        Verb::Completions { shell } => verb::manual::completions(shell),
        Verb::Man { dir } => verb::manual::man(&dir),
        Verb::Help { words } => verb::manual::help(&words),
        // Not clients: `parse` made roles of their own of them.
        Verb::Up(_) | Verb::Server(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_asked_for_by_the_last_word_on_it_before_the_end_of_flags() {
        let wants = |line: &str| wants_json(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(wants("multica --output json frobnicate"));
        assert!(wants("multica frobnicate --output=json"));
        assert!(!wants("multica frobnicate --output json --output=table"));
        assert!(!wants("multica frobnicate json --output"));
        assert!(!wants("multica issue comment -- --output json"));
    }

    #[test]
    fn a_flag_that_would_change_nothing_is_refused() {
        assert!(Cli::try_parse_from(["multica", "up", "--demo", "--once"]).is_ok());
        let error = Cli::try_parse_from(["multica", "up", "--once"]).expect_err("there is no demo to end");
        assert!(error.to_string().contains("--demo"), "{error}");
    }

    #[test]
    fn a_verb_that_does_something_does_nothing_as_of_an_earlier_moment() {
        let shows = |line: &str| {
            let words = line.split(' ').chain(["--as-of", "-2h"]);
            Cli::try_parse_from(words).expect(line).verb.shows_the_past()
        };
        for reads in [
            "multica task list",
            "multica task show x",
            "multica task explain x",
            "multica task history x",
            "multica task logs x",
            "multica directory list",
            "multica directory show x",
            "multica issue list",
            "multica issue get x",
            "multica issue comment list x",
            "multica agent list",
            "multica agent get x",
            "multica project list",
            "multica project get x",
            "multica project resource list x",
            "multica daemon list",
            "multica workspace list",
            "multica token list",
            "multica webhook list",
            "multica webhook show x",
        ] {
            assert!(shows(reads), "{reads}");
        }
        for does in [
            "multica up",
            "multica server",
            "multica daemon start",
            "multica daemon status",
            "multica task cancel x",
            "multica task logs x --follow",
            "multica feed",
            "multica verify",
            "multica issue rerun x",
            "multica issue comment add x --content y",
            "multica audit",
            "multica auth status",
            "multica agent archive x",
            "multica webhook deliveries x",
            "multica webhook retry x --all",
            "multica webhook replay x --from 1",
            "multica webhook test x",
            "multica config show",
        ] {
            assert!(!shows(does), "{does}");
        }
    }

    #[test]
    fn what_the_parser_says_is_told_without_its_decoration() {
        let of = |line: &str| {
            let error = Cli::try_parse_from(line.split(' ')).expect_err("means nothing");
            let error = CliError::CommandLine(CommandLine::of(&error));
            (error.sentence(), error.next_step(), error.code(), error.exit_code())
        };
        let (sentence, step, code, exit) = of("multica task lisst");
        assert_eq!(sentence, "Unrecognized subcommand 'lisst'.");
        assert!(step.contains("'list'"), "{step}");
        assert_eq!((code.as_str(), exit), ("usage", 1));
        let (sentence, step, ..) = of("multica task show");
        assert_eq!(sentence, "The following required arguments were not provided: <TASK>.");
        assert_eq!(step, "See the verb's --help.");
        assert_eq!(of("multica task").0, "A verb is missing.");
    }
}
