//! From words to a role, and a client's role from start to exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use super::args::{Cli, Common, DaemonStart, Format, Role, Verb};
use super::error::CliError;
use super::output;
use super::session::Session;
use super::verb;
use crate::daemon::DaemonConfig;
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
    let cli = Cli::try_parse_from(words).map_err(|error| {
        // Nobody to tell it to: the exit code still says it.
        drop(error.print());
        if error.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS }
    })?;
    let Cli { common, verb } = cli;
    Ok(match verb {
        Verb::Up(args) => Role::Up(common, args),
        Verb::Server(args) => Role::Server(common, args),
        Verb::Daemon(verb::daemon::DaemonVerb::Start(args)) if args.foreground => Role::Daemon(common, args),
        verb => Role::Client(Box::new(ClientRole { common, verb })),
    })
}

/// Runs a client's verb and says how it went.
pub async fn run(role: ClientRole, limits: Limits) -> ExitCode {
    let json = role.common.output == Format::Json;
    let session = Session::new(&role.common, limits);
    match dispatch(&session, role).await {
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

/// Settles how `daemon start --foreground` runs.
///
/// # Errors
/// When something is missing, or this is inside a task.
pub fn daemon_config(common: &Common, args: &DaemonStart, limits: Limits) -> Result<DaemonConfig, CliError> {
    verb::daemon::daemon_config(&Session::new(common, limits), args)
}

async fn dispatch(session: &Session, role: ClientRole) -> Result<(), CliError> {
    match role.verb {
        Verb::Daemon(verb) => verb::daemon::run(session, &role.common, verb).await,
        Verb::Project(verb) => verb::project::run(session, verb).await,
        Verb::Agent(verb) => verb::agent::run(session, verb).await,
        Verb::Issue(verb) => verb::issue::run(session, verb).await,
        Verb::Task(verb) => verb::task::run(session, verb).await,
        Verb::Directory(verb) => verb::directory::run(session, verb).await,
        Verb::Feed(args) => verb::task::feed(session, args).await,
        Verb::Workspace(verb) => verb::account::workspace(session, verb).await,
        Verb::Token(verb) => verb::account::token(session, verb).await,
        Verb::Login(args) => verb::account::login(session, args).await,
        Verb::Auth(verb) => verb::account::auth(session, verb).await,
        Verb::Config(verb) => verb::account::config(session, verb),
        Verb::Verify => verb::verify::run(session).await,
        Verb::Completions { shell } => verb::manual::completions(shell),
        Verb::Man { dir } => verb::manual::man(&dir),
        Verb::Help { words } => verb::manual::help(&words),
        // Not clients: `parse` made roles of their own of them.
        Verb::Up(_) | Verb::Server(_) => Ok(()),
    }
}
