//! Why a database that answers can't work now.
//!
//! Invariants: each kind is told by its name and by what an operator does about it.

use tokio_postgres::error::SqlState;

/// What a database lacks, by its own word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// 53100.
    #[error("the disk of the database is full")]
    Disk,
    /// 53200.
    #[error("the database is out of memory")]
    Memory,
    /// 53300.
    #[error("the database has no connection left")]
    Connections,
    /// Any other of class 53.
    #[error("the database is out of resources")]
    Resources,
    /// 57P03.
    #[error("the database is starting")]
    Starting,
    /// 57P01, 57P02.
    #[error("the database is stopping or starting again")]
    Stopping,
    /// 25006.
    #[error("the database takes no writes: it is read-only")]
    ReadOnly,
}

impl Shortage {
    /// The shortage that a state of a statement or a connection speaks of.
    #[must_use]
    pub fn of(state: &SqlState) -> Option<Self> {
        Some(match state.code() {
            "53100" => Self::Disk,
            "53200" => Self::Memory,
            "53300" => Self::Connections,
            "57P03" => Self::Starting,
            "57P01" | "57P02" => Self::Stopping,
            "25006" => Self::ReadOnly,
            other if other.starts_with("53") => Self::Resources,
            _ => return None,
        })
    }

    /// Its stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Disk => "database_disk_full",
            Self::Memory => "database_out_of_memory",
            Self::Connections => "database_connections_exhausted",
            Self::Resources => "database_out_of_resources",
            Self::Starting => "database_starting",
            // As if it weren't there already: in a moment it isn't.
            Self::Stopping => "database_unavailable",
            Self::ReadOnly => "database_read_only",
        }
    }

    /// Whether it may well be over within seconds.
    #[must_use]
    pub const fn passes(self) -> bool {
        !matches!(self, Self::Disk | Self::ReadOnly)
    }

    /// What an operator does now.
    #[must_use]
    pub const fn next_step(self) -> &'static str {
        match self {
            Self::Disk => {
                "Free space on the disk that holds the database's files; nothing is lost, and the same request works then."
            }
            Self::Memory => {
                "Give the database's machine more memory, or lower work_mem or max_connections; then send the same \
                 request again."
            }
            Self::Connections => {
                "Raise max_connections, or run fewer servers on this database; then send the same request again."
            }
            Self::Resources => {
                "Look in the database's log for what it lacks; then send the same request again."
            }
            Self::Starting | Self::Stopping => "Send the same request again in a few seconds.",
            Self::ReadOnly => {
                "Let DATABASE_URL name the primary (not a standby), and look whether default_transaction_read_only is on."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_of_a_database_that_can_not_work_has_its_own_name_and_step() {
        let named = [
            (SqlState::DISK_FULL, Shortage::Disk, "database_disk_full", false),
            (SqlState::OUT_OF_MEMORY, Shortage::Memory, "database_out_of_memory", true),
            (SqlState::TOO_MANY_CONNECTIONS, Shortage::Connections, "database_connections_exhausted", true),
            (SqlState::INSUFFICIENT_RESOURCES, Shortage::Resources, "database_out_of_resources", true),
            (SqlState::CONFIGURATION_LIMIT_EXCEEDED, Shortage::Resources, "database_out_of_resources", true),
            (SqlState::CANNOT_CONNECT_NOW, Shortage::Starting, "database_starting", true),
            (SqlState::ADMIN_SHUTDOWN, Shortage::Stopping, "database_unavailable", true),
            (SqlState::CRASH_SHUTDOWN, Shortage::Stopping, "database_unavailable", true),
            (SqlState::READ_ONLY_SQL_TRANSACTION, Shortage::ReadOnly, "database_read_only", false),
        ];
        for (state, shortage, code, passes) in named {
            let found = Shortage::of(&state).unwrap();
            assert_eq!((found, found.code(), found.passes()), (shortage, code, passes), "{state:?}");
            assert!(found.to_string().starts_with("the database") || found == Shortage::Disk);
            assert!(found.next_step().ends_with('.'));
        }
    }

    #[test]
    fn a_statement_s_own_fault_is_no_shortage() {
        for state in [SqlState::UNIQUE_VIOLATION, SqlState::SYNTAX_ERROR, SqlState::QUERY_CANCELED] {
            assert_eq!(Shortage::of(&state), None, "{state:?}");
        }
    }
}
