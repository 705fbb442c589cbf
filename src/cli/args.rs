//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::run::ClientRole;
use super::verb;
use crate::kernel::moment::Moment;

/// What this process is to be.
#[derive(Debug)]
pub enum Role {
    /// Everything on this machine: private database, server, daemon.
    Up(Common, UpArgs),
    /// The server.
    Server(Common, ServerArgs),
    /// The daemon, in this process.
    Daemon(Common, DaemonStart),
    /// A verb that asks the server, or local files.
    Client(Box<ClientRole>),
}

/// Runs coding agents in real directories, and can say at any later time what happened and why.
#[derive(Debug, Parser)]
#[command(name = "multica", version, max_term_width = 110, disable_help_subcommand = true)]
#[command(after_help = "Explained at length: multica help local-directories, multica help webhooks")]
pub struct Cli {
    /// Flags of every verb.
    #[command(flatten)]
    pub common: Common,
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Flags of every verb.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// The server's address [env: MULTICA_SERVER_URL].
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub server_url: Option<String>,
    /// The workspace, by id or slug [env: MULTICA_WORKSPACE_ID].
    #[arg(long, global = true, value_name = "ID", help_heading = "Global options")]
    pub workspace_id: Option<String>,
    /// The profile whose files count [env: MULTICA_PROFILE].
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub profile: Option<String>,
    /// A table for people, or JSON for programs.
    #[arg(long, global = true, value_enum, default_value_t = Format::Table, help_heading = "Global options")]
    pub output: Format,
    /// Shows what was there at an earlier moment: a position of the log, a time (`2026-12-01 14:00`, UTC unless it
    /// names a zone, as all times shown), or how long ago (`2h`). For verbs that list and show.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        allow_hyphen_values = true,
        help_heading = "Global options"
    )]
    pub as_of: Option<Moment>,
    /// Says more about what goes on, on standard error.
    #[arg(long, global = true, help_heading = "Global options")]
    pub debug: bool,
}

impl Common {
    /// Whether a program reads.
    #[must_use]
    pub fn wants_json(&self) -> bool {
        self.output == Format::Json
    }
}

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Starts everything on this machine and prints a sign-in link.
    Up(UpArgs),
    /// Runs the server on a PostgreSQL (DATABASE_URL).
    Server(ServerArgs),
    /// The daemon that runs agents on this machine.
    #[command(subcommand)]
    Daemon(verb::daemon::DaemonVerb),
    /// Projects and what is attached to them.
    #[command(subcommand)]
    Project(verb::project::ProjectVerb),
    /// Agents: who does the work.
    #[command(subcommand)]
    Agent(verb::agent::AgentVerb),
    /// Issues: what is to be done.
    #[command(subcommand)]
    Issue(verb::issue::IssueVerb),
    /// Tasks: the runs of agents, and why they are where they are.
    #[command(subcommand)]
    Task(verb::task::TaskVerb),
    /// Directories: who works in them and who waits.
    #[command(subcommand)]
    Directory(verb::directory::DirectoryVerb),
    /// Webhooks: addresses that events are delivered to, signed, in order, at least once.
    #[command(subcommand)]
    Webhook(verb::webhook::WebhookVerb),
    /// Who did what: events and refused commands, filtered, shown whole, exported.
    Audit(Box<verb::audit::AuditArgs>),
    /// Everything that happens, as it happens.
    Feed(verb::task::FeedArgs),
    /// Workspaces.
    #[command(subcommand)]
    Workspace(verb::account::WorkspaceVerb),
    /// Access tokens.
    #[command(subcommand)]
    Token(verb::account::TokenVerb),
    /// Keeps a token and a server in the profile.
    Login(verb::account::LoginArgs),
    /// Who one is for the server.
    #[command(subcommand)]
    Auth(verb::account::AuthVerb),
    /// The profile's settings.
    #[command(subcommand)]
    Config(verb::account::ConfigVerb),
    /// Checks the log against itself and its seals, and the read models against the log.
    Verify(verb::verify::VerifyArgs),
    /// Keeps the hash of the log's last block outside the database, so that no change of the log goes unseen.
    Seal(verb::verify::SealArgs),
    /// Takes away for good what a person wrote, or what a run said; the events stay.
    #[command(subcommand)]
    Erase(verb::erase::EraseVerb),
    /// How long transcripts are kept, and what would be removed now.
    Retention(verb::retention::RetentionArgs),
    /// Goes through a task's exported history with the rules of this build; needs no server.
    Replay(verb::replay::ReplayFile),
    /// Read models: how they stand, rebuilt beside the live ones, compared with the log.
    #[command(subcommand)]
    Projections(verb::projections::ProjectionsVerb),
    /// Events: what stands in the log.
    #[command(subcommand)]
    Events(verb::events::EventsVerb),
    /// Looks after the installation: server, database, read models, daemons, and what to do about each.
    Doctor,
    /// Goes through recorded history with another value of a timer, and lists the tasks that would have gone
    /// differently.
    WhatIf(verb::what_if::WhatIfArgs),
    /// Prints a shell's completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Writes man pages into a directory.
    Man {
        /// Where to.
        dir: PathBuf,
    },
    /// Explains a topic, or a verb.
    Help {
        /// `local-directories`, `webhooks`, or the words of a verb.
        words: Vec<String>,
    },
}

impl Verb {
    /// Whether it can show what was there at an earlier moment. A verb that isn't named here refuses to.
    #[must_use]
    pub const fn shows_the_past(&self) -> bool {
        use verb::account::{TokenVerb, WorkspaceVerb};
        use verb::agent::AgentVerb;
        use verb::daemon::DaemonVerb;
        use verb::issue::{CommentVerb, IssueVerb};
        use verb::project::ProjectVerb;
        use verb::resource::ResourceVerb;
        use verb::task::TaskVerb;
        use verb::webhook::WebhookVerb;
        matches!(
            self,
            Self::Daemon(DaemonVerb::List)
                | Self::Project(
                    ProjectVerb::List
                        | ProjectVerb::Get { .. }
                        | ProjectVerb::Resource(ResourceVerb::List { .. })
                )
                | Self::Agent(AgentVerb::List | AgentVerb::Get { .. })
                | Self::Issue(
                    IssueVerb::List { .. }
                        | IssueVerb::Get { .. }
                        | IssueVerb::Comment(CommentVerb::List { .. })
                )
                | Self::Task(
                    TaskVerb::List(_)
                        | TaskVerb::Show { .. }
                        | TaskVerb::Explain { .. }
                        | TaskVerb::History { .. }
                        | TaskVerb::Replay { .. }
                        | TaskVerb::Stranded
                        | TaskVerb::Logs { follow: false, .. }
                )
                | Self::Directory(_)
                | Self::WhatIf(_)
                | Self::Workspace(WorkspaceVerb::List)
                | Self::Token(TokenVerb::List)
                | Self::Webhook(WebhookVerb::List | WebhookVerb::Show { .. })
        )
    }
}

/// `multica up`.
#[derive(Debug, Clone, Default, Args)]
pub struct UpArgs {
    /// Fills an example project with agents and directories.
    #[arg(long)]
    pub demo: bool,
    /// Stops by itself once the demo has run.
    #[arg(long, requires = "demo")]
    pub once: bool,
    /// The port of web UI and API; otherwise the last one, or the first that is free from 8080 on.
    #[arg(long)]
    pub port: Option<u16>,
    /// Starts no daemon.
    #[arg(long)]
    pub no_daemon: bool,
    /// Where database, key and log are kept; otherwise `multica/PROFILE` in the user's data folder (as root
    /// /var/lib/multica/profiles/PROFILE).
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// How long a clean stop waits for running tasks, seconds.
    #[arg(long, value_name = "SECONDS")]
    pub drain: Option<u64>,
    /// Where the log is sealed to every hour: `file:PATH` or `git:REPOSITORY`; may be given more than once
    /// [env: MULTICA_SEAL_TO]; otherwise a file beside the data directory.
    #[arg(long, value_name = "PLACE")]
    pub seal_to: Vec<String>,
    /// Removes the transcript of a task that is over once its last message is older than so many days
    /// [env: MULTICA_KEEP_TRANSCRIPTS]; otherwise transcripts are kept. `multica retention` shows what would go.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub keep_transcripts: Option<u32>,
    /// Whom webhooks are delivered to: a name, `*.NAME`, a range of addresses such as `10.1.0.0/16` (private ones only
    /// so), or `public`; may be given more than once [env: MULTICA_WEBHOOK_TO]; otherwise every public address.
    #[arg(long, value_name = "WHOM")]
    pub webhook_to: Vec<String>,
}

/// `multica server`.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerArgs {
    /// The address it listens on.
    #[arg(long, default_value = "127.0.0.1")]
    pub bind: String,
    /// The port.
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// Says that TLS is done in front of an address that isn't loopback.
    #[arg(long)]
    pub behind_tls: bool,
    /// Where the log is sealed to every hour: `file:PATH` or `git:REPOSITORY`; may be given more than once
    /// [env: MULTICA_SEAL_TO]; otherwise nowhere.
    #[arg(long, value_name = "PLACE")]
    pub seal_to: Vec<String>,
    /// Removes the transcript of a task that is over once its last message is older than so many days
    /// [env: MULTICA_KEEP_TRANSCRIPTS]; otherwise transcripts are kept. `multica retention` shows what would go.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub keep_transcripts: Option<u32>,
    /// Whom webhooks are delivered to: a name, `*.NAME`, a range of addresses such as `10.1.0.0/16` (private ones only
    /// so), or `public`; may be given more than once [env: MULTICA_WEBHOOK_TO]; otherwise every public address.
    #[arg(long, value_name = "WHOM")]
    pub webhook_to: Vec<String>,
}

/// `multica daemon start`.
#[derive(Debug, Clone, Default, Args)]
pub struct DaemonStart {
    /// Stays in this terminal.
    #[arg(long)]
    pub foreground: bool,
    /// Logs to the daemon's own file instead of the terminal: set by a start in the background.
    #[arg(long, hide = true)]
    pub log_to_file: bool,
    /// The daemon's id, instead of the machine's [env: MULTICA_DAEMON_ID].
    #[arg(long, value_name = "ID")]
    pub daemon_id: Option<String>,
    /// What the machine is called [env: MULTICA_DAEMON_DEVICE_NAME].
    #[arg(long, value_name = "NAME")]
    pub device_name: Option<String>,
    /// Where runs get their own folders [env: MULTICA_WORKSPACES_ROOT].
    #[arg(long, value_name = "DIR")]
    pub workspaces_root: Option<PathBuf>,
    /// Tasks at once [env: MULTICA_DAEMON_MAX_CONCURRENT_TASKS].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_concurrent_tasks: Option<u32>,
    /// The local port for health and stop; the next free one is taken if it is in use.
    #[arg(long, value_name = "PORT")]
    pub health_port: Option<u16>,
    /// How long a clean stop waits for running tasks, seconds.
    #[arg(long, value_name = "SECONDS")]
    pub drain: Option<u64>,
}
