//! How a verb fails: a sentence, the next step, and an exit code that says whose move it is.

use std::path::PathBuf;

use super::output::as_sentence;
use crate::client::config::ConfigError;
use crate::client::error::ClientError;
use crate::client::in_task::TaskContext;
use crate::kernel::error_chain::Chain;
use crate::kernel::text::Unkept;
use crate::seal::SealError;

/// A verb failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server, or the way to it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A person's verb inside a task.
    #[error("`multica {verb}` isn't for use inside a task ({because})", because = .context.because())]
    InTask {
        /// The verb.
        verb: &'static str,
        /// What says that we are inside one.
        context: TaskContext,
    },
    /// A call with a person's token inside a task.
    #[error("this is inside a task ({because}), where only the task's own token counts", because = .0.because())]
    NoTaskToken(TaskContext),
    /// No server is known.
    #[error("no server is configured")]
    NoServer,
    /// No token is known.
    #[error("not signed in")]
    NotSignedIn,
    /// A reference names nothing.
    #[error("no {kind} is called `{reference}`")]
    Unknown {
        /// project, agent, …
        kind: &'static str,
        /// As typed.
        reference: String,
    },
    /// A reference names several.
    #[error("`{reference}` fits {count} {kind}s: {these}", these = .candidates.join(", "), count = .candidates.len())]
    Ambiguous {
        /// project, agent, …
        kind: &'static str,
        /// As typed.
        reference: String,
        /// Ids and names.
        candidates: Vec<String>,
    },
    /// A command line that means nothing.
    #[error("{0}")]
    CommandLine(CommandLine),
    /// Flags that don't go together, or one that is missing.
    #[error("{0}")]
    Usage(UsageError),
    /// No daemon of that id has a runtime.
    #[error("no daemon with the id `{daemon}` offers anything")]
    NoSuchDaemon {
        /// As typed.
        daemon: String,
        /// Those that do.
        known: Vec<String>,
    },
    /// No runtime of that provider is registered.
    #[error("no runtime of provider `{provider}` is registered{for_daemon}", for_daemon = .daemon.as_deref().map(|d| format!(" by daemon {d}")).unwrap_or_default())]
    NoRuntime {
        /// The provider.
        provider: String,
        /// The daemon asked for.
        daemon: Option<String>,
        /// Providers that are there.
        found: Vec<String>,
    },
    /// The local daemon.
    #[error(transparent)]
    Daemon(#[from] crate::daemon::control::ControlError),
    /// A file can't be read or written.
    #[error("can't use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file isn't the bundle that it should be.
    #[error(transparent)]
    Bundle(#[from] crate::wire::bundle::BundleError),
    /// Standard input or output failed.
    #[error("can't write the result")]
    Output(#[source] std::io::Error),
    /// Too late to stop it.
    #[error("{task} is {status}: there is nothing left to cancel")]
    Over {
        /// The task's name.
        task: String,
        /// What became of it.
        status: String,
    },
    /// It is over, and its machine is told already to stop what is left of it.
    #[error("{task} is {status}, and its machine is told to stop what is left of it; it hasn't answered yet")]
    Stopping {
        /// The task's name.
        task: String,
        /// What became of it.
        status: String,
    },
    /// Seals can't be kept or read there.
    #[error(transparent)]
    Seals(#[from] SealError),
    /// A place holds no seal of this installation.
    #[error("`{place}` holds no seal of this installation")]
    NoSeals {
        /// The place.
        place: String,
    },
    /// An export ended before its end; what is in the file stays.
    #[error("the export broke off")]
    ExportBroken {
        /// The file, which holds whole lines up to there.
        file: Option<PathBuf>,
        /// Why.
        #[source]
        source: ClientError,
    },
    /// A file that an export is to go on in holds something else.
    #[error("{file} is no export that can be gone on with")]
    NoExport {
        /// The file.
        file: PathBuf,
    },
    /// A test that a webhook's receiver didn't take.
    #[error("{webhook} didn't take the test: {why}")]
    NotTaken {
        /// The webhook.
        webhook: String,
        /// Why.
        why: String,
    },
    /// Something of the installation doesn't work.
    #[error("{faults} thing(s) need looking after")]
    Unwell {
        /// How many.
        faults: usize,
    },
    /// The log or a read model is not what it should be.
    #[error("the check found {findings} fault(s)")]
    NotVerified {
        /// How many.
        findings: usize,
    },
}

/// What the parser says of a command line, in its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    problem: String,
    tips: Vec<String>,
}

impl CommandLine {
    /// Reads what is printed for people: a paragraph, tips, the usage.
    #[must_use]
    pub fn of(error: &clap::Error) -> Self {
        use clap::error::ErrorKind::{DisplayHelpOnMissingArgumentOrSubcommand, MissingSubcommand};
        if matches!(error.kind(), DisplayHelpOnMissingArgumentOrSubcommand | MissingSubcommand) {
            return Self { problem: "a verb is missing".to_owned(), tips: Vec::new() };
        }
        let text = error.render().to_string();
        let mut paragraphs = text.split("\n\n");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let problem = words(paragraphs.next().unwrap_or_default().trim_start_matches("error:"));
        let tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip:")).map(words).collect();
        Self { problem, tips }
    }
}

impl std::fmt::Display for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem)
    }
}

/// See [`CliError::Usage`].
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// `local_directory` without a path.
    #[error("a local_directory needs --local-path")]
    LocalPath,
    /// A path whose bytes are no UTF-8.
    #[error("the directory's path isn't UTF-8")]
    PathNotUtf8,
    /// `github_repo` without a URL.
    #[error("a github_repo needs --url")]
    Url,
    /// Another type without its reference.
    #[error("a resource of type {0} needs --ref with a JSON object")]
    Ref(String),
    /// `--ref` isn't a JSON object.
    #[error("--ref isn't a JSON object")]
    RefForm,
    /// Provider `command` without a program.
    #[error("provider command needs --command")]
    Command,
    /// A program for another provider.
    #[error("--command, --arg and --prompt are for provider command only")]
    NotCommand,
    /// A part of a command line for an agent that has none.
    #[error(
        "`{0}` starts its own program: it takes --custom-arg, not --command, --arg, --no-args and --prompt"
    )]
    NoProgram(String),
    /// A text is asked for and missing.
    #[error("the text is missing")]
    Text,
    /// A text that can't be kept as it was written.
    #[error("the text on standard input can't be kept: {0}")]
    Unkept(Unkept),
    /// A topic that isn't there.
    #[error("there is no help on `{0}`")]
    Topic(String),
    /// A moment for a verb that doesn't show what was.
    #[error(
        "--as-of is for verbs that list and show what is kept: this one does something, or follows the log itself"
    )]
    AsOf,
    /// An event type or version that this build doesn't have.
    #[error("this build has no schema of `{name}`{has}", has = has_versions(.versions))]
    EventType {
        /// As typed.
        name: String,
        /// The type's versions, where it is one.
        versions: Vec<String>,
    },
    /// Read models are asked for, and none is named.
    #[error("name read models, or say --all")]
    NoReadModel,
    /// Nothing to change.
    #[error("nothing to change was given")]
    NothingToChange,
}

fn has_versions(versions: &[String]) -> String {
    if versions.is_empty() { String::new() } else { format!("; its versions are {}", versions.join(", ")) }
}

impl CliError {
    /// 0 ok · 1 anything else · 2 network · 3 not allowed · 4 not found · 5 the request is wrong.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Client(error) => match error.status() {
                Some(401 | 403) => 3,
                Some(404) => 4,
                Some(400 | 422) => 5,
                Some(_) => 1,
                None if error.is_transient() => 2,
                None => 1,
            },
            Self::NotSignedIn | Self::InTask { .. } | Self::NoTaskToken(_) => 3,
            Self::Config(ConfigError::ProfileInTask(_) | ConfigError::NoTaskToken(_)) => 3,
            Self::Unknown { .. } | Self::NoSuchDaemon { .. } | Self::NoRuntime { .. } => 4,
            Self::ExportBroken { .. } => 2,
            Self::Ambiguous { .. } | Self::Usage(_) => 5,
            _ => 1,
        }
    }

    /// A stable code for programs.
    #[must_use]
    pub fn code(&self) -> String {
        let own = match self {
            Self::Client(error) if !error.code().is_empty() => return error.code().to_owned(),
            Self::Client(_) => "server_unreachable",
            Self::Config(_) => "config",
            Self::InTask { .. } | Self::NoTaskToken(_) => "inside_task",
            Self::NoServer => "no_server",
            Self::NotSignedIn => "not_signed_in",
            Self::Unknown { .. } | Self::NoSuchDaemon { .. } => "not_found",
            Self::Ambiguous { .. } => "ambiguous",
            Self::Usage(UsageError::Unkept(Unkept::Nul { .. })) => "text_holds_nul",
            Self::Usage(UsageError::Unkept(Unkept::NotUtf8 { .. })) => "text_not_utf8",
            Self::CommandLine(_) | Self::Usage(_) => "usage",
            Self::NoRuntime { .. } => "no_runtime",
            Self::Daemon(_) => "daemon",
            Self::File { .. } => "file",
            Self::Bundle(_) => "bundle",
            Self::Output(_) => "output",
            Self::Over { .. } => "task_over",
            Self::Stopping { .. } => "task_stopping",
            Self::Seals(_) => "seals",
            Self::NoSeals { .. } => "no_seals",
            Self::ExportBroken { .. } => "export_broken",
            Self::NoExport { .. } => "no_export",
            Self::NotVerified { .. } => "not_verified",
            Self::NotTaken { .. } => "not_taken",
            Self::Unwell { .. } => "unwell",
        };
        own.to_owned()
    }

    /// What happened, as a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        if let Self::Client(ClientError::Refused(refused)) = self {
            return refused.sentence.clone();
        }
        as_sentence(&Chain(self).to_string())
    }

    /// What to do now.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::Client(error) => client_step(error),
            Self::NoTaskToken(context) | Self::InTask { context, .. } => context.next_step(),
            Self::Config(error) => error.next_step(),
            Self::File { source, .. } => file_step(source.kind()).to_owned(),
            Self::Bundle(_) => "Write one anew with `multica task export TASK --file PATH`; a newer one needs a newer build."
                .to_owned(),
            Self::NoServer => {
                "Start one with `multica up`, or name it: `multica login --server-url URL --token TOKEN`. The demo is a \
                 profile of its own: `multica feed --profile demo`."
                    .to_owned()
            }
            Self::NotSignedIn => "Sign in: `multica login --token TOKEN`.".to_owned(),
            Self::Unknown { kind, .. } => unknown_step(kind),
            Self::Ambiguous { .. } => "Use the id.".to_owned(),
            Self::Usage(UsageError::AsOf) => {
                "Leave --as-of out; what happened up to then: `multica audit --until WHEN`.".to_owned()
            }
            Self::Usage(UsageError::Topic(_)) => {
                "Topics are local-directories and every verb: `multica --help` names them.".to_owned()
            }
            Self::Usage(UsageError::PathNotUtf8) => {
                "Rename the directory, or attach it by a symlink whose path is UTF-8.".to_owned()
            }
            Self::Usage(UsageError::EventType { .. }) => "List them: `multica events schema`.".to_owned(),
            Self::Usage(UsageError::NoReadModel) => "List them: `multica projections list`.".to_owned(),
            Self::CommandLine(CommandLine { tips, .. }) if !tips.is_empty() => tips.join("; "),
            Self::Usage(UsageError::Unkept(Unkept::Nul { .. })) => {
                "Take the NUL characters out (`tr -d '\\0'`), and give it again.".to_owned()
            }
            Self::Usage(UsageError::Unkept(Unkept::NotUtf8 { .. })) => {
                "Write it as UTF-8 (`iconv -f latin1 -t utf-8`), and give it again.".to_owned()
            }
            Self::CommandLine(_) | Self::Usage(_) => "See the verb's --help.".to_owned(),
            Self::NoSuchDaemon { known, .. } if known.is_empty() => {
                "Start a daemon: `multica daemon start`.".to_owned()
            }
            Self::NoSuchDaemon { known, .. } => {
                format!("There are: {}. See `multica daemon list`.", known.join(", "))
            }
            Self::NoRuntime { found, .. } if found.is_empty() => {
                "Start a daemon: `multica daemon start`.".to_owned()
            }
            Self::NoRuntime { found, .. } => format!(
                "Registered are: {}. Install the provider's program on the daemon's machine and restart the daemon.",
                found.join(", ")
            ),
            Self::Daemon(error) => error.next_step(),
            Self::Output(_) => "Check where standard output goes.".to_owned(),
            Self::Stopping { task, .. } => format!("See what it waits for: `multica task explain {task}`."),
            Self::Over { task, .. } => format!("See what it did: `multica task show {task}`."),
            Self::Seals(error) => error.next_step(),
            Self::NoSeals { place } => {
                format!("Name the place where they are, or begin to keep them: `multica seal --to {place}`.")
            }
            Self::ExportBroken { file: Some(_), .. } => {
                "Run the same command again: it goes on after the last whole line of the file.".to_owned()
            }
            Self::ExportBroken { file: None, .. } => {
                "Run it again with `--after` and the cursor of the last whole line, or with --file.".to_owned()
            }
            Self::NoExport { .. } => {
                "Name another file, or the format in which that one was written.".to_owned()
            }
            Self::NotTaken { webhook, .. } => {
                format!("Look at the receiver, or at the address: `multica webhook show {webhook}`.")
            }
            Self::Unwell { .. } => "Each line names what helps.".to_owned(),
            Self::NotVerified { .. } => {
                "Keep the data as it is; each finding names where to look.".to_owned()
            }
        }
    }
}

/// What helps with a file that can't be used.
const fn file_step(kind: std::io::ErrorKind) -> &'static str {
    use std::io::ErrorKind;
    match kind {
        ErrorKind::AlreadyExists => "What is there stays as it is: name a file that isn't there yet.",
        ErrorKind::NotFound => {
            "Check how the path is written: it, or a folder on the way to it, isn't there."
        }
        ErrorKind::IsADirectory => "Name a file: this is a folder.",
        ErrorKind::NotADirectory => "Check how the path is written: a part of it is no folder.",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "Make room there, or name a file elsewhere.",
        ErrorKind::InvalidData => "Name a file that holds text.",
        _ => "Check the path and its permissions.",
    }
}

fn client_step(error: &ClientError) -> String {
    match error {
        ClientError::Refused(refused) if !refused.next_step.is_empty() => refused.next_step.clone(),
        ClientError::Refused(refused) => match refused.status {
            401 => "Sign in: `multica login --token TOKEN`.".to_owned(),
            403 => "Ask an owner or admin of the workspace.".to_owned(),
            404 => "List what there is and use an id or name from there.".to_owned(),
            status if status >= 500 => "Try again; if it stays, look at the server's log.".to_owned(),
            _ => "Change the request and try again.".to_owned(),
        },
        ClientError::Unreachable { .. } => {
            "Start the server (`multica up`), or check --server-url and the network.".to_owned()
        }
        ClientError::Silent { .. } => "Send the same request again.".to_owned(),
        ClientError::TimedOut { .. } => {
            "Try again: the same write is never done twice by a retry of the server.".to_owned()
        }
        ClientError::Address { .. } => "Give an address like http://127.0.0.1:8080.".to_owned(),
        ClientError::Unreadable { .. } => {
            "Check that the address is a multica server of a fitting version.".to_owned()
        }
        ClientError::BadToken => "Sign in again: `multica login --token TOKEN`.".to_owned(),
        ClientError::Setup(_) | ClientError::Unwritable { .. } => {
            "Report this with --debug output.".to_owned()
        }
    }
}

fn unknown_step(kind: &str) -> String {
    match kind {
        "member" | "assignee" => "List who there is: `multica agent list`.".to_owned(),
        "resource" => "List them: `multica project resource list PROJECT`.".to_owned(),
        _ => format!("List what there is: `multica {kind} list`."),
    }
}
