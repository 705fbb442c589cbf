//! What can stop a private PostgreSQL from starting, with the next step for each.

use std::io;
use std::path::PathBuf;

/// Why there is no private PostgreSQL.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Nothing on this machine holds both `initdb` and `postgres`.
    #[error("no PostgreSQL server found (looked in {})", looked_in(.looked))]
    NoServer {
        /// The folders that were looked into.
        looked: Vec<PathBuf>,
    },
    /// The folder given by hand isn't one.
    #[error("{} does not hold both initdb and postgres", .bin.display())]
    NotAServer {
        /// The folder.
        bin: PathBuf,
    },
    /// The cluster was made by another major version than those installed.
    #[error("the cluster in {} is of PostgreSQL {wanted}, found {}", .data.display(), majors(.found))]
    OtherMajor {
        /// The cluster.
        data: PathBuf,
        /// Its major version.
        wanted: u32,
        /// Those installed.
        found: Vec<u32>,
    },
    /// The server is older than what the SQL needs.
    #[error("PostgreSQL {found} is too old, {floor} is the oldest that works")]
    TooOld {
        /// Its major version.
        found: u32,
        /// The oldest one.
        floor: u32,
    },
    /// We have no account to run it as.
    #[error("no account to run PostgreSQL as: {tried}")]
    NoAccount {
        /// Which were tried.
        tried: String,
    },
    /// The account database can't be read.
    #[error("cannot look up accounts")]
    Accounts(#[from] crate::process::account::LookupError),
    /// The account can't walk into the data directory.
    #[error("account {account} may not enter {}", .folder.display())]
    NotWalkable {
        /// The account.
        account: String,
        /// The folder that stops it.
        folder: PathBuf,
    },
    /// Another server process runs on this data directory.
    #[error("{} is in use by another multica", .lock.display())]
    InUse {
        /// The lock file.
        lock: PathBuf,
    },
    /// A file can't be made, read or given away.
    #[error("cannot {action} {}", .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// `initdb` said no.
    #[error("initdb failed: {said}")]
    InitDb {
        /// The end of what it wrote.
        said: String,
    },
    /// The server doesn't start or doesn't answer in time.
    #[error("PostgreSQL does not answer; the end of {}: {said}", .log.display())]
    NoAnswer {
        /// Its log.
        log: PathBuf,
        /// The log's end.
        said: String,
    },
    /// It answers, but the product's database can't be made.
    #[error("cannot create database {database}")]
    Database {
        /// Its name.
        database: String,
        /// What it said.
        #[source]
        source: tokio_postgres::Error,
    },
}

impl EmbeddedError {
    /// What to do now, as a sentence.
    #[must_use]
    pub fn next_step(&self) -> String {
        match self {
            Self::NoServer { .. } | Self::TooOld { .. } => INSTALL.to_owned(),
            Self::NotAServer { .. } => {
                "Set MULTICA_PG_BIN to the folder that holds initdb and postgres, or unset it.".to_owned()
            }
            Self::OtherMajor { wanted, .. } => {
                format!("Install PostgreSQL {wanted} beside the other, or move the data with pg_upgrade.")
            }
            Self::NoAccount { .. } => {
                "Make an account for it (useradd --system postgres) or name one in MULTICA_PG_ACCOUNT."
                    .to_owned()
            }
            Self::NotWalkable { account, .. } => format!(
                "Choose a data directory that {account} can reach, such as /var/lib/multica, or run as an ordinary user."
            ),
            Self::InUse { .. } => {
                "Stop the other one (Ctrl-C in its terminal), or give this one a place of its own: `--data-dir DIR`.".to_owned()
            }
            Self::Accounts(_) | Self::File { .. } => {
                "Check the permissions and the free space there.".to_owned()
            }
            Self::InitDb { .. } | Self::NoAnswer { .. } | Self::Database { .. } => {
                "Read the server's log; it names the cause.".to_owned()
            }
        }
    }
}

const INSTALL: &str = "Install one: `apt install postgresql` (Debian, Ubuntu), `dnf install postgresql-server` \
(Fedora, RHEL), `brew install postgresql@17` (macOS), or give an existing server with DATABASE_URL.";

fn looked_in(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn majors(found: &[u32]) -> String {
    if found.is_empty() {
        return "none".to_owned();
    }
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
